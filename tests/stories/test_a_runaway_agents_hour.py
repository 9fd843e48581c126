"""An agent ran wild for an hour: all it wrote and changed is taken back in one call."""

from datetime import timedelta

import pytest

from commonbrain.client import Brain
from commonbrain.history.selection import Phase
from commonbrain.model.memory import Draft, State
from commonbrain.testing.builders import FakeClock
from tests.asking import as_it_is, stored

WRITTEN, CHANGED = 40, 24
"""More than the reply of an undo shows."""


def ids_of(brain: Brain, texts: list[str]) -> list[str]:
    """Remember events and give their ids."""
    made: list[str] = []
    for start in range(0, len(texts), 100):
        drafts = [Draft(body=text, kind="event") for text in texts[start : start + 100]]
        made += [one.id or "" for one in brain.remember(drafts).items]
    return made


def test_undo_reverts_an_hour_of_one_agent(brain: Brain, clock: FakeClock) -> None:
    # Memories of the team: some of it the runaway agent's own, from better days.
    runaway = brain.acting_as(agent="runaway", session="s-bad")
    good = ids_of(brain, [f"Order g{n} was shipped" for n in range(CHANGED)])
    earlier = stored(runaway.acting_as(session="s-good"), "Deploys happen at noon", kind="fact")
    clock.move(timedelta(days=1))
    before = [as_it_is(brain, id_) for id_ in good]

    # The hour: many new memories, and some old ones that were changed in some way.
    began = clock.now()
    bad = ids_of(runaway, [f"Order b{n} was lost" for n in range(WRITTEN)])
    quarter = CHANGED // 4
    for n, id_ in enumerate(good):
        match n // quarter:
            case 0:
                runaway.forget(id_, reason="lost")
            case 1:
                runaway.revise.retag(id_, add=["lost"])
            case 2:
                runaway.revise.supersede(id_, f"Order g{n} never came back", reason="lost")
            case _:
                runaway.revise.pin(id_)
    clock.move(timedelta(hours=1))
    # Meanwhile another agent relied on one of the new ones.
    brain.revise.annotate(bad[7], "The customer called about it")

    preview = brain.undo(agent="runaway", since=began, reason="it had a broken prompt")
    made = WRITTEN + CHANGED + quarter
    assert (preview.status, preview.count, preview.skipped_count) == (Phase.PREVIEW, made - 1, 1)
    assert brain.get(bad[0]).state is State.ACTIVE
    done = brain.undo(
        agent="runaway", since=began, reason="it had a broken prompt", confirm=preview.count
    )

    assert (done.status, done.count) == (Phase.DONE, made - 1)
    assert [as_it_is(brain, id_) for id_ in good] == before
    assert {brain.get(id_).state for id_ in bad[:7] + bad[8:]} == {State.FORGOTTEN}
    [skipped] = done.skipped
    assert (skipped.id, "ann has built on it" in (skipped.why or "")) == (bad[7], True)
    assert brain.get(bad[7]).state is State.ACTIVE
    assert brain.get(earlier).state is State.ACTIVE
    assert "it had a broken prompt" in (done.reason or "")
    assert brain.doctor().is_sound
    # Doing it again changes nothing more, and the undo itself can be undone.
    assert brain.undo(agent="runaway", since=began, reason="again").count == 0
    back = brain.undo(agent="ann", since=clock.now(), reason="wrong agent")
    brain.undo(agent="ann", since=clock.now(), reason="wrong agent", confirm=back.count)
    assert brain.get(bad[0]).state is State.ACTIVE
    assert brain.get(good[0]).state is State.FORGOTTEN


@pytest.mark.requirement("LC-04")
def test_undo_records_its_reason_with_every_change(brain: Brain) -> None:
    ids = ids_of(brain.acting_as(agent="runaway"), [f"Order b{n} was lost" for n in range(5)])
    done = brain.undo(agent="runaway", reason="broken", confirm=5)
    with brain.services.store.snapshot(brain.caller.tenant) as tx:
        changes = tx.changes.by(agent="ann", session=None, since=None, until=None, limit=10)
    assert {one.reason for one in changes} == {done.reason}
    assert (len(changes), len(ids)) == (5, 5)
    assert {str(one.action) for one in changes} == {"undo"}
