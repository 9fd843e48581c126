"""Workers that are killed, many at once or without disk space: each job ends once."""

import io
import tempfile
import zipfile
from collections import Counter
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from commonbrain.model.errors import UnavailableError
from commonbrain.testing.builders import FakeClock, a_brain
from commonbrain.transfer.snapshots import connect_sqlite
from tests.faults.at_jobs import work
from tests.faults.mounts import small_disk
from tests.faults.test_processes import start_together
from tests.faults.workers import DONE, worker
from tests.working import a_worker

WORKERS = 4
JOBS = 24


def test_each_job_is_done_by_one_of_several_workers(path: Path) -> None:
    with a_brain(path) as brain:
        requested = {brain.jobs.run("atomize", {"project": f"p{n}"}).id for n in range(JOBS)}
    with ExitStack() as stack:
        workers = [
            stack.enter_context(worker(work, path, number=number, times=0))
            for number in range(WORKERS)
        ]
        start_together(workers)
        replies = [one.hear_out() for one in workers]

    assert [words[-1] for words in replies] == [DONE] * WORKERS
    happened = Counter(word for words in replies for word in words[:-1])
    assert happened == Counter(f"{what} {id_}" for what in ("taken", "done") for id_ in requested)
    with a_brain(path) as brain:
        assert brain.status().jobs == {"done": JOBS}
        assert {one.attempts for one in brain.jobs(limit=100).jobs} == {1}


def a_zip(name: str, content: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return packed.getvalue()


NOTES = "## Kettle\n\nThe kettle is in the blue cupboard." + "\n" * 100_000


@pytest.mark.parametrize(
    ("name", "content"),
    [("notes.md", NOTES.encode()), ("notes.zip", a_zip("notes.md", NOTES))],
    ids=["a copy", "an unpacked zip"],
)
def test_import_without_disk_space_is_retried_with_its_upload(
    path: Path,
    clock: FakeClock,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    name: str,
    content: bytes,
) -> None:
    source = tmp_path / "sent"
    source.write_bytes(content)
    with a_brain(path, clock=clock) as brain:
        job = brain.jobs.import_("markdown", source, name=name)
        with small_disk(tmp_path / "disk", size="64k") as disk, monkeypatch.context() as patch:
            patch.setattr(tempfile, "tempdir", str(disk))
            a_worker(brain).sweep()
            assert list(disk.iterdir()) == []
        failed = brain.jobs.show(job.id)
        assert (failed.state, failed.error) == ("queued", "io_error")

        clock.move(timedelta(minutes=1))
        a_worker(brain).sweep()
        done = brain.jobs.show(job.id)
        assert (done.state, done.attempts) == ("done", 2)
        assert done.result is not None
        assert done.result["stored"] == 1


def test_import_of_a_database_without_disk_space_reports_an_io_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_brain(tmp_path / "brain.db").close()
    database = tmp_path / "killed.db"
    database.write_bytes((tmp_path / "brain.db").read_bytes())
    # A log without an index is read from a copy.
    database.with_name("killed.db-wal").touch()
    with small_disk(tmp_path / "disk", size="64k") as disk:
        monkeypatch.setattr(tempfile, "tempdir", str(disk))
        with pytest.raises(UnavailableError) as error, connect_sqlite(database, hint=""):
            pass
    assert error.value.code == "io_error"
