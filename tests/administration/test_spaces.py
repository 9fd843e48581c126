"""A store moves to another embedder while it is worked on, and nothing is missed on the way."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from commonbrain.client import Brain
from commonbrain.model import ids
from commonbrain.model.errors import (
    InvalidInputError,
    NotFoundError,
    RejectedError,
    StoreCorruptError,
)
from commonbrain.model.query import Feedback, FeedbackMark
from commonbrain.model.scope import LOCAL_TENANT, Role
from commonbrain.storage.interface import EntryFilter
from commonbrain.testing.builders import FakeClock, a_brain
from tests.asking import bodies
from tests.moving import NEXT, OLD, Smaller, movable, moved, moving
from tests.storage.store_steps import query_scope
from tests.tenant_rows import add_tenant
from tests.working import a_worker

pytestmark = pytest.mark.part("models")

FACTS = [
    f"The {what} stands in the {where} room."
    for what, where in (("kettle", "blue"), ("ladder", "red"), ("harp", "green"))
]
ATOM = "@atom the disk of the broker | ran full overnight | orders were lost | customers left us"


def store_fact(brain: Brain, text: str) -> str:
    """Remember a fact; give its id."""
    [outcome] = brain.remember(text, kind="fact").items
    assert outcome.id is not None, outcome
    return outcome.id


def filled(brain: Brain) -> Brain:
    """Give it facts of two tenants, one of which was corrected, and an atom."""
    for fact in FACTS:
        store_fact(brain, fact)
    brain.remember(text=ATOM)
    first = store_fact(brain, "The boiler was serviced in March.")
    brain.revise.supersede(first, "The boiler was serviced in April.", reason="a slip")
    add_tenant(brain, "acme")
    store_fact(of(brain, "acme"), "The anvil of acme weighs forty pounds.")
    return brain


def of(brain: Brain, tenant: str) -> Brain:
    """Give the same store as another tenant sees it."""
    return Brain(brain.services, replace(brain.caller, tenant=tenant))


def states(brain: Brain) -> dict[str, tuple[str, int]]:
    return {one.name: (one.state, one.missing) for one in brain.spaces()}


@pytest.mark.requirement("DM-45", "DO-17")
def test_space_is_built_while_another_serves_and_then_serves_all(path: Path) -> None:
    with filled(movable(path)) as brain:
        done = brain.spaces.build()
        assert (done.space, done.embedded, done.missing) == (NEXT, 7, 0)
        assert states(brain) == {OLD: ("current", 0), NEXT: ("building", 0)}
        assert bodies(brain, "Where is the kettle?")[0] == FACTS[0]
        brain.spaces.switch(NEXT)

    with moved(path) as brain:
        assert states(brain) == {OLD: ("retired", 0), NEXT: ("current", 0)}
        answer = brain.recall("Where is the kettle?")
        assert (answer.items[0].body, answer.degraded) == (FACTS[0], ())
        assert brain.recall("lost orders", field="outcome").items
        assert bodies(of(brain, "acme"), "anvil weighs")
        assert brain.doctor().is_sound


def test_memory_written_while_a_space_is_built_is_in_it_after_the_switch(
    path: Path,
) -> None:
    with filled(movable(path)) as brain:
        removed = store_fact(brain, "The parrot speaks Dutch.")
        forgotten = store_fact(brain, "The cellar is flooded.")
        brain.forget(forgotten, reason="dry again")

        def meanwhile() -> None:
            store_fact(brain, "The lantern hangs by the north door.")
            brain.forget(removed, reason="it flew away")
            store_fact(of(brain, "acme"), "The dynamite of acme is damp.")

        done = moving(brain, meanwhile=meanwhile).spaces.build()
        assert done.missing == 0
        store_fact(brain, "The sundial is slow.")
        with pytest.raises(
            RejectedError, match="In tenant default, 1 memory lacks vectors"
        ) as refused:
            brain.spaces.switch(NEXT)
        assert refused.value.code == "space_incomplete"
        assert brain.spaces.switch(NEXT, dry_run=True).missing == 1
        assert moving(brain).spaces.build().embedded == 1
        brain.spaces.switch(NEXT)

    with moved(path) as brain:
        with brain.services.store.snapshot(LOCAL_TENANT) as tx:
            near = tx.index.nearest(
                Smaller().query("sundial slow lantern north"), query_scope(), limit=9
            )
            memories = tx.memories.get([hit.id for hit in near])
        text = {memory.body for memory in memories.values()}
        assert {"The lantern hangs by the north door.", "The sundial is slow."} <= text
        assert not {"The parrot speaks Dutch.", "The cellar is flooded."} & text
        assert states(brain)[NEXT] == ("current", 0)


@pytest.mark.requirement("DM-45", "DO-17")
def test_process_of_the_old_space_continues_in_it_with_a_warning(
    path: Path, clock: FakeClock
) -> None:
    with filled(movable(path, clock=clock)) as old_process, movable(path, clock=clock) as switching:
        assert old_process.recall("kettle").degraded == ()
        switching.spaces.build()
        switching.spaces.switch(NEXT)

        answer = old_process.recall("Where is the kettle?")
        assert answer.items[0].body == FACTS[0]
        assert answer.degraded == (
            f"space: {NEXT} serves now; restart this program with its embedder.",
        )
        assert [one.detail for one in old_process.doctor().findings if not one.is_sound] == [
            f"this program knows {OLD}, {NEXT} serves"
        ]
        store_fact(old_process, "The lantern hangs by the north door.")
        # It cannot make or compare those vectors, so that it leaves the jobs to whoever can.
        old_process.jobs.run("consolidate")
        clock.move(timedelta(minutes=1))
        assert a_worker(old_process).sweep() == 0
        with moved(path, clock=clock) as new:
            assert states(new)[NEXT] == ("current", 1)
            assert a_worker(new).sweep() == 2
            assert states(new)[NEXT] == ("current", 0)
            assert bodies(new, "lantern north door") == ["The lantern hangs by the north door."]


def test_store_opens_in_a_space_that_served_but_not_in_one_being_built(
    path: Path,
) -> None:
    with filled(movable(path)) as brain:
        brain.spaces.build()
        with pytest.raises(StoreCorruptError) as refused:
            moved(path)
        assert refused.value.code == "space_mismatch"
        brain.spaces.switch(NEXT)
    with a_brain(path) as old_process:
        assert old_process.recall("kettle").degraded
    with moved(path) as brain:
        brain.spaces.switch(OLD)
        assert brain.recall("kettle").degraded
    with a_brain(path) as back:
        assert (bodies(back, "kettle")[0], back.recall("kettle").degraded) == (FACTS[0], ())


def test_forgotten_memory_is_removed_from_every_space(path: Path) -> None:
    with movable(path) as brain:
        saved = [store_fact(brain, fact) for fact in FACTS]
        brain.spaces.build()
        # The space beside is numbered apart: more was written into it.
        with brain.services.store.in_space(Smaller.space).begin(LOCAL_TENANT) as tx:
            tx.index.drop_unsound_vectors()
        brain.spaces.switch(NEXT)
        with moved(path) as reader:
            assert bodies(reader, "kettle blue")[0] == FACTS[0]
            brain.forget(saved[0], reason="sold")
            query = Smaller().query("kettle blue room")
            with reader.services.store.snapshot(LOCAL_TENANT) as tx:
                memory_ids = [ids.parse(ids.MEMORY, one) for one in saved]
                assert set(tx.index.similarities(query, memory_ids)) == set(memory_ids[1:])


def test_dropped_space_can_be_built_anew(path: Path) -> None:
    with filled(movable(path)) as brain:
        brain.spaces.build()
        with pytest.raises(RejectedError, match="serves"):
            brain.spaces.drop(OLD)
        with pytest.raises(NotFoundError):
            brain.spaces.switch("elsewhere")
        dropped = brain.spaces.drop(NEXT)
        assert (dropped.space, dropped.vectors) == (NEXT, 11)
        assert states(brain) == {OLD: ("current", 0)}
        assert brain.doctor().is_sound
        assert brain.spaces.build().embedded == 7
        brain.spaces.switch(NEXT)
        # A program that has the dropped one open still stores what it is told.
        late = moving(brain)
        assert late.spaces.drop(OLD, compact=True).vectors == 11
        store_fact(late, "The lantern hangs by the north door.")
        assert late.spaces.drop().vectors == 1
    with pytest.raises(StoreCorruptError):
        a_brain(path)
    with moved(path) as brain:
        assert brain.embed_pending().count == 1


class Killed(BaseException):
    """Is caught by no handler."""


def test_killed_build_or_drop_of_a_space_is_resumed(path: Path) -> None:
    def die(_progress: float) -> None:
        raise Killed

    with filled(movable(path)) as brain:
        with pytest.raises(Killed):
            brain.spaces.build(on_progress=die)
        assert bodies(brain, "kettle")[0] == FACTS[0]
        assert brain.spaces.build().missing == 0
        with pytest.raises(Killed):
            brain.spaces.drop(NEXT, on_progress=die)
        assert NEXT not in states(brain)
        brain.spaces.drop()
        assert brain.spaces.build().embedded == 7


def test_only_an_admin_of_the_first_tenant_manages_spaces(path: Path) -> None:
    with filled(movable(path)) as brain, a_brain(path) as unknowing:
        with pytest.raises(RejectedError):
            of(brain, "acme").spaces()
        with pytest.raises(RejectedError):
            of(brain, "acme").jobs.run("respace")
        reader = Brain(brain.services, replace(brain.caller, role=Role.READER))
        with pytest.raises(RejectedError):
            reader.spaces.switch(NEXT)
        with pytest.raises(InvalidInputError, match="No target embedder"):
            unknowing.spaces.build()


def test_two_spaces_are_compared_by_marked_recalls(path: Path) -> None:
    with movable(path) as brain:
        with pytest.raises(NotFoundError):
            brain.spaces.compare()
        question = ("Blue kettle?", "Red ladder?", "Green harp?", "Are there dragons?")
        memory_ids = [ids.parse(ids.MEMORY, store_fact(brain, fact)) for fact in FACTS]
        helped = dict(zip(question, memory_ids, strict=False))
        brain.spaces.build()
        for query in question:
            brain.recall(query, bump=False)
        brain.services.journal.flush()
        with brain.services.store.begin(LOCAL_TENANT) as tx:
            for entry in tx.recall_log.entries(EntryFilter(), limit=9):
                if entry.query in helped:
                    tx.recall_log.mark([_helped(entry.id, helped[entry.query], brain)])

        done = brain.spaces.compare()
        brain.services.journal.flush()

        assert (done.questions, done.marked) == (4, 3)
        assert (done.serving.space, done.other.space) == (OLD, NEXT)
        assert done.overlap > 0.5
        assert (done.serving.mrr, done.other.mrr) == (1.0, 1.0)
        assert done.better is None
        with brain.services.store.snapshot(LOCAL_TENANT) as tx:
            assert len(tx.recall_log.entries(EntryFilter(), limit=9)) == 4


def _helped(trace: int, memory: int, brain: Brain) -> Feedback:
    return Feedback(
        trace_id=trace,
        memory_id=memory,
        mark=FeedbackMark.USED,
        agent="ann",
        session=None,
        at=brain.services.clock.now(),
    )
