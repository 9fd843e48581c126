"""No file that the program writes for a sealed store has a word of it, whichever way it came."""

import json
import subprocess
from pathlib import Path

import pytest

from commonbrain.storage.sqlite.driver import may_mention
from commonbrain.storage.sqlite.sealing import KeySource, make_key
from tests.processes import TIMEOUT_S, clean_environment, command

pytest.importorskip("sqlcipher3")

WORD = "heronword"


def files_with(word: str, folder: Path) -> set[str]:
    files = (one for one in folder.rglob("*") if one.is_file())
    return {one.name for one in files if word.encode() in one.read_bytes()}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Give the folder of everything that commands write, with a new key in it."""
    for name in ("home", "temporary", "work"):
        (tmp_path / name).mkdir()
    source = KeySource("file", str(tmp_path / "key"))
    source.write([make_key(source)])
    return tmp_path


def run(home: Path, *words: str, given: str = "", store: str = "brain.db") -> str:
    """Run a command that finds the key by what is noted next to the store."""
    environment = clean_environment(
        HOME=str(home / "home"),
        TMPDIR=str(home / "temporary"),
        COMMONBRAIN_STATE=str(home / "state"),
        COMMONBRAIN_MCP_SHARED="false",
        **({"COMMONBRAIN_KEY_FILE": str(home / "key")} if words[0] == "remember" else {}),
    )
    done = subprocess.run(
        command(home / store, *words),
        env=environment,
        cwd=home / "work",
        input=given,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.requirement("ST-20")
def test_no_file_of_a_sealed_store_has_its_words(home: Path) -> None:
    run(home, "remember", f"The {WORD} nests behind the boathouse.")
    notes = home / "notes.md"
    notes.write_text(f"# Birds\n\nThe {WORD} eats eels in the river at dusk.\n", "utf-8")
    run(home, "import", "markdown", str(notes))
    notes.unlink()
    stop = {
        "session_id": "one",
        "hook_event_name": "Stop",
        "cwd": str(home / "work"),
        "last_assistant_message": f"Decided: the {WORD} is counted every May.",
    }
    run(home, "hook", "claude-code", "stop", given=json.dumps(stop))
    run(home, "task", "add", f"Count the {WORD}")
    run(home, "backup", str(home / "brain.bak"))

    assert WORD in run(home, "recall", f"Where does the {WORD} nest?")
    assert "sealed, yes" in run(home, "doctor")
    assert files_with(WORD, home) == set()
    assert "whoever reads it reads everything" in run(home, "export", str(home / "all.jsonl"))
    assert files_with(WORD, home) == {"all.jsonl"}


def test_failures_of_a_sealed_store_are_recorded_nowhere(home: Path) -> None:
    run(home, "remember", "The heron nests behind the boathouse.")
    # Clients may be set up with a link to it.
    (home / "linked.db").symlink_to(home / "brain.db")
    shared = {"session_id": "one", "cwd": str(home / "work")}
    command = {"tool_name": "Bash", "tool_input": {"command": f"make {WORD}"}}
    edited = {"file_path": str(home / "work" / "birds.py"), "old_string": "a", "new_string": WORD}
    output = f"Exit code 2\nbirds.py:3: error: cannot find the name `{WORD}` in the module"
    events: list[tuple[str, dict[str, object]]] = [
        ("post-tool-use-failure", {**command, "error": output}),
        ("post-tool-use", {"tool_name": "Edit", "tool_input": edited}),
        ("post-tool-use", {**command, "tool_response": {"stdout": "passed"}}),
    ]

    for store in ("brain.db", "linked.db"):
        for name, payload in events:
            given = json.dumps({**shared, **payload})
            run(home, "hook", "claude-code", name, given=given, store=store)
            assert files_with(WORD, home) == set()


def test_hooks_say_that_rules_are_missing_without_the_key(home: Path) -> None:
    run(home, "remember", "--kind", "rule", f"Never feed the {WORD}.")
    (home / "key").unlink()
    commit = {"command": "git commit"}
    event = {"session_id": "one", "cwd": str(home / "work"), "tool_input": commit}

    for name in ("session-start", "before-commit"):
        shown = run(home, "hook", "claude-code", name, given=json.dumps(event))

        assert "rules that bind here may be missing: key_missing" in shown


def test_hooks_know_whether_a_sealed_store_has_a_word(home: Path) -> None:
    run(home, "remember", f"The {WORD} nests behind the boathouse.")
    store = home / "brain.db"

    assert may_mention(store, [WORD])
    assert not may_mention(store, ["kingfisher"])
    (home / "key").unlink()
    assert may_mention(store, ["kingfisher"])
