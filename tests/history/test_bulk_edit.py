"""Bulk edits: one transaction for many memories, after a preview."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from commonbrain.client import Brain
from commonbrain.history.selection import Phase
from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.limits import TAGS_MAX
from commonbrain.model.memory import State
from commonbrain.model.scope import Role
from commonbrain.testing.builders import a_brain


@pytest.fixture
def brain(path: Path) -> Brain:
    return a_brain(path)


def stored(brain: Brain, *texts: str, depends_on: Sequence[str] = ()) -> list[str]:
    ids = [
        brain.remember(text, kind="fact", depends_on=depends_on or None).items[0].id
        for text in texts
    ]
    assert None not in ids
    return [one for one in ids if one is not None]


@pytest.fixture
def three(brain: Brain) -> list[str]:
    return stored(
        brain,
        "The shop runs on Postgres 17.",
        "Invoices are sent on the first Monday.",
        "Support answers within four hours.",
    )


def tags(brain: Brain, ids: list[str]) -> list[tuple[str, ...]]:
    return [one.tags for one in brain.get_several(ids)]


def test_bulk_edit_preview_changes_nothing(brain: Brain, three: list[str]) -> None:
    preview = brain.bulk_edit(three, "retag", tags=["shop"])
    assert (preview.status, preview.count) == (Phase.PREVIEW, 3)
    assert tags(brain, three) == [(), (), ()]


def test_confirmed_bulk_edit_changes_all_memories_and_is_undone_as_one(
    brain: Brain, three: list[str]
) -> None:
    before = brain.services.clock.now()
    done = brain.bulk_edit(three, "retag", tags=["shop"], confirm=3)
    assert done.status is Phase.DONE
    assert tags(brain, three) == [("shop",)] * 3
    undo = brain.undo(agent="ann", since=before, reason="a slip")
    # The memories were stored at the same time: an undo of all that would forget them.
    assert undo.count == 3


def test_outdated_confirmation_count_returns_the_preview_again(
    brain: Brain, three: list[str]
) -> None:
    brain.forget(three[0], reason="wrong")
    again = brain.bulk_edit(three, "retag", tags=["shop"], confirm=3)
    assert (again.status, again.count, again.skipped_count) == (Phase.PREVIEW, 2, 1)
    assert tags(brain, three[1:]) == [(), ()]


def test_one_refused_change_rolls_back_the_whole_bulk_edit(brain: Brain, three: list[str]) -> None:
    full = [f"tag-{number}" for number in range(TAGS_MAX)]
    brain.revise.retag(three[1], add=full)
    with pytest.raises(RejectedError, match="tags"):
        brain.bulk_edit(three, "retag", tags=["one-too-many"], confirm=3)
    assert tags(brain, three) == [(), tuple(full), ()]


def test_bulk_edit_archives_memories_with_its_reason(brain: Brain, three: list[str]) -> None:
    brain.bulk_edit(three, "archive", reason="the project ended", confirm=3)
    assert {one.state for one in brain.get_several(three)} == {State.ARCHIVED}
    [event] = [one for one in brain.get(three[0], views=["history"]).history or () if one.reason]
    assert event.reason == "the project ended"


def pins(brain: Brain, ids: list[str]) -> list[bool]:
    policies = [one.policy for one in brain.get_several(ids, views=["policy"])]
    return [one is not None and one.pinned for one in policies]


def test_bulk_edit_pins_and_unpins_memories(brain: Brain, three: list[str]) -> None:
    brain.bulk_edit(three, "pin", confirm=3)
    assert pins(brain, three) == [True] * 3
    brain.bulk_edit(three, "unpin", confirm=3)
    assert pins(brain, three) == [False] * 3


def test_bulk_edit_settles_reviews(brain: Brain, three: list[str]) -> None:
    [base, *_] = three
    resting = stored(
        brain,
        "The shop can use logical replication.",
        "The shop can use pgvector.",
        depends_on=[base],
    )
    brain.forget(base, reason="it was wrong")
    assert len(brain.review("needs_review").needs_review) == 2
    brain.bulk_edit(resting, "review", confirm=2)
    assert brain.review("needs_review").needs_review == ()


def test_impossible_bulk_edit_is_refused_with_the_reason(brain: Brain, three: list[str]) -> None:
    with pytest.raises(InvalidInputError, match="tags"):
        brain.bulk_edit(three, "retag", confirm=3)
    with pytest.raises(InvalidInputError, match="paint"):
        brain.bulk_edit(three, "paint", confirm=3)


def test_reader_cannot_bulk_edit(path: Path, three: list[str]) -> None:
    brain = a_brain(path)
    rita = Brain(brain.services, replace(brain.caller, role=Role.READER))
    with pytest.raises(RejectedError):
        rita.bulk_edit(three, "pin", confirm=3)
