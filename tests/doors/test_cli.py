"""The command line: the contract that others script against."""

import io
import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from commonbrain.api.operations import OPERATIONS
from commonbrain.cli.commands import SINGULAR
from commonbrain.cli.groups import GROUPS
from commonbrain.cli.main import run
from commonbrain.storage.sqlite.driver import driver
from commonbrain.testing.builders import a_brain
from tests.processes import PATIENCE_S, clean_environment, command

FACT = "We chose Postgres over MySQL for row-level security."
NOBODY = "mem_0000000000000"


@dataclass(frozen=True, slots=True)
class Ran:
    """What one run of the command left."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.out)

    @property
    def id(self) -> str:
        return self.json["items"][0]["id"]


Brain = Callable[..., Ran]


@pytest.fixture
def brain(path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Brain:
    """Run `brain` inside this process, where starting costs nothing, on the test's own store."""
    monkeypatch.setenv("COMMONBRAIN_STORE", str(path))
    monkeypatch.setenv("COLUMNS", "200")

    def brain(*arguments: str, stdin: bytes = b"") -> Ran:
        monkeypatch.setattr(sys, "argv", ["brain", *arguments])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as left:
            run()
        code = left.value.code
        assert isinstance(code, int)
        printed = capsys.readouterr()
        return Ran(code, printed.out, printed.err)

    return brain


def test_remember_and_recall_take_the_options_and_give_the_json_of_the_contract(
    brain: Brain,
) -> None:
    who = ("--agent", "codex", "--session", "s-1")
    named = {"--headline": "Never force-push", "--project": "api", "--label": "convention"}
    named |= {"--kind": "rule", "--severity": "BLOCKER", "--scope": "team", "--tag": "git"}
    named |= {"--trust": "user_claim", "--source-ref": "docs/git.md:3"}
    said = "Never force-push to a shared branch."
    done = brain(*who, "remember", said, *options_of(named), "--tag", "review", "--json")
    asked = {"--max-items": "3", "--max-tokens": "300", "--project": "api", "--kind": "rule"}
    asked |= {"--since": "2020-01-01", "--until": "2999-12-31", "--as-of": "2999-12-31"}
    found = brain("recall", "may I force-push?", *options_of(asked), "--json")
    seen = brain("get", done.id, "--json")

    assert (done.code, found.code, seen.code) == (0, 0, 0)
    (item,) = done.json["items"]
    assert item["status"] == "stored"
    assert item["id"].startswith("mem_")
    assert set(found.json) >= {"items", "tokens", "verdict", "trace_id"}
    assert found.json["verdict"] == "found"
    (item,) = found.json["items"]
    assert item["id"] == done.id
    assert set(item) >= {"kind", "headline", "body", "score", "why", "occurred_at", "source_ref"}
    shown = seen.json
    assert (shown["agent"], shown["session"], shown["project"]) == ("codex", "s-1", "api")
    assert (shown["headline"], shown["label"]) == ("Never force-push", "convention")
    assert (shown["tags"], shown["source_ref"]) == (["git", "review"], "docs/git.md:3")
    assert shown["detail"]["severity"] == "BLOCKER"


@pytest.mark.requirement("CL-09")
def test_revise_forget_status_and_doctor_answer_in_json(brain: Brain) -> None:
    old = brain("remember", FACT, "--kind", "fact", "--json").id
    new = "We moved from Postgres to CockroachDB because of the second region."
    revised = brain("revise", "supersede", old, new, "--reason", "It changed.", "--json")
    forgotten = brain("forget", revised.json["id"], "--reason", "A test.", "--json")
    status = brain("status", "--json")
    doctor = brain("doctor", "--json")

    assert [one.code for one in (revised, forgotten, status, doctor)] == [0] * 4
    assert (revised.json["status"], revised.json["outcome"]["status"]) == ("done", "stored")
    assert (forgotten.json["status"], forgotten.json["count"]) == ("done", 1)
    assert status.json["by_state"] == {"superseded": 1, "forgotten": 1}
    assert doctor.json["is_sound"] is True


def test_a_text_of_one_dash_is_read_from_stdin(brain: Brain) -> None:
    done = brain("remember", "-", "--kind", "event", "--json", stdin="Grüße aus Köln.\n".encode())
    too_long = brain("remember", "-", "--kind", "event", "--json", stdin=b"a" * 20_000)

    assert brain("get", done.id, "--json").json["body"] == "Grüße aus Köln."
    assert too_long.code == 3
    assert too_long.json["items"][0]["code"] == "gate_atomicity"


