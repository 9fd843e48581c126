"""A source that ends, blocks or bloats the process that reads it fails alone and once."""

import json
import os
import select
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.child_process import ChildFailedError, run_in_child
from commonbrain.client import Brain
from commonbrain.jobs.worker import EmbeddedWorker, JobEvent
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.limits import LOCAL_IMPORT, ChildLimits, ImportLimits
from commonbrain.model.memory import Draft
from commonbrain.testing.builders import a_brain
from commonbrain.transfer.child_importer import parse_piece
from commonbrain.transfer.importer import OmittedContent, SourceRelation, Unreadable
from commonbrain.transfer.imports import Import, ImportSource, ResumeOptions
from tests.in_process import run_brain
from tests.jobs.test_own_worker import Watched
from tests.processes import TIMEOUT_S
from tests.transfer.hostile_format import hostile_source, install_hostile_format
from tests.web.visitors import visitor
from tests.working import a_worker

TIGHT = ChildLimits(memory_bytes_max=400 * 2**20)
IMPATIENT = replace(TIGHT, silence_s_max=3.0)
"""A child on a busy machine may have given nothing by then."""
needs_limits = pytest.mark.skipif(sys.platform != "linux", reason="the system has no such limits")


@pytest.fixture(autouse=True)
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_hostile_format(tmp_path / "site", monkeypatch)


@pytest.fixture
def brain(path: Path) -> Iterator[Brain]:
    with a_brain(path) as brain:
        yield brain


def read(brain: Brain, source: Path, *, limits: ChildLimits) -> str:
    """Read a source that is refused, and return what is said."""
    with pytest.raises(InvalidInputError) as caught:
        Import(brain.services, brain.caller).go_on(
            ImportSource(format="hostile", path=source),
            resume=ResumeOptions(limits=replace(LOCAL_IMPORT, child=limits)),
        )
    return caught.value.message


FAILURES = {
    "crash": "was ended by SIGSEGV",
    "exit": "ended with status 7",
    "fail": "failed with KeyError: 'key' (hostile_of_ann.py, line",
    "overflow": "gave a value of more than 4,194,304 bytes",
}


@pytest.mark.parametrize(
    ("word", "reason"),
    [*FAILURES.items(), pytest.param("eat", "needs more than 400 MiB", marks=needs_limits)],
)
def test_source_that_harms_its_reader_is_refused_and_the_batches_before_stay(
    brain: Brain, tmp_path: Path, word: str, reason: str
) -> None:
    message = read(brain, hostile_source(tmp_path, word), limits=TIGHT)
    assert f"{word}.txt cannot be read to its end" in message
    assert reason in message
    assert "import it in parts" in message
    assert brain.status().memories == 64


@pytest.mark.parametrize("word", ["loop", "sleep"])
def test_source_without_an_end_is_refused_after_its_time(
    brain: Brain, tmp_path: Path, word: str
) -> None:
    message = read(brain, hostile_source(tmp_path, word), limits=IMPATIENT)
    assert "gave nothing for 3 s" in message


@pytest.mark.parametrize(("word", "unreadable"), [("lengthen", 1), ("shout", 0)])
def test_other_pieces_are_imported_despite_a_value_too_long_or_stray_output(
    brain: Brain, tmp_path: Path, word: str, unreadable: int
) -> None:
    report = brain.import_("hostile", hostile_source(tmp_path, word))
    assert (report.stored, report.unreadable) == (101, unreadable)
    assert all("4,194,304 bytes" in one.reason for one in report.refusals)


def test_many_long_pieces_are_not_held_in_memory_at_once(brain: Brain, tmp_path: Path) -> None:
    tracemalloc.start()
    try:
        report = brain.import_("hostile", hostile_source(tmp_path, "swell"))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (report.stored, report.read) == (101, 201)
    assert peak < 80 * 2**20


@pytest.mark.parametrize(
    "word", ["crash", "sleep", pytest.param("eat", marks=needs_limits), "lengthen"]
)
def test_job_fails_once_and_the_worker_goes_on_with_others(
    brain: Brain, tmp_path: Path, word: str
) -> None:
    notes = tmp_path / "MEMORY.md"
    limits = ImportLimits(child=IMPATIENT if word == "sleep" else TIGHT)
    brain = Brain(replace(brain.services, import_limits=limits), brain.caller)
    notes.write_text("# Harbour\n\nThe lighthouse of the harbour is red and white.\n")
    source = hostile_source(tmp_path, word)
    job = brain.jobs.import_("hostile", source, name=source.name)
    other = brain.jobs.import_("markdown", notes)
    a_worker(brain).sweep()

    ended = brain.jobs.show(job.id)
    assert brain.jobs.show(other.id).state == "done"
    if word == "lengthen":
        assert ended.state == "done"
    else:
        assert (ended.state, ended.attempts) == ("dead", 1)
        assert (ended.reason or "").startswith(f"{word}.txt cannot be read to its end")


