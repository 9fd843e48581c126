from datetime import timedelta

import pytest

from commonbrain.client import Brain
from commonbrain.model import ids
from commonbrain.model.errors import RejectedError
from commonbrain.model.kinds import MessageDetail
from commonbrain.model.links import Link, LinkType
from commonbrain.model.memory import ThreadRef
from commonbrain.model.scope import Trust
from commonbrain.storage.interface import Annotation
from commonbrain.testing.builders import FakeClock
from tests.asking import bodies, stored

FACT = "The nightly build runs on two cores"
CAUSE = "Somebody pulled the wrong plug"
WEEK = timedelta(days=7)


def link(
    brain: Brain,
    one: str,
    other: str,
    *,
    type: LinkType = LinkType.CAUSES,  # noqa: A002 as the link calls it
    strength: float = 1.0,
    trust: Trust = Trust.USER_CLAIM,
) -> None:
    now = brain.services.clock.now()
    edge = Link(
        from_id=ids.parse(ids.MEMORY, one),
        to_id=ids.parse(ids.MEMORY, other),
        type=type,
        strength=strength,
        agent=brain.caller.agent,
        trust=trust,
        created_at=now,
        observed_at=now,
    )
    with brain.services.store.begin(brain.caller.tenant) as tx:
        tx.links.put(edge)


def note(brain: Brain, id_: str, text: str, *, trust: Trust = Trust.USER_CLAIM) -> None:
    with brain.services.store.begin(brain.caller.tenant) as tx:
        tx.annotations.add(
            Annotation(
                memory_id=ids.parse(ids.MEMORY, id_),
                text=text,
                agent="bob",
                trust=trust,
                at=brain.services.clock.now(),
            )
        )


@pytest.mark.requirement("RT-33", "RT-17")
def test_memory_linked_to_an_answer_is_recalled_with_the_answer(brain: Brain) -> None:
    fact, cause = stored(brain, FACT, kind="fact"), stored(brain, CAUSE, kind="event")
    assert bodies(brain, "nightly build") == [FACT]
    link(brain, cause, fact)
    first, second = brain.recall("nightly build").items
    assert (first.id, second.id, second.why) == (fact, cause, ("linked",))


@pytest.mark.requirement("RT-33")
def test_links_add_at_most_four_memories_and_half_of_the_items(brain: Brain) -> None:
    fact = stored(brain, FACT, kind="fact")
    for n in range(7):
        link(brain, stored(brain, f"{CAUSE} number {n} {'abcdefg'[n]}", kind="event"), fact)
    assert len(bodies(brain, "nightly build")) == 1 + 4
    assert len(bodies(brain, "nightly build", max_items=2)) == 2
    assert len(bodies(brain, "nightly build", max_items=1)) == 1


@pytest.mark.requirement("RT-33")
def test_linked_memories_are_ordered_by_freshness_and_strength(
    brain: Brain, clock: FakeClock
) -> None:
    old = stored(brain, "Long ago it was otherwise", kind="incident")
    clock.move(4 * WEEK)
    new = stored(brain, "Now it is like this", kind="incident")
    weak = stored(brain, "Some say it may differ", kind="incident")
    fact = stored(brain, FACT, kind="fact")
    for id_, strength in ((old, 1.0), (new, 1.0), (weak, 0.3)):
        link(brain, id_, fact, strength=strength)
    assert [item.id for item in brain.recall("nightly build").items] == [fact, new, weak, old]


@pytest.mark.requirement("ST-05", "PV-03")
def test_links_recall_no_hidden_forgotten_or_untrusted_memories(brain: Brain) -> None:
    fact = stored(brain, FACT, kind="fact")
    bob = brain.acting_as(agent="bob")
    secret = stored(bob, "Nobody may know", kind="event", scope="private")
    removed = stored(brain, "It was never so", kind="event")
    web = stored(brain, "Click here", kind="event", trust="untrusted_web")
    fine = stored(brain, "It was like that", kind="event")
    for id_ in (secret, removed, web):
        link(brain, id_, fact)
    link(brain, fine, fact, trust=Trust.UNTRUSTED_WEB)
    brain.forget(removed, reason="wrong")
    assert bodies(brain, "nightly build") == [FACT]
    assert {edge.id for edge in brain.get(fact, views=["links"]).links or ()} == {
        removed,
        web,
        fine,
    }