def test_the_option_store_beats_the_environment(brain: Brain, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    assert brain("--store", str(other), "status", "--json").json["store"] == str(other)
    assert brain("status", "--json").json["store"] == str(tmp_path / "brain.db")


def test_help_lists_every_operation_and_its_own_help_every_field(brain: Brain) -> None:
    help_ = brain("--help").out
    for row in OPERATIONS:
        operation = row.load()
        for special in operation.commands:
            group, _, word = special.name.rpartition(" ")
            assert re.search(rf"[\n ]{word}\b", brain(group, "--help").out if group else help_)
        if operation.name in GROUPS:
            assert re.search(rf"[\n ]{operation.name}\b", help_)
        if operation.name not in row.commands:
            continue
        assert re.search(rf"[\n ]{operation.name}\b", help_)
        own = brain(operation.name, "--help").out
        for name in operation.fields_of(None):
            option = f"--{SINGULAR.get(name, name)}".replace("_", "-")
            assert name in own or option in own


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (["recall", "--bogus"], 2, "--bogus"),
        (["get"], 2, "id"),
        (["get", "nonsense"], 2, "mem_"),
        (["recall", "x", "--since", "soon"], 2, "ISO 8601"),
        (["recall", "x", "--max-items", "0"], 3, "1 to 100"),
        (["--agent", "two\nlines", "status"], 2, "printable"),
        (["--agent", "half \udcff name", "status"], 2, "printable"),
        (["remember", "half \udcff text"], 2, "text"),
        (["remember", FACT, "--severity", "BLOCKER", "--kind", "fact"], 3, "rules only"),
        (["remember", FACT, "--scope", "planet"], 2, "global"),
        (["get", NOBODY], 4, NOBODY),
        (["forget", NOBODY, "--reason", "A test."], 4, NOBODY),
        (["revise", "supersede", NOBODY, FACT, "--reason", "A test."], 4, NOBODY),
    ],
)
def test_every_failure_has_its_exit_code_and_a_word_of_advice(
    brain: Brain, arguments: Sequence[str], code: int, word: str
) -> None:
    ran = brain(*arguments)

    assert ran.code == code
    assert word in ran.out + ran.err
    assert "Traceback" not in ran.err


def test_an_error_is_json_where_json_was_asked_for(brain: Brain) -> None:
    ran = brain("get", NOBODY, "--json")

    assert ran.code == 4
    assert set(ran.json["error"]) == {"code", "message", "hint"}
    assert ran.json["error"]["code"] == "not_found"


