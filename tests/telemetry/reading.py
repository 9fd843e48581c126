"""What tests read of what calls left."""

from datetime import timedelta

from commonbrain.brain import Brain
from commonbrain.domain.tool_event import ToolEvent


def events(brain: Brain) -> list[ToolEvent]:
    """Write what waits, and read every event of the brain's tenant, the oldest first."""
    brain.house.journal.flush()
    since = brain.house.clock.now() - timedelta(days=400)
    with brain.house.store.snapshot(brain.caller.tenant) as tx:
        return tx.events.latest(limit=10_000, since=since)[::-1]
