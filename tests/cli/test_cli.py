"""The command line: the contract that others script against."""

import json
import os
import re
import shlex
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
from commonbrain.model.limits import RAW_TEXT_BYTES_MAX
from commonbrain.storage.sqlite.driver import driver
from commonbrain.testing.builders import a_brain
from tests.in_process import run_brain
from tests.laid_out_stores import lay_out_store
from tests.processes import TIMEOUT_S, clean_environment, command

FACT = "We chose Postgres over MySQL for row-level security."
MISSING = "mem_0000000000000"


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
def brain(path: Path, monkeypatch: pytest.MonkeyPatch) -> Brain:
    """Run `brain` inside this process, where starting costs nothing, on the test's own store."""
    monkeypatch.setenv("COMMONBRAIN_STORE", str(path))
    monkeypatch.setenv("COLUMNS", "200")

    def brain(*arguments: str, stdin: bytes = b"") -> Ran:
        names = ("STORE", "LOCK_TIMEOUT_S")
        given = {f"COMMONBRAIN_{name}": os.environ.get(f"COMMONBRAIN_{name}") for name in names}
        variables = {name: value for name, value in given.items() if value is not None}
        done = run_brain(*arguments, stdin=stdin, **variables)
        return Ran(done.status, done.out, done.err)

    return brain


@pytest.fixture
def laid_out(brain: Brain, path: Path) -> Brain:
    """Run `brain` on a store that need not be made first."""
    lay_out_store(path)
    return brain


def test_remember_and_recall_take_their_options_and_print_json(
    laid_out: Brain,
) -> None:
    who = ("--agent", "codex", "--session", "s-1")
    named = {"--headline": "Never force-push", "--project": "api", "--label": "convention"}
    named |= {"--kind": "rule", "--severity": "BLOCKER", "--scope": "team", "--tag": "git"}
    named |= {"--trust": "user_claim", "--source-ref": "docs/git.md:3"}
    text = "Never force-push to a shared branch."
    done = laid_out(*who, "remember", text, *options_of(named), "--tag", "review", "--json")
    query = {"--max-items": "3", "--max-tokens": "300", "--project": "api", "--kind": "rule"}
    query |= {"--since": "2020-01-01", "--until": "2999-12-31", "--as-of": "2999-12-31"}
    results = laid_out("recall", "may I force-push?", *options_of(query), "--json")
    seen = laid_out("get", done.id, "--json")

    assert (done.code, results.code, seen.code) == (0, 0, 0)
    (item,) = done.json["items"]
    assert item["status"] == "stored"
    assert item["id"].startswith("mem_")
    assert set(results.json) >= {"items", "tokens", "verdict", "trace_id"}
    assert results.json["verdict"] == "found"
    (item,) = results.json["items"]
    assert item["id"] == done.id
    assert set(item) >= {"kind", "headline", "body", "score", "why", "occurred_at", "source_ref"}
    shown = seen.json
    assert (shown["agent"], shown["session"], shown["project"]) == ("codex", "s-1", "api")
    assert (shown["headline"], shown["label"]) == ("Never force-push", "convention")
    assert (shown["tags"], shown["source_ref"]) == (["git", "review"], "docs/git.md:3")
    assert shown["detail"]["severity"] == "BLOCKER"


@pytest.mark.requirement("CL-09")
def test_revise_forget_status_and_doctor_print_json(laid_out: Brain) -> None:
    old = laid_out("remember", FACT, "--kind", "fact", "--json").id
    new = "We moved from Postgres to CockroachDB because of the second region."
    revised = laid_out("revise", "supersede", old, new, "--reason", "It changed.", "--json")
    forgotten = laid_out("forget", revised.json["id"], "--reason", "A test.", "--json")
    status = laid_out("status", "--json")
    doctor = laid_out("doctor", "--json")

    assert [one.code for one in (revised, forgotten, status, doctor)] == [0] * 4
    assert (revised.json["status"], revised.json["outcome"]["status"]) == ("done", "stored")
    assert (forgotten.json["status"], forgotten.json["count"]) == ("done", 1)
    assert status.json["by_state"] == {"superseded": 1, "forgotten": 1}
    assert doctor.json["is_sound"] is True