def test_a_store_that_cannot_be_opened_is_unavailable(brain: Brain, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for store in (tmp_path, tmp_path / "file" / "brain.db"):
        ran = brain("--store", str(store), "status", "--json")
        assert (ran.code, ran.json["error"]["code"]) == (5, "store_down")


@pytest.mark.skipif(
    sys.platform == "win32" or os.geteuid() == 0, reason="nothing is forbidden to root"
)
def test_a_store_without_permission_is_unavailable(brain: Brain, path: Path) -> None:
    brain("status")
    path.chmod(0)
    assert brain("status").code == 5


def test_a_store_that_stays_locked_is_unavailable_for_writes_and_answers_reads(
    brain: Brain, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brain("remember", FACT)
    monkeypatch.setenv("COMMONBRAIN_LOCK_TIMEOUT_S", "0.05")
    other = driver().connect(str(path), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        assert brain("remember", "Ann is off on Fridays.").code == 5
        assert brain("recall", "why postgres?", "--json").json["verdict"] == "found"
    finally:
        other.close()


def test_a_store_that_another_process_is_making_is_unavailable_when_it_takes_too_long(
    brain: Brain, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMMONBRAIN_LOCK_TIMEOUT_S", "0.05")
    other = driver().connect(str(path), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        ran = brain("status", "--json")
    finally:
        other.close()

    assert (ran.code, ran.json["error"]["code"]) == (5, "store_down")
    assert brain("status").code == 0


def test_a_damaged_store_is_corrupt_and_left_as_found(brain: Brain, path: Path) -> None:
    path.write_bytes(b"This was never a database. " * 400)
    assert_is_corrupt(brain, path, code="store_corrupt")


@pytest.mark.parametrize(
    "script",
    [
        "CREATE TABLE notes (body TEXT)",
        "CREATE TABLE alembic_version (version_num TEXT);"
        "INSERT INTO alembic_version VALUES ('0001')",
        "CREATE TABLE alembic_version (version_num TEXT);"
        "INSERT INTO alembic_version VALUES ('00000a')",
    ],
)
def test_a_database_of_another_program_is_left_byte_for_byte(
    brain: Brain, path: Path, script: str
) -> None:
    with sqlite3.connect(path) as foreign:
        foreign.executescript(script)
    foreign.close()
    assert_is_corrupt(brain, path, code="store_foreign")


@pytest.mark.of_a_file
def test_a_store_of_a_newer_version_is_not_touched(brain: Brain, path: Path) -> None:
    a_brain(path).close()
    newer = driver().connect(str(path))
    newer.executescript("UPDATE alembic_version SET version_num = '9999'")
    newer.close()
    assert_is_corrupt(brain, path, code="store_newer")


@pytest.mark.parametrize("name", ["a?b=c.db", ":memory:", "ü #%20 'x'.db"])
def test_any_file_name_is_a_store(brain: Brain, tmp_path: Path, name: str) -> None:
    store = str(tmp_path / name)
    brain("--store", store, "remember", FACT)
    assert brain("--store", store, "status", "--json").json["memories"] == 1
    assert (tmp_path / name).stat().st_size > 0


def test_markup_and_escape_codes_in_texts_come_out_inert(brain: Brain, path: Path) -> None:
    nasty = "[red]alarm[/red] [link=x]\x1b[2J\x1b]0;title\x07 \x9b31m"
    arguments = ("--tag", nasty, "--source-ref", nasty, "--project", nasty, "--label", nasty)
    id_ = brain("remember", nasty, "--kind", "event", *arguments, "--json").id
    raw = driver().connect(str(path))
    # As if an older version or another program had let it in.
    raw.execute("UPDATE memories SET headline = ?, source_ref = ?", (nasty, nasty))
    raw.commit()
    raw.close()

    for command_ in (["recall", "alarm"], ["get", id_], ["remember", nasty, "--kind", "event"]):
        shown = brain(*command_).out
        assert "[red]alarm[/red]" in shown
        assert not {"\x1b", "\x07", "\x9b"} & set(shown)


@pytest.mark.skipif(sys.platform == "win32", reason="modes are of POSIX")
def test_a_new_store_is_its_owner_s_alone(brain: Brain, tmp_path: Path) -> None:
    store = tmp_path / "new" / "brain.db"
    brain("--store", str(store), "remember", FACT)

    assert store.stat().st_mode & 0o777 == 0o600
    assert store.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.requirement("DO-05")
def test_the_program_remembers_and_recalls_as_processes(path: Path) -> None:
    done = ran(path, "remember", FACT, "--json")
    found = ran(path, "recall", "why postgres?", "--json")
    missing = ran(path, "get", NOBODY)

    assert (done.code, found.code, missing.code) == (0, 0, 4)
    assert (done.err, found.err) == ("", "")
    assert [item["id"] for item in found.json["items"]] == [done.id]
    assert missing.err.startswith("not_found: ")


def options_of(named: dict[str, str]) -> list[str]:
    return [part for option in named.items() for part in option]


def assert_is_corrupt(brain: Brain, path: Path, *, code: str) -> None:
    before = path.read_bytes()
    for arguments in (["status"], ["remember", FACT]):
        ran = brain(*arguments, "--json")
        assert (ran.code, ran.json["error"]["code"]) == (6, code)
        assert ran.json["error"]["hint"]
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def ran(path: Path, *arguments: str) -> Ran:
    done = subprocess.run(
        command(path, *arguments),
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def test_backup_and_restore_answer_programs_and_ask_people(brain: Brain, path: Path) -> None:
    brain("remember", FACT, "--kind", "fact")
    file = str(path.with_name("brain.bak"))
    kept = brain("backup", file, "--json")
    again = brain("backup", file, "--json")
    brain("remember", "The kettle is in the blue cupboard.", "--kind", "fact")
    unasked = brain("restore", file, "--json")
    looked = brain("restore", file, "--dry-run", "--json")
    refused = brain("restore", file, stdin=b"n\n")
    other = brain("restore", file, "--yes", "--json", "--digest", "0" * 64)
    held = brain("status", "--json").json["memories"]
    done = brain("restore", file, "--yes", "--json", "--digest", kept.json["digest"])

    assert (kept.code, kept.json["memories"]) == (0, 1)
    assert (again.code, again.json["error"]["hint"]) == (2, "Add --force to replace it.")
    assert unasked.code == other.code == 2
    assert [looked.json[side]["memories"] for side in ("comes", "goes")] == [1, 2]
    assert refused.code == 1
    assert "goes" in refused.out
    assert held == 2
    assert (done.code, done.json["memories"]) == (0, 1)
    assert Path(done.json["kept"]).exists()
    assert brain("status", "--json").json["memories"] == 1


def test_doctor_names_the_next_step_and_takes_it(brain: Brain, path: Path) -> None:
    brain("remember", FACT, "--kind", "fact")
    with closing(driver().connect(str(path), isolation_level=None)) as raw:
        raw.execute("INSERT INTO memory_text (memory_text) VALUES ('delete-all')")
    ill = brain("doctor")
    mended = brain("doctor", "--repair")
    found = brain("recall", "row-level security", "--json")

    assert ill.code == 6
    assert "brain doctor --repair" in ill.out
    assert mended.code == 0
    assert "the words of 1 memory" in mended.out
    assert "words" in found.json["items"][0]["why"]


def test_boot_tells_what_binds_and_what_is_open_in_sections_and_as_json(brain: Brain) -> None:
    brain("remember", "Never push to main.", "--kind", "rule", "--severity", "BLOCKER")
    brain("remember", "Mend the cart.", "--kind", "task", "--priority", "high")

    shown = brain("boot", "--project", "shop", "--task", "Mend the cart")
    told = brain("boot", "--project", "shop", "--json").json

    assert shown.code == 0
    for line in ("Blockers", "Never push to main.", "Tasks", "Mend the cart.  high"):
        assert line in shown.out
    assert "BLOCKERS loaded: 1, TASKS loaded: 1" in shown.out
    assert [one["headline"] for one in told["blockers"]] == ["Never push to main."]
    assert told["session"].startswith("ses_")
