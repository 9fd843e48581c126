"""Marks, annotations and links: changes that leave the text as it is."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.client import Brain
from commonbrain.history.change_plan import ChangeStatus
from commonbrain.history.metadata import vote_of
from commonbrain.model.errors import CommonbrainError, InvalidInputError, RejectedError
from commonbrain.model.kinds import TaskStatus
from commonbrain.model.links import LinkType
from commonbrain.model.query import Filter
from commonbrain.model.revision import Action, Revision
from commonbrain.model.scope import LOCAL_TENANT, Trust
from commonbrain.storage.interface import Annotation, QueryScope
from tests.asking import bodies, stored

TWO = "The nightly build runs on two cores"


def notes(brain: Brain) -> list[Annotation]:
    """Every annotation of the memories that are recalled."""
    with brain.services.store.snapshot(LOCAL_TENANT) as tx:
        ids = [hit.id for hit in tx.memories.newest(scope_of(brain), limit=10)]
        return [one for noted in tx.annotations.of(ids).values() for one in noted]


def scope_of(brain: Brain) -> QueryScope:
    return QueryScope(caller=brain.caller, filter=Filter(), now=brain.services.clock.now())


def test_pinning_and_unpinning_report_whether_anything_changed(brain: Brain) -> None:
    id_ = stored(brain, TWO, kind="fact")
    assert brain.revise.pin(id_).changed == (f"{id_} pinned: no -> yes",)
    assert brain.revise.pin(id_).status is ChangeStatus.UNCHANGED
    assert brain.revise.unpin(id_).status is ChangeStatus.DONE
    assert brain.revise.unpin(id_).status is ChangeStatus.UNCHANGED


def test_memory_is_recalled_by_its_new_tags_and_not_by_removed_ones(brain: Brain) -> None:
    id_ = stored(brain, TWO, kind="fact", tags=["old", "kept"])
    done = brain.revise.retag(id_, add=["Zanzibar", "kept"], remove=["old"])
    assert done.changed == (f"{id_} tags: old, kept -> kept, Zanzibar",)
    assert bodies(brain, "Zanzibar") == [TWO]
    assert bodies(brain, tags=["old"]) == []
    again = brain.revise.retag(id_, add=["Zanzibar"], remove=["old"])
    assert again.status is ChangeStatus.UNCHANGED
    assert brain.doctor().is_sound
    with pytest.raises(InvalidInputError, match="tag"):
        brain.revise.retag(id_, add=[" "])
    with pytest.raises(RejectedError) as refusal:
        brain.revise.retag(id_, add=[f"tag{n}" for n in range(51)])
    assert refusal.value.code == "limit_exceeded"


@pytest.mark.requirement("LC-09")
def test_vote_replaces_the_earlier_vote_of_the_same_agent(brain: Brain) -> None:
    id_ = stored(brain, TWO, kind="fact")
    bob = brain.acting_as(agent="bob")
    assert brain.revise.rate(id_, "up").changed == (f"{id_} rating: 0 -> 1",)
    assert brain.revise.rate(id_, "up").status is ChangeStatus.UNCHANGED
    assert bob.acting_as(session="s1").revise.rate(id_, "up").changed == (f"{id_} rating: 1 -> 2",)
    assert bob.acting_as(session="s2").revise.rate(id_, "up").status is ChangeStatus.UNCHANGED
    assert brain.revise.rate(id_, "down").changed == (f"{id_} rating: 2 -> 0",)
    assert brain.get(id_).rating == 0


def test_undone_vote_can_be_cast_again(brain: Brain) -> None:
    id_ = stored(brain, TWO, kind="fact")
    bob = brain.acting_as(agent="bob")
    brain.revise.rate(id_, "up")
    bob.revise.rate(id_, "up")
    brain.undo(agent="bob", reason="spam", confirm=1)
    assert brain.get(id_).rating == 1
    assert bob.revise.rate(id_, "down").changed == (f"{id_} rating: 1 -> 0",)
    assert bob.revise.rate(id_, "up").changed == (f"{id_} rating: 0 -> 2",)


@given(votes=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from((1, -1))), max_size=12))
def test_rating_is_the_sum_of_the_last_vote_of_each_agent(votes: list[tuple[str, int]]) -> None:
    changes: list[Revision] = []
    rating = 0
    for agent, vote in votes:
        after = rating - vote_of(agent, changes) + vote
        changes.append(
            Revision(
                memory_id=1,
                action=Action.RATE,
                agent=agent,
                at=datetime(2026, 1, 1, tzinfo=UTC),
                before={"rating": rating},
                after={"rating": after},
            )
        )
        rating = after
    assert rating == sum(dict(votes).values())


@pytest.mark.requirement("LC-09", "DM-27")
def test_votes_and_annotations_are_allowed_on_more_trusted_memories(brain: Brain) -> None:
    id_ = stored(brain, TWO, kind="fact", trust="trusted_tool")
    web = brain.acting_as(agent="web", trust_ceiling=Trust.UNTRUSTED_WEB)
    assert web.revise.rate(id_, "up").changed == (f"{id_} rating: 0 -> 1",)
    assert brain.revise.rate(id_, "down").changed == (f"{id_} rating: 1 -> 0",)
    assert web.revise.annotate(id_, " Not on Sundays ").status is ChangeStatus.DONE
    assert web.revise.annotate(id_, "Not on Sundays").status is ChangeStatus.UNCHANGED
    [note] = notes(brain)
    assert (note.text, note.agent, note.trust) == ("Not on Sundays", "web", Trust.UNTRUSTED_WEB)
    assert brain.get(id_).body == TWO
    for text in ("", " ", "x" * 2001):
        with pytest.raises(InvalidInputError, match="annotation"):
            web.revise.annotate(id_, text)
    with pytest.raises(InvalidInputError, match="not a vote"):
        brain.revise.rate(id_, "sideways")  # pyright: ignore[reportArgumentType]


def test_linking_again_averages_the_strength_and_unlinking_removes_the_link(brain: Brain) -> None:
    one = stored(brain, TWO, kind="fact")
    other = stored(brain, "Deploys of the billing service happen at noon", kind="fact")
    first = brain.revise.link(one, other, type="causes", strength=0.9, reason="seen once")
    second = brain.revise.link(one, other, type="causes", strength=0.5)
    assert first.changed == (f"{one} causes {other} (strength 0.90, seen 1x)",)
    assert second.changed == (f"{one} causes {other} (strength 0.70, seen 2x)",)
    assert brain.revise.unlink(one, other, type="causes").status is ChangeStatus.DONE
    assert brain.revise.unlink(one, other, type="causes").status is ChangeStatus.UNCHANGED
    for call in (
        lambda: brain.revise.link(one, one, type="causes"),
        lambda: brain.revise.link(one, other, type="owns"),
        lambda: brain.revise.link(one, other, type="causes", strength=2),
    ):
        with pytest.raises(InvalidInputError):
            call()


@pytest.mark.requirement("DM-44", "CT-04")
def test_links_of_every_type_coexist_with_their_own_strength(brain: Brain) -> None:
    one, other = (stored(brain, text, kind="event") for text in (TWO, "Tea was late again"))
    types = [one for one in LinkType if one is not LinkType.CHANGES]
    for number, type_ in enumerate(types, 1):
        for _ in range(number % 3 + 1):
            brain.revise.link(one, other, type=type_, strength=number / 20)

    reply = brain.get(one, views=["links"]).links
    assert reply is not None
    assert {(link.type, round(link.strength, 2), link.observations) for link in reply} == {
        (type_, number / 20, number % 3 + 1) for number, type_ in enumerate(types, 1)
    }


def test_task_changes_status_and_no_other_field(brain: Brain) -> None:
    id_ = stored(brain, "Renew the certificate of the API", kind="task")
    due = datetime(2026, 4, 1, tzinfo=UTC)
    brain.revise.status(id_, "blocked", due_at=due, priority="high", assignee="bob")
    done = brain.revise.status(id_, TaskStatus.DONE)
    assert done.changed == (f"{id_} status: blocked -> done",)
    detail = brain.get(id_).detail
    assert (detail["due_at"], detail["priority"], detail["assignee"]) == (due, "high", "bob")
    assert brain.revise.status(id_, "done").status is ChangeStatus.UNCHANGED
    with pytest.raises(InvalidInputError, match="Choose one of"):
        brain.revise.status(id_, "later")
    with pytest.raises(InvalidInputError, match="only a task"):
        brain.revise.status(stored(brain, TWO, kind="fact"), "done")


def test_memory_that_is_not_current_cannot_be_marked(brain: Brain) -> None:
    id_ = stored(brain, TWO, kind="fact")
    brain.forget(id_, reason="wrong")
    for change in (
        lambda: brain.revise.pin(id_),
        lambda: brain.revise.rate(id_, "up"),
        lambda: brain.revise.annotate(id_, "x"),
        lambda: brain.revise.retag(id_, add=["x"]),
    ):
        with pytest.raises(CommonbrainError) as refusal:
            change()
        assert refusal.value.code == "not_current"
