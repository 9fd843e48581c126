"""Artifacts of training and transfer are deleted once unused, despite kills and failures."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest

from commonbrain.client import Brain
from commonbrain.jobs.handlers import ARCHIVE_RETENTION
from commonbrain.jobs.service import UPLOAD_RETENTION
from commonbrain.model.errors import RejectedError, UnavailableError
from commonbrain.model.jobs import JobState
from commonbrain.model.limits import (
    ARTIFACT_RETENTION_DAYS,
    EVALUATIONS_RETAINED,
    JOB_ATTEMPTS,
    JOB_LEASE_S,
    RETAINED_AT_ONCE,
)
from commonbrain.model.model_card import ModelCard, ModelRole, ModelState, model_name
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.storage.blobs import Blobs
from commonbrain.storage.repositories.learning import StoredEvaluation
from commonbrain.storage.uploads import UploadStore
from commonbrain.testing.builders import NOON, FakeClock
from tests.consolidation.test_maintaining import maintained
from tests.jobs.test_jobs_again import Killed
from tests.working import a_worker

DAY = timedelta(days=1)
ENDED = ModelState.RETIRED


@dataclass
class Trying:
    """Blobs to which something happens first."""

    blobs: Blobs
    on_drop: Callable[[], object] = bool
    after_put: Callable[[], object] = bool
    location: str = "somewhere"

    def put(self, content: bytes) -> str:
        digest = self.blobs.put(content)
        self.after_put()
        return digest

    def get(self, digest: str) -> bytes:
        return self.blobs.get(digest)

    def drop(self, digest: str) -> None:
        self.on_drop()
        self.blobs.drop(digest)


def with_blobs(brain: Brain, blobs: Blobs) -> Brain:
    """The same brain in a process that reaches its artifacts otherwise."""
    services = replace(brain.services, blobs=lambda: blobs, uploads=UploadStore(lambda: blobs))
    return Brain(services, brain.caller)


def artifacts(brain: Brain) -> set[str]:
    """Give what lies among the artifacts."""
    return {one.name for one in Path(brain.services.blobs().location).iterdir()}


def a_model(brain: Brain, number: int, *, content: str = "", **more: object) -> ModelCard:
    """Put a card there, with an artifact."""
    card = ModelCard(
        id=number,
        role=ModelRole.RERANKER,
        digest=brain.services.blobs().put((content or f"model {number}").encode()),
        features=("fused",),
        told={"bytes": 7},
        made_at=NOON,
        moved_at=NOON,
    )
    card = replace(card, **more)  # pyright: ignore[reportArgumentType]
    with brain.services.store.begin(LOCAL_TENANT) as tx:
        assert tx.models.add(card)
    return card


def has_artifact(brain: Brain, card: ModelCard) -> bool:
    return bool(stored_card(brain, card).digest)


def stored_card(brain: Brain, card: ModelCard) -> ModelCard:
    with brain.services.store.snapshot(LOCAL_TENANT) as tx:
        stored = tx.models.get(card.id)
    assert stored is not None
    return stored


def dying() -> None:
    raise Killed


def down() -> None:
    raise UnavailableError("It is down.", code="blobs_down")


@pytest.mark.requirement("JB-05")
def test_model_retired_long_ago_loses_its_artifact_and_others_do_not(
    brain: Brain, clock: FakeClock
) -> None:
    parent = a_model(brain, 1, state=ENDED)
    replaced = a_model(brain, 2, state=ENDED)
    serving = a_model(brain, 3, state=ModelState.ACTIVE, parent=parent.id)
    with brain.services.store.begin(LOCAL_TENANT) as tx:
        why = replace(replaced, reason=f"{model_name(serving)} took its place")
        assert tx.models.move(replaced, why)
    candidate = a_model(brain, 4, told={"outcome": "better"})
    retired = a_model(brain, 5, state=ENDED)
    same_content = a_model(brain, 6, state=ModelState.ROLLED_BACK, content="model 4")
    refused = a_model(brain, 7, told={"outcome": "too_slow"})
    salience = a_model(brain, 8, state=ENDED, role=ModelRole.SALIENCE)
    clock.move(ARTIFACT_RETENTION_DAYS * DAY + DAY)
    late = a_model(brain, 9, state=ENDED, moved_at=clock.now() - DAY)

    over, others = (
        (retired, same_content, refused, salience),
        (parent, replaced, serving, candidate, late),
    )
    assert brain.maintain.preview().counts == {"artifacts": 4}
    assert (maintained(brain).result or {})["artifacts"] == 4
    # Before a byte is gone nobody can bring one back.
    assert artifacts(brain) == {card.digest for card in (*over, *others)}
    assert not any(has_artifact(brain, card) for card in over)
    assert all(has_artifact(brain, card) for card in others)
    for card in (retired, refused):
        with pytest.raises(RejectedError) as reply:
            stored_card(brain, card).moved(ModelState.ACTIVE, at=clock.now())
        assert reply.value.code in {"artifact_dropped", "model_state"}
    a_worker(brain).sweep()
    assert artifacts(brain) == {card.digest for card in others}
    assert (maintained(brain).result or {})["artifacts"] == 0

    with brain.services.store.snapshot(LOCAL_TENANT) as tx:
        before = tx.models.replaced_by(serving)
        lines = tx.credentials.audit_entries(limit=50)
    assert before is not None
    assert before.id == replaced.id
    assert sum(line.action == "artifact_dropped" for line in lines) == len(over)


def test_maintenance_succeeds_while_artifacts_are_unreachable(
    brain: Brain, clock: FakeClock
) -> None:
    card = a_model(brain, 1, state=ENDED)
    clock.move(ARTIFACT_RETENTION_DAYS * DAY + DAY)
    cut_off = with_blobs(brain, Trying(brain.services.blobs(), on_drop=down))
    assert (maintained(cut_off).result or {})["artifacts"] == 1
    for _ in range(JOB_ATTEMPTS):
        a_worker(cut_off).sweep()
        clock.move(DAY / 4)
    (given_up,) = brain.jobs(kind="discard").jobs
    assert (given_up.state, given_up.error) == (JobState.DEAD, "blobs_down")
    assert artifacts(brain) == {card.digest}

    assert (maintained(brain).result or {})["discards"] == 1
    a_worker(brain).sweep()
    assert artifacts(brain) == set()
    assert (maintained(brain).result or {})["discards"] == 0


def test_maintenance_leaves_the_latest_evaluations_of_each_name(brain: Brain) -> None:
    made = EVALUATIONS_RETAINED + RETAINED_AT_ONCE + 1
    with brain.services.store.begin(LOCAL_TENANT) as tx:
        for number in range(made):
            tx.evaluations.add(
                StoredEvaluation(
                    id=number, name="self", at=NOON, agent="bo", figures={}, setup={}, took_ms={}
                )
            )
    over = {"evaluations": made - EVALUATIONS_RETAINED}
    assert brain.maintain.preview().counts == over
    assert maintained(brain, dry_run=True).result == over
    assert (maintained(brain).result or {})["evaluations"] == over["evaluations"]
    with brain.services.store.snapshot(LOCAL_TENANT) as tx:
        left = tx.evaluations.listed("self", limit=made)
    assert (len(left), left[-1].id) == (EVALUATIONS_RETAINED, made - EVALUATIONS_RETAINED)


def test_upload_without_an_import_job_is_deleted(
    brain: Brain, clock: FakeClock, tmp_path: Path
) -> None:
    notes = tmp_path / "MEMORY.md"
    notes.write_text("## Tea\n\nThe tea is in the left drawer.\n", "utf-8")
    sender = with_blobs(brain, Trying(brain.services.blobs(), after_put=dying))
    with pytest.raises(Killed):
        sender.jobs.import_("markdown", notes)
    assert len(artifacts(brain)) == 1
    clock.move(UPLOAD_RETENTION)
    a_worker(brain).sweep()
    assert artifacts(brain) == set()


def test_artifact_of_an_export_whose_worker_was_killed_is_deleted(
    brain: Brain, clock: FakeClock
) -> None:
    brain.remember("The kettle is in the blue cupboard", kind="fact")
    job = brain.jobs.run("export")
    with pytest.raises(Killed):
        a_worker(with_blobs(brain, Trying(brain.services.blobs(), after_put=dying))).sweep()
    assert artifacts(brain)
    clock.move(timedelta(seconds=JOB_LEASE_S))
    a_worker(brain).sweep()
    upload = brain.jobs.archive(job.id)
    assert artifacts(brain) == set(upload.parts), "who takes it up drops what the other left"
    clock.move(ARCHIVE_RETENTION - timedelta(seconds=1))
    assert b"kettle" in b"".join(brain.services.uploads.read(brain.jobs.archive(job.id)))
    clock.move(DAY)
    a_worker(brain).sweep()
    assert artifacts(brain) == set()
