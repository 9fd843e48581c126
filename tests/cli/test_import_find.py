"""`brain import --find`: what other programs left on this machine, imported on request only."""

import json
from pathlib import Path

import pytest

from tests.conftest import Command
from tests.in_process import run_brain
from tests.processes import AS_AGENT, AS_PERSON


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a home folder with the notes of two projects of Claude Code."""
    folder = tmp_path / "home"
    for project, text in (
        ("shop", "The shop opens at nine."),
        ("till", "The till is at the door."),
    ):
        notes = folder / ".claude" / "projects" / f"-srv-{project}" / "memory"
        notes.mkdir(parents=True)
        (notes / "MEMORY.md").write_text(f"## Notes\n\n{text}\n", "utf-8")
    for variable in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(variable, str(folder))
    return folder


@pytest.mark.requirement("MG-12")
def test_sources_are_listed_and_nothing_is_read(command: Command, home: Path) -> None:
    for notes in home.glob(".claude/projects/*/memory/*.md"):
        notes.chmod(0)
    code, out = command("import", "--find", "--json")
    sources = json.loads(out)
    assert code == 0
    assert [(one["format"], one["count"]) for one in sources] == [("markdown", 1)] * 2
    assert sources[0]["path"] == str(home / ".claude" / "projects" / "-srv-shop" / "memory")
    assert json.loads(command("status", "--json")[1])["memories"] == 0


@pytest.mark.requirement("MG-12")
@pytest.mark.usefixtures("home")
def test_only_the_chosen_sources_are_imported(command: Command) -> None:
    code, out = command("import", "--find", "--choose", "2", "--json")
    assert (code, json.loads(out)["stored"]) == (0, 1)
    _, out = command("recall", "", "--json")
    assert [item["body"] for item in json.loads(out)["items"]] == [
        "Notes:\nThe till is at the door."
    ]


@pytest.mark.usefixtures("home")
def test_all_sources_can_be_chosen_and_previewed(command: Command) -> None:
    code, out = command("import", "--find", "--choose", "all", "--dry-run", "--json")
    reports = [json.loads(line) for line in out.splitlines()]
    assert (code, [one["stored"] for one in reports]) == (0, [1, 1])
    assert json.loads(command("status", "--json")[1])["memories"] == 0


@pytest.mark.usefixtures("home")
def test_unknown_choice_imports_nothing(command: Command) -> None:
    code, out = command("import", "--find", "--choose", "1,9", "--json")
    assert code != 0
    assert "no 9" in out
    assert json.loads(command("status", "--json")[1])["memories"] == 0


def test_empty_home_is_reported_with_how_to_name_a_source(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    code, out = command("import", "--find")
    assert code == 0
    assert "brain import FORMAT PATH" in " ".join(out.split())


@pytest.mark.parametrize("arguments", [(), ("markdown",), ("--find", "markdown", "notes")])
def test_missing_or_contradicting_arguments_name_the_next_step(
    command: Command, arguments: tuple[str, ...]
) -> None:
    code, out = command("import", *arguments)
    assert code != 0
    assert "--find" in out


def test_formats_are_listed_with_their_content(command: Command) -> None:
    code, out = command("import", "--formats", "--json")
    assert code == 0
    assert json.loads(out)["markdown"].startswith("Notes in Markdown")


@pytest.mark.usefixtures("home")
def test_list_and_report_of_an_import_are_short(command: Command) -> None:
    _, listed = command("import", "--find")
    assert "~/.claude/projects/-srv-shop/memory" in listed
    _, preview = command("import", "--find", "--choose", "1", "--dry-run")
    assert "dry run: nothing was stored" in " ".join(preview.split())
    assert "Would be stored: 1 fact" in preview
    _, report = command("import", "--find", "--choose", "1")
    assert "Stored: 1 fact" in report
    assert "rejected" not in report, "an outcome that no piece had"


@pytest.mark.parametrize("how", [AS_PERSON, AS_AGENT])
def test_import_of_a_script_says_what_it_is_worth_and_who_confirms_it(
    tmp_path: Path, how: dict[str, str]
) -> None:
    (tmp_path / "notes.md").write_text("# Shop\n\n- The port of the gateway is 8080.\n")
    words = ("--store", str(tmp_path / "a.db"), "import", "markdown", str(tmp_path / "notes.md"))

    previewed = run_brain(*words, "--dry-run", **how).out
    imported = run_brain(*words, **how).out

    assert "captured" not in previewed
    assert ("brain review" in imported) is (how == AS_AGENT)
