"""Undo: what an agent did is taken back, and what others built on it is not."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from commonbrain.client import Brain
from commonbrain.history.selection import BulkChangeResult, Phase
from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.memory import State
from commonbrain.model.query import Filter
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.storage.interface import QueryScope
from commonbrain.testing.builders import FakeClock
from tests.asking import bodies, stored

TWO = "The nightly build runs on two cores"
FOUR = "The nightly build runs on four cores"
NOON = "Deploys of the billing service happen at noon"


def undone(brain: Brain, agent: str = "bob", **more: str) -> BulkChangeResult:
    """Undo what an agent did, after a preview that changes nothing."""
    before = state(brain)
    preview = brain.undo(agent=agent, reason="mistaken", **more)  # pyright: ignore[reportArgumentType]
    assert preview.status is Phase.PREVIEW
    assert state(brain) == before
    return brain.undo(agent=agent, reason="mistaken", confirm=preview.count, **more)  # pyright: ignore[reportArgumentType]


def state(brain: Brain) -> dict[int, tuple[object, ...]]:
    """Read every current memory with its annotations and links."""
    query_scope = QueryScope(
        caller=brain.caller, filter=Filter(trust_min=0), now=brain.services.clock.now()
    )
    with brain.services.store.snapshot(LOCAL_TENANT) as tx:
        results = tx.memories.get([hit.id for hit in tx.memories.newest(query_scope, limit=100)])
        notes = tx.annotations.of(list(results))
        links = tx.links.touching(list(results))
        return {
            one.id: (
                one.state,
                one.tags,
                one.pinned,
                one.rating,
                one.detail,
                one.superseded_count,
                tuple(note.text for note in notes.get(one.id, ())),
                tuple(sorted((link.to_id, link.type, link.observations) for link in links)),
            )
            for one in results.values()
        }


OPERATIONS: dict[str, Callable[[Brain, str, str], object]] = {
    "supersede": lambda bob, id_, _: bob.revise.supersede(id_, FOUR, reason="x"),
    "forget": lambda bob, id_, _: bob.forget(id_, reason="x"),
    "pin": lambda bob, id_, _: bob.revise.pin(id_),
    "retag": lambda bob, id_, _: bob.revise.retag(id_, add=["x"], remove=["ci"]),
    "rate": lambda bob, id_, _: bob.revise.rate(id_, "down"),
    "annotate": lambda bob, id_, _: bob.revise.annotate(id_, "wrong"),
    "link": lambda bob, id_, other: bob.revise.link(id_, other, type="causes"),
    "unlink": lambda bob, id_, other: bob.revise.unlink(id_, other, type="supports"),
    "strengthen": lambda bob, id_, other: bob.revise.link(id_, other, type="supports"),
    "resolve": lambda bob, id_, other: bob.revise.resolve(other, other=id_, reason="x"),
    "remember": lambda bob, _id, _other: bob.remember("Nonsense of all sorts", kind="event"),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_undo_reverts_every_operation_and_can_itself_be_undone(brain: Brain, name: str) -> None:
    id_ = stored(brain, TWO, kind="fact", tags=["ci"])
    other = stored(brain, NOON, kind="fact")
    brain.revise.link(id_, other, type="supports")
    before = state(brain)
    bob, admin = brain.acting_as(agent="bob"), brain.acting_as(agent="boss")
    OPERATIONS[name](bob, id_, other)
    after = state(brain)
    assert after != before
    done = undone(admin)
    assert (done.status, done.skipped) == (Phase.DONE, ())
    assert state(brain) == before
    assert undone(brain, "boss").status is Phase.DONE
    assert state(brain) == after
    assert undone(admin, "ann", since="2026-03-02").count
    assert brain.doctor().is_sound


@pytest.mark.parametrize("name", ["restore", "keep_both"])
def test_undo_reverts_changes_of_a_chain(brain: Brain, name: str) -> None:
    old = stored(brain, TWO, kind="fact")
    new = brain.revise.supersede(old, FOUR, reason="upgrade").id or ""
    before = state(brain)
    getattr(brain.acting_as(agent="bob").revise, name)(old, reason="x")
    assert state(brain) != before
    undone(brain)
    assert brain.get(old).current_id == new
    assert {id_: saved[:-1] for id_, saved in state(brain).items()} == {
        id_: saved[:-1] for id_, saved in before.items()
    }


def test_undo_skips_memories_that_others_built_on_and_gives_the_reason(brain: Brain) -> None:
    bob = brain.acting_as(agent="bob")
    texts = ("Zanzibar fell", "Antwerp fell", "Oslo fell", "Reykjavik fell", "Lima fell")
    changed, noted, derived, replaced, removed = (stored(bob, text, kind="event") for text in texts)
    brain.revise.retag(changed, add=["x"])
    brain.revise.annotate(noted, "so it was said")
    brain.revise.link(stored(brain, "Cities fall", kind="fact"), derived, type="derived_from")
    brain.revise.supersede(replaced, "Reykjavik stands", reason="checked")
    done = undone(brain)
    why = {one.id: one.why or "" for one in done.skipped}
    assert set(why) == {changed, noted, derived, replaced}
    assert "ann has built on it since (retag)" in why[changed]
    assert "(annotate)" in why[noted]
    assert "derived_from" in why[derived]
    assert "(supersede)" in why[replaced]
    assert brain.get(removed).state is State.FORGOTTEN
    assert brain.get(changed).state is State.ACTIVE


def test_correction_that_others_built_on_is_not_undone(brain: Brain) -> None:
    old = stored(brain, TWO, kind="fact")
    new = brain.acting_as(agent="bob").revise.supersede(old, FOUR, reason="x").id or ""
    brain.revise.annotate(new, "measured")
    done = undone(brain)
    assert {one.id for one in done.skipped} == {old, new}
    assert (done.count, brain.get(old).current_id) == (0, new)


def test_undo_does_not_revert_a_memory_changed_later_by_another_agent(brain: Brain) -> None:
    id_ = stored(brain, TWO, kind="fact")
    bob = brain.acting_as(agent="bob")
    bob.revise.retag(id_, add=["x"])
    bob.revise.pin(id_)
    brain.revise.retag(id_, add=["y"])
    done = undone(brain)
    assert "retag is not undone" in (done.skipped[0].why or "")
    assert brain.get(id_).tags == ("x", "y")
    assert brain.revise.unpin(id_).status == "unchanged"


def test_undo_is_limited_to_a_session_or_a_time(brain: Brain, clock: FakeClock) -> None:
    one = stored(brain.acting_as(session="s1"), "Zanzibar fell", kind="event")
    two = stored(brain.acting_as(session="s2"), "Antwerp fell", kind="event")
    clock.move(timedelta(hours=2))
    three = stored(brain.acting_as(session="s2"), "Oslo fell", kind="event")
    assert [x.id for x in brain.undo(session="s1", reason="x").items] == [one]
    hour = clock.now() - timedelta(hours=1)
    assert [x.id for x in brain.undo(since=hour, reason="x").items] == [three]
    assert {x.id for x in brain.undo(until=hour, reason="x").items} == {one, two}
    assert brain.undo(session="s2", since=hour, reason="x", confirm=1).status is Phase.DONE
    assert len(bodies(brain)) == 2


def test_undo_does_not_reach_private_memories_of_others(brain: Brain) -> None:
    bob = brain.acting_as(agent="bob")
    stored(bob, TWO, kind="fact", scope="private")
    assert brain.undo(agent="bob", reason="x").count == 0
    assert bob.undo(agent="bob", reason="x").count == 1


def test_undo_needs_a_selection_and_is_bounded(brain: Brain, clock: FakeClock) -> None:
    with pytest.raises(InvalidInputError, match="Nothing selects"):
        brain.undo(reason="all")
    with pytest.raises(RejectedError) as refusal:
        brain.undo(since=clock.now() - timedelta(days=32), reason="x")
    assert refusal.value.code == "limit_exceeded"
    with pytest.raises(InvalidInputError, match="after"):
        brain.undo(since="2027-01-01", reason="x")


def test_restore_of_what_an_undo_forgot_returns_nothing_else(brain: Brain) -> None:
    bob = brain.acting_as(agent="bob")
    noon = stored(bob, NOON, kind="fact")
    bob.revise.pin(noon)
    bob.revise.retag(noon, add=["wrong"])
    undone(brain)

    brain.revise.restore(noon, reason="it holds")

    memory_id = ids.parse(ids.MEMORY, noon)
    with brain.services.store.snapshot(LOCAL_TENANT) as tx:
        memory = tx.memories.get([memory_id])[memory_id]
    assert (memory.state, memory.pinned, memory.tags) == (State.ACTIVE, False, ())


def test_memory_is_current_if_what_replaced_it_has_been_undone(brain: Brain) -> None:
    bob = brain.acting_as(agent="bob")
    two, noon = stored(bob, TWO, kind="fact"), stored(brain, NOON, kind="fact")
    four = stored(brain, FOUR, kind="fact")
    bob.revise.resolve(four, other=two, reason="measured")
    undone(brain)
    brain.revise.resolve(four, other=noon, reason="measured again")

    done = brain.revise.restore(two, reason="needed")

    assert f"{two} state: forgotten -> active" in done.changed
    assert (brain.get(four).state, brain.doctor().is_sound) == (State.ACTIVE, True)
