"""Imports and exports as jobs: killed between any two steps, they end with the same report."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest

from commonbrain.client import Brain
from commonbrain.jobs.worker import JobEvent
from commonbrain.model.errors import InvalidInputError, NotFoundError, UnavailableError
from commonbrain.model.jobs import Job
from commonbrain.model.limits import JOB_LEASE_S, UPLOAD_RETENTION_DAYS
from commonbrain.model.memory import Draft
from commonbrain.storage.blobs import Blobs
from commonbrain.storage.uploads import UploadStore
from commonbrain.testing.builders import FakeClock, SeededRandom, a_brain
from tests.transfer.test_exporting import full_of_everything
from tests.working import a_worker

Opens = Callable[[str], Brain]


class Killed(BaseException):
    """Is caught by no handler, as a SIGKILL."""


@dataclass(frozen=True)
class Full:
    """A place of artifacts that takes nothing more."""

    blobs: Blobs
    location: str = "nowhere"

    def put(self, content: bytes) -> str:
        raise UnavailableError(
            f"It is full and takes none of {len(content)} bytes.", code="blobs_down"
        )

    def get(self, digest: str) -> bytes:
        return self.blobs.get(digest)

    def drop(self, digest: str) -> None:
        self.blobs.drop(digest)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export of more than two batches, in which a memory was superseded."""
    folder = tmp_path_factory.mktemp("archive")
    path = folder / "archive.jsonl"
    with a_brain(folder / "there.db", random_source=SeededRandom(7)) as there:
        there.remember([Draft(body=f"Pot number {n} is red.", kind="event") for n in range(60)])
        full_of_everything(there)
        there.export(path)
    return path


def taken_in(tmp_path: Path, archive: Path, *, dies_at: int | None) -> tuple[int, object, str]:
    """Import an archive by a job whose worker dies once; give steps, result and what is held."""
    clock, steps = FakeClock(), 0

    def listen(_what: JobEvent, _job: Job) -> None:
        nonlocal steps
        steps += 1
        if steps == dies_at:
            raise Killed

    with a_brain(tmp_path / f"here{dies_at}.db", clock=clock) as here:
        job = here.jobs.import_("commonbrain", archive)
        with suppress(Killed):
            a_worker(here, on_event=listen).sweep()
        clock.move(timedelta(seconds=JOB_LEASE_S))
        a_worker(here).sweep()
        done = here.jobs.show(job.id)
        assert done.state == "done"
        again = tmp_path / f"again{dies_at}.jsonl"
        here.export(again)
        assert here.doctor().is_sound
    return steps, done.result, again.read_text("utf-8")


@pytest.mark.requirement("MG-07")
def test_archive_is_imported_once_however_often_its_worker_is_killed(
    tmp_path: Path, archive: Path
) -> None:
    steps, report, expected = taken_in(tmp_path, archive, dies_at=None)

    assert steps >= 4
    for place in range(1, steps + 1):
        _, result, same = taken_in(tmp_path, archive, dies_at=place)
        assert result == report, place
        assert same == expected, place


