"""The caller of a short process, found before the command line is loaded."""

import pytest
from platformdirs import user_data_path, user_state_path

from commonbrain.folders import default_state, default_store
from commonbrain.runtime.callers import CommandLine, parse_command_line, put_global_first


def test_options_before_a_command_are_parsed() -> None:
    names = CommandLine(store="b.db", agent="ann", session="s", words=("mcp",))
    words = ["--store", "b.db", "--agent=ann", "mcp"]
    environment = {"COMMONBRAIN_SESSION": "s", "COMMONBRAIN_AGENT": "x"}
    assert parse_command_line(words, environment) == names
    for other in (["--store", "mcp"], ["--x", "mcp"], ["--store"], ["--", "mcp"], [""], []):
        assert parse_command_line(other, {}) is None
    with_option = parse_command_line(["recall", "--agent", "x", "--", "mcp"], {})
    assert with_option == CommandLine(words=("recall", "--agent", "x", "--", "mcp"))


@pytest.mark.parametrize(
    ("typed", "parsed"),
    [
        ("remember text --agent ann", "--agent ann remember text"),
        ("remember --store=b.db text --json", "--store=b.db remember text --json"),
        ("--agent ann recall text --agent bob", "--agent ann recall text --agent bob"),
        ("session list --agent bob --tenant t", "--tenant t session list --agent bob"),
        ("session end --agent bob", "--agent bob session end"),
        ("recall --agent", "recall --agent"),
        ("remember --agent", "--agent remember"),
        ("remember --agent ann -- --agent bob", "--agent ann remember -- --agent bob"),
        ("--json list", "list --json"),
        ("--json forget --agent bob --tenant t", "--tenant t forget --agent bob --json"),
        ("--json session list --agent bob", "session list --agent bob --json"),
        ("--json", "--json"),
        ("version", "--version"),
        ("version x", "version x"),
        ("help", "--help"),
        ("help session list", "session list --help"),
        ("", ""),
    ],
)
def test_global_options_count_wherever_they_are_typed(typed: str, parsed: str) -> None:
    assert put_global_first(typed.split()) == parsed.split()


@pytest.mark.parametrize("home", ["/home/ann", "/home/ann/", "relative", "", None])
@pytest.mark.parametrize("folder", ["/data", "relative", "", None])
def test_usual_folders_are_those_of_the_system(
    monkeypatch: pytest.MonkeyPatch, home: str | None, folder: str | None
) -> None:
    for name, value in {"HOME": home, "XDG_DATA_HOME": folder, "XDG_STATE_HOME": folder}.items():
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)

    assert default_store() == user_data_path("commonbrain", appauthor=False) / "brain.db"
    assert default_state() == user_state_path("commonbrain", appauthor=False)