def test_page_serves_on_while_its_worker_meets_a_source_that_crashes_its_reader(
    brain: Brain, tmp_path: Path
) -> None:
    queue = Watched()
    services = replace(brain.services, queue=queue, has_embedded_worker=True)
    ann = visitor(Brain(services, brain.caller))
    worker = EmbeddedWorker(services, start_delay_s=0)
    worker.start()
    try:
        sent = ann.client.post(
            f"/transfer/import?csrf={ann.csrf()}",
            data={"format": "hostile"},
            files={"file": ("crash.txt", hostile_source(tmp_path, "crash").read_bytes())},
        )
        assert sent.status_code == 303
        assert queue.is_worked_off.wait(TIMEOUT_S)
    finally:
        worker.close()
    [job] = [one for one in brain.jobs().jobs if one.kind == "import"]
    assert (job.state, job.attempts) == ("dead", 1)
    shown = ann.get("/transfer")
    assert shown.status_code == 200
    assert "SIGSEGV" in shown.text


def test_command_says_in_one_error_what_happened_and_what_to_do(tmp_path: Path) -> None:
    store = {"COMMONBRAIN_STORE": str(tmp_path / "brain.db"), "HOME": str(tmp_path / "home")}
    source = hostile_source(tmp_path, "crash")
    refused = run_brain("import", "hostile", str(source), **store)
    text = " ".join(refused.err.split())
    assert refused.status == 2
    assert text.count("cannot be read to its end") == 1
    assert "SIGSEGV" in text
    assert "import it in parts" in text
    assert "Traceback" not in text


def test_worker_that_stops_does_not_wait_for_a_source_that_blocks(
    brain: Brain, tmp_path: Path
) -> None:
    job = brain.jobs.import_("hostile", hostile_source(tmp_path, "sleep"))

    def stop(what: JobEvent, _job: object) -> None:
        if what is JobEvent.MOVED:
            worker.stop.set()

    worker = a_worker(brain, on_event=stop)
    worker.sweep()
    shown = brain.jobs.show(job.id)
    assert (shown.state, shown.attempts) == ("queued", 0)


PARENT = """
import os
from commonbrain.child_process import run_in_child
from commonbrain.model.limits import ChildLimits

limits = ChildLimits(memory_bytes_max=10**9)
with run_in_child("hostile_of_ann:pid_then_nothing", {}, limits=limits) as lines:
    print(next(lines).decode(), flush=True)
    input()
    os._exit(0)
"""


@needs_limits
def test_child_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
    ) as parent:
        assert parent.stdout is not None
        ended = os.pidfd_open(int(parent.stdout.readline()))
        assert select.select([ended], [], [], 0)[0] == []
        parent.kill()
        assert select.select([ended], [], [], TIMEOUT_S)[0] == [ended]
        os.close(ended)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda values: (
        st.lists(values, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "content", "detail", "progress", "body", "kind", "Draft"])
            | st.text(),
            values,
            max_size=5,
        )
    ),
    max_leaves=10,
)


@given(
    value=JSON
    | st.fixed_dictionaries(
        {
            "type": st.sampled_from(["Draft", "Unreadable", "SourceRelation", "OmittedContent"]),
            "progress": JSON,
            "content": JSON | st.fixed_dictionaries({"body": st.text()}, optional={"tags": JSON}),
        },
        optional={"detail": st.sampled_from(["EpisodeDetail", "FactDetail", "Draft"])},
    )
)
def test_whatever_a_child_gives_becomes_a_piece(value: object) -> None:
    piece = parse_piece(json.dumps(value).encode(), number=1)
    assert 0 <= piece.progress <= 1
    assert isinstance(piece.content, Draft | Unreadable | SourceRelation | OmittedContent)


@pytest.mark.parametrize("line", [b"", b"\xff", b"[" * 100_000, b"9" * 5_000])
def test_line_that_is_no_json_is_reported(line: bytes) -> None:
    assert isinstance(parse_piece(line, number=1).content, Unreadable)


def test_child_that_is_killed_is_named_by_its_signal() -> None:
    limits = LOCAL_IMPORT.child
    with run_in_child("hostile_of_ann:line_then_killed", {}, limits=limits) as lines:
        assert next(lines) == b"first"
        with pytest.raises(ChildFailedError, match="SIGKILL"):
            next(lines)
