"""An import that is killed and run again has stored every message once."""

from pathlib import Path

import pytest

from benchmarks.transcripts import write_sessions
from commonbrain.client import Brain
from commonbrain.testing.builders import SeededRandom, a_brain
from commonbrain.transfer.imports import ImportReport
from tests.faults.workers import DONE, READY, Line, worker

BATCHES = 3
"""After so many stored batches the process is killed, while it prepares the next."""


def _source(store: Path) -> Path:
    return store.with_name("projects")


def import_until(path: Path, _number: int, times: int, line: Line) -> None:
    """Import until the `times`-th batch is stored, then say how many messages, and wait."""
    batches = 0

    def report_progress(report: ImportReport) -> None:
        nonlocal batches
        batches += 1
        if batches == times:
            line.send(str(report.stored))
            line.recv()

    with a_brain(path, agent="victim", random_source=SeededRandom(2)) as brain:
        line.send(READY)
        line.recv()
        brain.import_("claude-code", _source(path), on_progress=report_progress)
    line.send(DONE)


def _stored(brain: Brain) -> int:
    with brain.services.store.snapshot(brain.caller.tenant) as tx:
        return sum(tx.memories.counts().values())


@pytest.mark.requirement("MG-13")
def test_killed_import_continues_without_duplicates_or_losses(tmp_path: Path) -> None:
    store = tmp_path / "brain.db"
    write_sessions(_source(store), sessions=10, megabytes=1)
    with worker(import_until, store, number=1, times=BATCHES) as victim:
        assert victim.hear() == READY
        victim.line.send("go")
        acknowledged = int(victim.hear() or 0)
        victim.process.kill()
        victim.process.join()
    with a_brain(store) as brain:
        before = _stored(brain)
        report = brain.import_("claude-code", _source(store))
        after = _stored(brain)
        again = brain.import_("claude-code", _source(store))
    assert 0 < acknowledged <= before < report.read
    assert (report.stored, report.exists) == (report.read - before, before)
    assert (after, again.stored) == (report.read, 0)
