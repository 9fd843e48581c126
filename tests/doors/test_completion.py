"""Shells complete commands, options and closed sets of values, and open no store for it."""

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from commonbrain.api.operations import OPERATIONS
from commonbrain.integrations import CLIENTS
from commonbrain.model.kinds import Kind
from commonbrain.transfer.importers import IMPORTERS
from commonbrain.transfer.merge import OWN_FORMAT
from tests.processes import PATIENCE_S, clean_environment

BRAIN = str(Path(sys.executable).with_name("brain"))
OWN = {"mcp", "import", "export", "backup", "restore", "connect"}
COMMANDS = OWN | {row.name for row in OPERATIONS if row.name in row.commands}


def ran(*command: str, store: Path, **environment: str) -> str:
    done = subprocess.run(
        command,
        env=clean_environment(COMMONBRAIN_STORE=str(store), **environment),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    return done.stdout


def completed(store: Path, *words: str) -> set[str]:
    """Ask as bash does: the words typed so far, the last of them unfinished."""
    typed = {"COMP_WORDS": shlex.join(["brain", *words]), "COMP_CWORD": str(len(words))}
    if not words[-1]:
        typed["COMP_WORDS"] = shlex.join(["brain", *words[:-1]]) + " "
    return set(ran(BRAIN, store=store, _BRAIN_COMPLETE="complete_bash", **typed).split())


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ((), COMMANDS),
        (("re",), {name for name in COMMANDS if name.startswith("re")}),
        (("connect", ""), set(CLIENTS)),
        (("connect", "c"), {"claude-code", "codex", "cursor"}),
        (("connect", "codex", "--scope", ""), {"user", "project"}),
        (("import", ""), {*IMPORTERS, OWN_FORMAT}),
        (("remember", "x", "--kind", ""), set(Kind)),
        (("recall", "--kind", "ru"), {"rule"}),
        (("recall", "--field", "o"), {"outcome"}),
        (("remember", "x", "--trust", ""), {"trusted_tool", "user_claim", "untrusted_web"}),
        (("get", ""), set[str]()),
    ],
)
def test_bash_is_given_what_may_follow(
    path: Path, typed: tuple[str, ...], expected: set[str]
) -> None:
    assert completed(path, *(typed or ("",))) >= expected
    if typed:
        assert completed(path, *typed) == expected
    assert not path.exists()


def test_a_mistyped_command_disturbs_no_completion(path: Path) -> None:
    assert completed(path, "remembor", "") == completed(path, "")


def test_options_are_completed(path: Path) -> None:
    assert {"--max-items", "--kind", "--as-of", "--json"} <= completed(path, "recall", "--")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_are_given_commands_with_their_purpose(path: Path, shell: str) -> None:
    asked = {"_TYPER_COMPLETE_ARGS": "brain ", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    told = ran(BRAIN, store=path, _BRAIN_COMPLETE=f"complete_{shell}", **asked)

    assert all(name in told for name in COMMANDS)
    assert "Count what is stored" in told


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_the_script_for_bash_completes_in_bash(path: Path) -> None:
    script = ran(BRAIN, store=path, _BRAIN_COMPLETE="source_bash")
    ask = 'COMP_WORDS=(brain stat); COMP_CWORD=1; _brain_completion brain; echo "${COMPREPLY[@]}"'
    folder = str(Path(BRAIN).parent)

    told = ran("bash", "-c", f"PATH={shlex.quote(folder)}:$PATH\n{script}\n{ask}", store=path)

    assert told.split() == ["status"]


def test_the_help_of_connect_names_every_client(path: Path) -> None:
    told = ran(BRAIN, "connect", "--help", store=path)

    assert all(name in told for name in CLIENTS)