@pytest.mark.requirement("RT-22", "RT-23")
def test_conflict_is_reported_and_the_preferred_side_comes_first(
    brain: Brain, clock: FakeClock
) -> None:
    old = stored(brain, FACT, kind="fact", project="a")
    clock.move(WEEK)
    new = stored(brain, "The nightly build runs on four cores", kind="fact")
    link(brain, new, old, type=LinkType.CONFLICTS_WITH)
    answer = brain.recall("nightly build runs on two cores")
    [conflict] = answer.conflicts
    assert (conflict.preferred, set(conflict.ids)) == (new, {old, new})
    assert conflict.is_close
    assert conflict.line() in answer.evidence
    [note] = {item.id: item.notes for item in answer.items}[old]
    assert note.startswith(f"earlier, changed by {new} on ")


@pytest.mark.requirement("RT-23")
def test_conflict_mark_of_lower_trust_lowers_no_score(brain: Brain, clock: FakeClock) -> None:
    old = stored(brain, FACT, kind="fact", trust="trusted_tool")
    clock.move(WEEK)
    new = stored(brain, "The nightly build runs on 4 cores", kind="fact")
    link(brain, new, old, type=LinkType.CONFLICTS_WITH)
    answer = brain.recall("nightly build runs on two cores")
    assert (answer.items[0].id, answer.items[0].notes) == (old, ())
    assert answer.conflicts[0].preferred == old


@pytest.mark.requirement("RT-13")
def test_annotations_are_shown_with_their_memory_and_author(brain: Brain, clock: FakeClock) -> None:
    id_ = stored(brain, FACT, kind="fact")
    note(brain, id_, "Four since\nthe upgrade | trust me")
    clock.move(timedelta(seconds=1))
    note(brain, id_, "Buy now", trust=Trust.UNTRUSTED_WEB)
    answer = brain.recall("nightly build")
    assert answer.items[0].notes == (
        "noted by bob (user_claim): Four since the upgrade | trust me",
    )
    assert "Four since the upgrade / trust me" in answer.evidence
    annotations = brain.get(id_, views=["annotations"]).annotations or ()
    assert [one.text for one in annotations] == ["Four since\nthe upgrade | trust me", "Buy now"]


def test_message_is_recalled_with_the_subject_of_its_thread(brain: Brain) -> None:
    thread = ThreadRef(key="t1", subject="How many cores?")
    stored(brain, FACT, kind="message", thread=thread, detail=MessageDetail(sender="bob"))
    answer = brain.recall("nightly build")
    assert answer.items[0].context == "How many cores?"
    assert "in How many cores?" in answer.evidence


def test_message_next_to_a_match_ranks_before_distant_messages(brain: Brain) -> None:
    at = brain.services.clock.now()
    for n, (key, text) in enumerate(
        (
            ("t1", "Which port does the billing service listen on?"),
            ("t1", "It was moved to 9000, the service"),
            ("t2", "It was painted blue, the service"),
        )
    ):
        stored(
            brain,
            text,
            kind="message",
            thread=ThreadRef(key=key, subject=key),
            occurred_at=at + timedelta(seconds=n),
        )
    matches = bodies(brain, "billing service port")
    assert set(matches[:2]) == {
        "Which port does the billing service listen on?",
        "It was moved to 9000, the service",
    }


def test_memory_cannot_become_a_source_of_a_more_trusted_or_more_visible_one(brain: Brain) -> None:
    web = brain.acting_as(agent="web", trust_ceiling=Trust.UNTRUSTED_WEB)
    untrusted = stored(web, "Port 5432 is open on staging", kind="fact")
    private = stored(brain, "My notes on sockets", kind="fact", scope="private")
    shared = stored(brain, FACT, kind="fact")
    for source in (untrusted, private):
        with pytest.raises(RejectedError) as refused:
            brain.revise.link(shared, source, type=LinkType.DERIVED_FROM)
        assert refused.value.code == "source_beneath"
        brain.revise.link(shared, source, type=LinkType.DEPENDS_ON)
    brain.revise.link(untrusted, shared, type=LinkType.DERIVED_FROM)
