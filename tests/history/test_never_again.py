"""Erased memories stay erased, and replies about others name no private memory."""

from datetime import timedelta
from pathlib import Path

import pytest

from commonbrain.client import Brain
from commonbrain.model.memory import State
from commonbrain.testing.builders import FakeClock
from tests.asking import bodies, stored

BOXES = "The zebra stable of Oslo has eleven boxes"
CRANES = "The harbour cranes need paint"


def everything_in(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in path.parent.glob(f"{path.name}*"))


@pytest.mark.requirement("LC-14")
def test_merging_an_older_export_restores_no_erased_text(
    brain: Brain, path: Path, tmp_path: Path, clock: FakeClock
) -> None:
    id_ = stored(brain, BOXES, kind="fact", tags=["okapi"])
    other = stored(brain, CRANES, kind="fact")
    brain.revise.annotate(id_, "Beware of the giraffe")
    brain.revise.link(id_, other, type="supports", reason="Both are of Oslo")
    brain.revise.retag(id_, add=["lemur"])
    brain.export(tmp_path / "before.jsonl")
    clock.move(timedelta(hours=1))
    brain.erase(id_, reason="gone", confirm=1)
    brain.merge(tmp_path / "before.jsonl")
    view = brain.get(id_, views=["annotations", "links", "history"])
    assert (view.state, view.annotations, view.links) == (State.FORGOTTEN, (), ())
    assert bodies(brain, "stable of Oslo") == []
    brain.close()
    (tmp_path / "before.jsonl").unlink()
    left = everything_in(path)
    assert [word for word in (b"zebra", b"okapi", b"giraffe", b"lemur") if word in left] == []


def test_erasing_a_memory_removes_its_text_from_stored_replies(brain: Brain, path: Path) -> None:
    id_ = stored(brain, BOXES, kind="event")
    green = "The zebra stable of Oslo has boxes painted green now"
    [near] = brain.remember(green, kind="event", idempotency_key="k").items[0].similar
    assert near.id == id_
    brain.erase(id_, reason="gone", confirm=1)
    brain.close()
    assert b"eleven boxes" not in everything_in(path)


def test_memory_restored_after_its_expiry_has_no_expiry(brain: Brain, clock: FakeClock) -> None:
    end = (clock.now() + timedelta(hours=2)).isoformat()
    id_ = stored(brain, "The code freeze lasts", kind="fact", expires_at=end)
    brain.revise.supersede(id_, "The code thaw lasts", reason="spring")
    clock.move(timedelta(hours=5))
    brain.revise.restore(id_, reason="winter again")
    assert bodies(brain, "code freeze") == ["The code freeze lasts"]


def test_undo_does_not_name_the_author_of_a_private_dependent(brain: Brain) -> None:
    id_ = stored(brain, CRANES, kind="fact")
    bob = brain.acting_as(agent="bob")
    hidden = stored(bob, "Paint is dear", kind="fact", scope="private", derived_from=[id_])
    [skipped] = brain.undo(agent="ann", reason="mistaken").skipped
    assert hidden not in (skipped.why or "")
    assert "bob" not in (skipped.why or "")
    assert hidden in (bob.undo(agent="ann", reason="mistaken").skipped[0].why or "")
