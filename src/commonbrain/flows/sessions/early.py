"""What an agent called before its session was known, given to the session that it boots."""

from collections.abc import Sequence
from dataclasses import replace

from commonbrain.domain.scope import Caller
from commonbrain.domain.tool_event import ToolEvent
from commonbrain.flows.house import House


def hand_over(house: House, caller: Caller) -> None:
    """Write the early events of the caller's agent as those of its session.

    Raises:
        Unavailable: the store cannot take them now; they wait on.

    """

    def write(events: Sequence[ToolEvent]) -> None:
        own = [replace(event, session=caller.session) for event in events]
        house.journal.note_now(caller.tenant, own)

    house.early.hand_over(caller.tenant, caller.agent, write=write)
