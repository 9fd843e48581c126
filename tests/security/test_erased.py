"""Erased memories are gone from everything that was derived of them: rows, exports, models."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest

from commonbrain.client import Brain
from commonbrain.model.errors import InvalidInputError, NotFoundError
from commonbrain.model.jobs import JobState
from commonbrain.model.kinds import Kind
from commonbrain.model.limits import EVALUATED_MIN
from commonbrain.model.memory import Draft
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.storage.blobs import Blobs
from commonbrain.storage.uploads import Upload, UploadStore
from commonbrain.testing.builders import FakeClock
from tests.asking import stored
from tests.security.world import rows_of
from tests.working import a_worker

WHY = "It is not to be archive_parts."
DEEP = "quokka"
"""In what is erased alone."""
EVENTS = (
    f"The checkout service of {DEEP} returned errors after the deploy of build 811.",
    f"We rolled the checkout service of {DEEP} back to build 810 after the errors.",
    f"The checkout service of {DEEP} lacked the variable STRIPE_REGION in build 811.",
    f"We decided that the checkout service of {DEEP} must validate its variables.",
    f"The root cause was that the deploy of {DEEP} copies no variables of the region.",
    f"We added a check of the variables to the deploy of {DEEP} and ran it twice.",
    f"The alert for the checkout service of {DEEP} came eleven minutes too late.",
    f"We decided that the alert of {DEEP} looks at errors and not at their average.",
    f"The team of {DEEP} still has to write down which variables a region needs.",
    f"The customers of {DEEP} in Oslo lost 14 orders, which were entered by hand.",
)


class Killed(BaseException):
    """An end that no code catches, as that by SIGKILL."""


@dataclass(frozen=True, slots=True)
class Interrupted(UploadStore):
    """Runs a function when an archive is written, but not yet recorded."""

    meanwhile: Callable[[], None]

    def made(
        self, name: str, write: Callable[[Path], object], *, on_start: Callable[[Upload], None]
    ) -> Upload:
        """Write it, and run the function."""
        # Not `super()`, which a class with slots of its own has not.
        upload = UploadStore.made(self, name, write, on_start=on_start)
        self.meanwhile()
        return upload


def made_of(brain: Brain) -> list[str]:
    """Store events and let all jobs derive from them; return their ids."""
    stored_events = brain.remember([Draft(body=text, kind="event") for text in EVENTS])
    places = ["a kitchen cupboard", "the red attic"] * EVALUATED_MIN
    vessels = [
        f"Somebody put vessel{n} of shelf{n} into {place}." for n, place in enumerate(places)
    ]
    brain.remember([Draft(body=text, kind="incident") for text in vessels])
    answer = brain.recall(f"what of {DEEP} and its checkout", max_items=4)
    for item in answer.items:
        brain.revise.rate(item.id, "up")
    for kind in ("reflect", "atomize", "consolidate", "eval", "export"):
        brain.jobs.run(kind)
    a_worker(brain).sweep()
    assert {one.state for one in brain.jobs().jobs if one.kind != "discard"} == {JobState.DONE}
    with brain.services.store.snapshot(LOCAL_TENANT) as tx:
        every = tx.memories.get(tx.memories.page(after=0, limit=1000)).values()
    assert {one.kind for one in every if DEEP in one.text} >= {Kind.EVENT, Kind.EPISODE}
    return [str(one.id) for one in stored_events.items]


def test_no_row_and_no_archive_contains_an_erased_text(brain: Brain) -> None:
    events = made_of(brain)
    [export] = brain.jobs(kind="export").jobs
    archive = brain.jobs.archive(export.id)
    assert DEEP in b"".join(brain.services.uploads.read(archive)).decode(errors="replace")

    count = brain.erase(events, reason=WHY).count
    assert count > len(events)
    done = brain.erase(events, reason=WHY, confirm=count)

    assert (done.receipt or {})["archives"] == 1
    rows = rows_of(brain.services.store, LOCAL_TENANT)
    assert {name: [row for row in held if DEEP in row] for name, held in rows.items()} == {
        name: [] for name in rows
    }
    with pytest.raises(NotFoundError):
        brain.jobs.archive(export.id)
    with pytest.raises(NotFoundError):
        b"".join(brain.services.uploads.read(archive))
    a_worker(brain).sweep()
    assert {one.state for one in brain.jobs(kind="discard").jobs} == {JobState.DONE}


def test_no_row_contains_an_erased_message(brain: Brain) -> None:
    sent = brain.message.send("bo", f"Count the {DEEP}s.", subject=f"Of the {DEEP}s")
    brain.message.thread(sent.thread, tags=[DEEP])
    bo = brain.acting_as(agent="bo")
    bo.message.reply(sent.id, "There are three of them.", to=["ann", "cy"])

    brain.erase(sent.id, reason=WHY, confirm=1)

    rows = rows_of(brain.services.store, LOCAL_TENANT)
    assert [name for name, held in rows.items() if any(DEEP in row for row in held)] == []


def test_archive_of_a_killed_export_is_deleted_when_its_memory_is_erased(
    brain: Brain,
) -> None:
    id_ = stored(brain, EVENTS[0], kind="event")
    brain.jobs.run("export")

    def die() -> None:
        raise Killed

    staging = Interrupted(brain.services.blobs, meanwhile=die)
    with suppress(Killed):
        a_worker(Brain(replace(brain.services, uploads=staging), brain.caller)).sweep()
    assert archive_parts(brain)

    done = brain.erase(id_, reason=WHY, confirm=1)

    assert (done.receipt or {})["archives"] == 1
    assert archive_parts(brain) == set()


def test_expired_archive_is_not_counted_as_deleted_again(brain: Brain, clock: FakeClock) -> None:
    id_ = stored(brain, EVENTS[0], kind="event")
    brain.jobs.run("export")
    a_worker(brain).sweep()
    clock.move(timedelta(days=3))
    a_worker(brain).sweep()
    assert archive_parts(brain) == set()

    assert (brain.erase(id_, reason=WHY, confirm=1).receipt or {})["archives"] == 0


def test_erase_without_access_to_archives_leaves_them_to_a_job(brain: Brain) -> None:
    id_ = stored(brain, EVENTS[0], kind="event")
    brain.jobs.run("export")
    a_worker(brain).sweep()

    def missing() -> Blobs:
        raise InvalidInputError("This takes the extra learn.", code="extra_missing")

    bare = Brain(replace(brain.services, uploads=UploadStore(missing)), brain.caller)
    done = bare.erase(id_, reason=WHY, confirm=1)

    assert (done.receipt or {})["file"] == 1, "the file was rewritten"
    a_worker(brain).sweep()
    assert archive_parts(brain) == set(), "the job that drops the archive was due at once"


def archive_parts(brain: Brain) -> set[str]:
    return {
        part.name for part in Path(brain.services.blobs().location).rglob("*") if part.is_file()
    }


def test_export_that_runs_during_an_erase_starts_again(brain: Brain) -> None:
    id_ = stored(brain, EVENTS[0], kind="event")
    stored(brain, "The kettle is blue.", kind="fact")
    export = brain.jobs.run("export")

    once = [id_]

    def erase() -> None:
        while once:
            brain.erase(once.pop(), reason=WHY, confirm=1)

    staging = Interrupted(brain.services.blobs, meanwhile=erase)
    a_worker(Brain(replace(brain.services, uploads=staging), brain.caller)).sweep()

    archive = brain.jobs.archive(export.id)
    assert archive_parts(brain) == set(archive.parts)
    text = b"".join(brain.services.uploads.read(archive)).decode()
    assert "kettle" in text
    assert DEEP not in text