def test_text_of_one_dash_is_read_from_stdin(laid_out: Brain) -> None:
    done = laid_out(
        "remember", "-", "--kind", "event", "--json", stdin="Grüße aus Köln.\n".encode()
    )
    too_long = laid_out("remember", "-", "--kind", "event", "--json", stdin=b"a" * 20_000)

    assert laid_out("get", done.id, "--json").json["body"] == "Grüße aus Köln."
    assert too_long.code == 3
    assert too_long.json["items"][0]["code"] == "gate_atomicity"


def test_option_store_overrides_the_environment(brain: Brain, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    assert brain("--store", str(other), "remember", "Tea is hot").code == 0
    assert brain("--store", str(other), "status", "--json").json["store"] == str(other)
    brain("remember", "Tea is cold")
    assert brain("status", "--json").json["store"] == str(tmp_path / "brain.db")


def test_help_lists_every_operation_and_every_field(laid_out: Brain) -> None:
    help_ = laid_out("--help").out
    for row in OPERATIONS:
        operation = row.load()
        for special in operation.commands:
            group, _, word = special.name.rpartition(" ")
            assert re.search(rf"[\n ]{word}\b", laid_out(group, "--help").out if group else help_)
        if operation.name in GROUPS:
            assert re.search(rf"[\n ]{operation.name}\b", help_)
        if operation.name not in row.commands:
            continue
        assert re.search(rf"[\n ]{operation.name}\b", help_)
        own = laid_out(operation.name, "--help").out
        for name in operation.fields_of(None):
            option = f"--{SINGULAR.get(name, name)}".replace("_", "-")
            assert name in own or option in own


FAILURES: tuple[tuple[Sequence[str], int, str], ...] = (
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
    (["get", MISSING], 4, MISSING),
    (["forget", MISSING, "--reason", "A test."], 4, MISSING),
    (["revise", "supersede", MISSING, FACT, "--reason", "A test."], 4, MISSING),
)


def test_every_failure_has_its_exit_code_and_names_its_cause(
    laid_out: Brain, subtests: pytest.Subtests
) -> None:
    for arguments, code, word in FAILURES:
        with subtests.test(arguments=arguments):
            ran = laid_out(*arguments)

            assert ran.code == code
            assert word in ran.out + ran.err
            assert "Traceback" not in ran.err


def test_error_is_printed_as_json_with_the_option_json(laid_out: Brain) -> None:
    ran = laid_out("get", MISSING, "--json")

    assert ran.code == 4
    assert set(ran.json["error"]) == {"code", "message", "hint"}
    assert ran.json["error"]["code"] == "not_found"


def test_store_that_cannot_be_opened_is_unavailable(brain: Brain, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    ran = brain("--store", str(tmp_path / "file" / "brain.db"), "remember", "x", "--json")
    assert (ran.code, ran.json["error"]["code"]) == (5, "store_down")
    # As for a folder without permission, the system does not say whether there is one.
    for words in (["status"], ["remember", "x"]):
        ran = brain("--store", str(tmp_path / ("x" * 300)), *words, "--json")
        assert (ran.code, ran.json["error"]["code"]) == (5, "store_down")


def test_reading_makes_no_store(brain: Brain, tmp_path: Path) -> None:
    store = tmp_path / "mistyped" / "brain.db"
    copies = [[name, str(tmp_path / "copy")] for name in ("backup", "export")]
    for words in (["recall", "tea"], ["list"], ["task", "list"], ["get", "mem_1"], *copies):
        ran = brain(*words, "--store", str(store))
        assert ran.code == 4
        assert f"There is no store {store}." in ran.err
    assert not store.parent.exists()
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("name", ["", "${HOME}", "${HOME}/brain.db"])
def test_what_is_no_file_of_a_store_is_refused_by_its_name(
    brain: Brain, tmp_path: Path, name: str
) -> None:
    ran = brain("--store", str(tmp_path / name), "remember", "Tea is hot")
    assert ran.code == 2
    assert str(tmp_path / name) in ran.err
    assert not (tmp_path / "${HOME}").exists()


def test_a_store_that_exists_is_opened_whatever_its_name(brain: Brain, tmp_path: Path) -> None:
    lay_out_store(tmp_path / "${HOME}")
    assert brain("--store", str(tmp_path / "${HOME}"), "remember", "Tea is hot").code == 0


def test_empty_variables_are_unset(path: Path) -> None:
    names = ("STORE", "AGENT", "SESSION", "TENANT", "TOKEN_BUDGET", "SECRETS_DIR")
    empty = {f"COMMONBRAIN_{name}": "" for name in names}
    assert run_brain("--store", str(path), "remember", "Tea is hot", **empty).status == 0


def test_stdin_in_the_encodings_of_windows_is_read(brain: Brain) -> None:
    texts = {codec: f"Der Käse in {codec} war alt" for codec in ("utf-16", "utf-8-sig")}
    for codec, text in texts.items():
        assert brain("remember", "-", stdin=text.encode(codec)).code == 0
        line = f'{{"text": "{text}, dann neu"}}\r\n'.encode(codec)
        assert brain("remember", "--file", "-", stdin=line).code == 0
    stored = {one["headline"] for one in brain("list", "--json").json["memories"]}
    assert stored == {*texts.values(), *(f"{text}, dann neu" for text in texts.values())}


@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("letter", ["x", "я", "\U0001f680"])
def test_a_text_too_long_is_never_cut(brain: Brain, codec: str, letter: str) -> None:
    text = letter * (RAW_TEXT_BYTES_MAX + 1)
    ran = brain("remember", "-", "--json", stdin=text.encode(codec))
    assert ran.code == 3
    assert "The text has 1,048,577 characters." in ran.out


def test_options_after_the_first_json_are_filters_too(path: Path) -> None:
    for agent in ("ann", "bob"):
        run_brain("--store", str(path), "--agent", agent, "remember", f"Tea of {agent} is hot")
    words = ("forget", "--agent", "bob", "--reason", "it is cold", "--yes")
    done = run_brain("--store", str(path), "--json", *words)
    assert json.loads(done.out)["count"] == 1


def test_what_a_terminal_cannot_show_ends_no_command(path: Path) -> None:
    environment = clean_environment(PYTHONIOENCODING="cp1252")
    run_brain("--store", str(path), "remember", "Zoë left 東京 \U0001f680")
    for words in (["list"], ["recall", "東京"], ["get", "東"], ["list", "--json"]):
        ran = subprocess.run(
            command(path, *words),
            env=environment,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert b"Traceback" not in ran.stderr
    assert (
        json.loads(ran.stdout.decode("cp1252"))["memories"][0]["headline"]
        == "Zoë left 東京 \U0001f680"
    )


@pytest.mark.skipif(sys.platform == "win32", reason="a shell closes the streams")
@pytest.mark.parametrize(("closed", "code"), [("<&-", 3), (">&-", 0), ("2>&-", 0)])
def test_closed_stream_ends_no_command(path: Path, closed: str, code: int) -> None:
    text = "-" if closed == "<&-" else "Tea is hot"
    line = f"{shlex.join(command(path, 'remember', text))} {closed}"
    ran = subprocess.run(
        ["/bin/sh", "-c", line],
        env=clean_environment(),
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (ran.returncode, b"Traceback" in ran.stderr) == (code, False)


@pytest.mark.skipif(
    sys.platform == "win32" or os.geteuid() == 0, reason="nothing is forbidden to root"
)
def test_store_without_permission_is_unavailable(laid_out: Brain, path: Path) -> None:
    path.chmod(0)
    assert laid_out("status").code == 5


def test_locked_store_answers_reads_and_is_unavailable_for_writes(
    laid_out: Brain, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    laid_out("remember", FACT)
    monkeypatch.setenv("COMMONBRAIN_LOCK_TIMEOUT_S", "0.05")
    other = driver().connect(str(path), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        assert laid_out("remember", "Ann is off on Fridays.").code == 5
        assert laid_out("recall", "why postgres?", "--json").json["verdict"] == "found"
    finally:
        other.close()


def test_store_that_another_process_creates_slowly_is_unavailable(
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


def test_damaged_store_is_corrupt_and_left_unchanged(brain: Brain, path: Path) -> None:
    path.write_bytes(b"This was never a database. " * 400)
    assert_is_corrupt(brain, path, code="store_corrupt")


def test_database_of_another_program_is_left_byte_for_byte(
    brain: Brain, path: Path, subtests: pytest.Subtests
) -> None:
    made = "CREATE TABLE alembic_version (version_num TEXT);"
    for script in (
        "CREATE TABLE notes (body TEXT)",
        f"{made} INSERT INTO alembic_version VALUES ('0001')",  # noqa: S608 no text of users
        f"{made} INSERT INTO alembic_version VALUES ('00000a')",  # noqa: S608 no text of users
    ):
        with subtests.test(script=script):
            path.unlink(missing_ok=True)
            with closing(sqlite3.connect(path)) as foreign:
                foreign.executescript(script)
            assert_is_corrupt(brain, path, code="store_foreign")


@pytest.mark.of_a_file
def test_store_of_a_newer_version_is_left_unchanged(brain: Brain, path: Path) -> None:
    a_brain(path).close()
    newer = driver().connect(str(path))
    newer.executescript("UPDATE alembic_version SET version_num = '9999'")
    newer.close()
    assert_is_corrupt(brain, path, code="store_newer")


@pytest.mark.of_a_file
def test_store_without_one_schema_version_is_corrupt_and_left_unchanged(
    brain: Brain, path: Path, subtests: pytest.Subtests
) -> None:
    a_brain(path).close()
    before = path.read_bytes()
    for change in (
        "DELETE FROM alembic_version",
        "INSERT INTO alembic_version VALUES ('0001'), ('0002')",
    ):
        with subtests.test(change=change), closing(driver().connect(str(path))) as changed:
            changed.executescript(change)
            changed.close()
            assert_is_corrupt(brain, path, code="store_corrupt")

    backup = path.with_name("before.db")
    backup.write_bytes(before)
    assert brain("restore", str(backup), "--yes").code == 0


def test_any_file_name_is_a_store(brain: Brain, tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name in ("a?b=c.db", ":memory:", "ü #%20 'x'.db"):
        with subtests.test(name=name):
            store = str(tmp_path / name)
            brain("--store", store, "remember", FACT)
            assert brain("--store", store, "status", "--json").json["memories"] == 1
            assert (tmp_path / name).stat().st_size > 0


def test_markup_and_escape_codes_in_texts_are_printed_inert(laid_out: Brain, path: Path) -> None:
    nasty = "[red]alarm[/red] [link=x]\x1b[2J\x1b]0;title\x07 \x9b31m"
    arguments = ("--tag", nasty, "--source-ref", nasty, "--project", nasty, "--label", nasty)
    id_ = laid_out("remember", nasty, "--kind", "event", *arguments, "--json").id
    raw = driver().connect(str(path))
    # As if an older version or another program had let it in.
    raw.execute("UPDATE memories SET headline = ?, source_ref = ?", (nasty, nasty))
    raw.commit()
    raw.close()

    for command_ in (["recall", "alarm"], ["get", id_], ["remember", nasty, "--kind", "event"]):
        shown = laid_out(*command_).out
        assert "[red]alarm[/red]" in shown
        assert not {"\x1b", "\x07", "\x9b"} & set(shown)


@pytest.mark.skipif(sys.platform == "win32", reason="modes are of POSIX")
def test_new_store_is_readable_by_its_owner_alone(brain: Brain, tmp_path: Path) -> None:
    store = tmp_path / "new" / "brain.db"
    brain("--store", str(store), "remember", FACT)

    assert store.stat().st_mode & 0o777 == 0o600
    assert store.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.requirement("DO-05")
def test_script_ends_with_the_exit_code_of_its_command(laid_out: Brain, path: Path) -> None:
    id_ = laid_out("remember", FACT, "--json").id
    script = str(Path(sys.executable).with_name("brain"))
    shown, missing = (
        subprocess.run(
            [script, "--store", str(path), "get", one],
            env=clean_environment(),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        for one in (id_, MISSING)
    )

    assert (shown.returncode, shown.stderr) == (0, "")
    assert FACT in shown.stdout
    assert missing.returncode == 4
    assert missing.stderr.startswith("not_found: ")


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


def test_backup_and_restore_print_json_and_ask_people(laid_out: Brain, path: Path) -> None:
    laid_out("remember", FACT, "--kind", "fact")
    file = str(path.with_name("brain.bak"))
    saved = laid_out("backup", file, "--json")
    again = laid_out("backup", file, "--json")
    laid_out("remember", "The kettle is in the blue cupboard.", "--kind", "fact")
    without_yes = laid_out("restore", file, "--json")
    previewed = laid_out("restore", file, "--dry-run", "--json")
    refused = laid_out("restore", file, stdin=b"n\n")
    other = laid_out("restore", file, "--yes", "--json", "--digest", "0" * 64)
    count = laid_out("status", "--json").json["memories"]
    done = laid_out("restore", file, "--yes", "--json", "--digest", saved.json["digest"])

    assert (saved.code, saved.json["memories"]) == (0, 1)
    assert (again.code, again.json["error"]["hint"]) == (2, "Add --force to replace it.")
    assert without_yes.code == other.code == 2
    assert [previewed.json[side]["memories"] for side in ("comes", "goes")] == [1, 2]
    assert refused.code == 1
    assert "goes" in refused.out
    assert count == 2
    assert (done.code, done.json["memories"]) == (0, 1)
    assert Path(done.json["kept"]).exists()
    assert laid_out("status", "--json").json["memories"] == 1


def test_doctor_names_the_repair_and_runs_it(laid_out: Brain, path: Path) -> None:
    laid_out("remember", FACT, "--kind", "fact")
    with closing(driver().connect(str(path), isolation_level=None)) as raw:
        raw.execute("INSERT INTO memory_text (memory_text) VALUES ('delete-all')")
    ill = laid_out("doctor")
    repaired = laid_out("doctor", "--repair")
    results = laid_out("recall", "row-level security", "--json")

    assert ill.code == 6
    assert "brain doctor --repair" in ill.out
    assert repaired.code == 0
    assert "the words of 1 memory" in repaired.out
    assert "words" in results.json["items"][0]["why"]


def test_boot_prints_rules_and_tasks_in_sections_and_as_json(laid_out: Brain) -> None:
    laid_out("remember", "Never push to main.", "--kind", "rule", "--severity", "BLOCKER")
    laid_out("remember", "Mend the cart.", "--kind", "task", "--priority", "high")

    shown = laid_out("boot", "--project", "shop", "--task", "Mend the cart")
    printed = laid_out("boot", "--project", "shop", "--json").json

    assert shown.code == 0
    for line in ("BLOCKERS", "Never push to main.", "TASKS", "Mend the cart. (high)"):
        assert line in shown.out
    assert "BLOCKERS loaded: 1, TASKS loaded: 1" in shown.out
    assert [one["headline"] for one in printed["blockers"]] == ["Never push to main."]
    assert printed["session"].startswith("ses_")