def test_upload_is_deleted_after_its_import_and_equal_uploads_share_nothing(
    path: Path, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    (notes / ".hidden").mkdir(parents=True)
    (notes / "MEMORY.md").write_text("## Tea\n\nThe tea is in the left drawer.\n", "utf-8")
    (notes / ".hidden" / "key.md").write_text("## Key\n\nNobody is to read this one.\n", "utf-8")
    with a_brain(path) as brain:
        one, other = (
            brain.services.uploads.put(notes, on_start=list[object]().append) for _ in range(2)
        )
        assert not set(one.parts) & set(other.parts)
        brain.services.uploads.drop(one)
        with brain.services.uploads.opened(other) as folder:
            assert [file.name for file in folder.rglob("*.md")] == ["MEMORY.md"]
        brain.services.uploads.drop(other)

        job = brain.jobs.import_("markdown", notes)
        a_worker(brain).sweep()
        result = brain.jobs.show(job.id).result
        assert result is not None
        assert (result["source"], result["stored"]) == ("notes", 1)
        assert not list(Path(brain.services.blobs().location).iterdir())


def test_dry_run_stores_nothing_and_its_upload_is_imported_once_after_it(
    path: Path, tmp_path: Path
) -> None:
    note = tmp_path / "MEMORY.md"
    note.write_text("## Tea\n\nThe tea is in the left drawer.\n", "utf-8")
    with a_brain(path) as brain:
        preview = brain.jobs.import_("markdown", note, dry_run=True)
        with pytest.raises(NotFoundError, match="no finished dry run"):
            brain.jobs.import_previewed(preview.id)
        a_worker(brain).sweep()
        report = brain.jobs.show(preview.id).result
        assert report is not None
        assert (report["source"], report["stored"]) == ("MEMORY.md", 1)
        assert brain.status().memories == 0

        job = brain.jobs.import_previewed(preview.id)
        a_worker(brain).sweep()
        assert brain.jobs.show(job.id).result == report
        assert brain.status().memories == 1
        assert brain.jobs.import_previewed(preview.id).id == job.id
        assert not list(Path(brain.services.blobs().location).iterdir())


def test_dry_run_of_an_archive_merges_nothing(tmp_path: Path, archive: Path) -> None:
    with a_brain(tmp_path / "here.db") as here:
        preview = here.jobs.import_("commonbrain", archive, dry_run=True)
        a_worker(here).sweep()
        result = here.jobs.show(preview.id).result or {}
        assert result["read"] == result["stored"]
        assert here.status().memories == 0


def test_upload_of_a_dry_run_expires(path: Path, tmp_path: Path) -> None:
    note = tmp_path / "MEMORY.md"
    note.write_text("## Tea\n\nThe tea is in the left drawer.\n", "utf-8")
    clock = FakeClock()
    with a_brain(path, clock=clock) as brain:
        preview = brain.jobs.import_("markdown", note, dry_run=True)
        a_worker(brain).sweep()
        clock.move(timedelta(days=UPLOAD_RETENTION_DAYS))
        a_worker(brain).sweep()
        with pytest.raises(NotFoundError, match="expired"):
            brain.jobs.import_previewed(preview.id)
        assert not list(Path(brain.services.blobs().location).iterdir())


def test_error_of_an_import_names_the_file_as_it_was_sent(path: Path, tmp_path: Path) -> None:
    sent = tmp_path / "sent"
    sent.write_text("no archive", "utf-8")
    with a_brain(path) as brain:
        job = brain.jobs.import_("commonbrain", sent, name="everything.jsonl")
        a_worker(brain).sweep()
        failed = brain.jobs.show(job.id)
        assert failed.state == "dead"
        assert (failed.reason or "").startswith("everything.jsonl ")


def test_failed_upload_leaves_no_pending_job(path: Path, tmp_path: Path) -> None:
    note = tmp_path / "MEMORY.md"
    note.write_text("## Tea\n\nThe tea is in the left drawer.\n", "utf-8")
    with a_brain(path) as brain:
        staging = UploadStore(lambda: Full(brain.services.blobs()))
        sender = Brain(replace(brain.services, uploads=staging), brain.caller)
        with pytest.raises(UnavailableError, match="full"):
            sender.jobs.import_("markdown", note)
        a_worker(brain).sweep()
        assert [(one.kind, one.state) for one in brain.jobs().jobs] == [("discard", "done")]


def test_upload_with_any_file_name_can_be_read(
    path: Path, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    note = tmp_path / "note"
    note.write_text("tea", "utf-8")
    with a_brain(path) as brain:
        for name in ("..", ".", "\x01..", "/"):
            with subtests.test(name=name):
                upload = brain.services.uploads.put(note, name=name, on_start=list[object]().append)
                with brain.services.uploads.opened(upload) as file:
                    assert file.read_text("utf-8") == "tea"


def test_invalid_import_is_refused_before_a_job_is_stored(path: Path, tmp_path: Path) -> None:
    with a_brain(path) as brain:
        for format_, source in (("odd", tmp_path), ("markdown", tmp_path / "none.md")):
            with pytest.raises(InvalidInputError):
                brain.jobs.import_(format_, source)
        with pytest.raises(NotFoundError):
            brain.jobs.archive(brain.jobs.run("maintain").id)
        assert [one.kind for one in brain.jobs().jobs] == ["maintain"]
