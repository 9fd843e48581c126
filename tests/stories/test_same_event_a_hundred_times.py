"""The same event a hundred times: one memory that says how often, not a hundred that crowd."""

from datetime import timedelta

from commonbrain.client import Brain
from commonbrain.ingestion.result import ItemStatus
from commonbrain.model import ids
from commonbrain.model.revision import Action
from commonbrain.testing.builders import FakeClock
from tests.asking import bodies, remember_one, stored


def test_same_event_remembered_a_hundred_times_is_stored_once_and_counted(
    brain: Brain, clock: FakeClock
) -> None:
    # A cron job reports every night, in the same words.
    first = stored(brain, "The nightly backup finished without errors", kind="event")
    for _ in range(99):
        clock.move(timedelta(days=1))
        again = remember_one(brain, "The nightly backup finished without errors", kind="event")
        assert (again.status, again.id) == (ItemStatus.EXISTS, first)

    # There is one memory of it, which knows how often it came and when it came last.
    assert brain.status().memories == 1
    assert brain.get(first).detail["recurrences"] == 99
    with brain.services.store.snapshot("default") as tx:
        changes = tx.changes.of([ids.parse(ids.MEMORY, first)])
    assert [change.action for change in changes] == [Action.CREATE] + [Action.RECUR] * 99
    assert changes[-1].at == clock.now()

    # Another job puts the minutes it took into its report: each is kept, the first one counts.
    slow = stored(brain, "The index rebuild took 10 minutes", kind="event")
    for minutes in range(11, 31):
        stored(brain, f"The index rebuild took {minutes} minutes", kind="event")
    assert brain.get(slow).detail["recurrences"] == 20

    # Neither keeps what matters out of an answer.
    stored(brain, "The backup of host seven is encrypted with age", kind="fact")
    assert "The backup of host seven is encrypted with age" in bodies(brain, "backup")
