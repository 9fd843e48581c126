"""What calls leave: events in the store, and those that came too early to be kept there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from commonbrain.domain.ledger import Use
from commonbrain.domain.tool_event import ToolEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """Events of one tenant to be kept, and the moment before which older ones are dropped."""

    events: Sequence[ToolEvent]
    keep_from: datetime
    uses: Sequence[Use] = ()
    """What was done with memories, to be marked on the recalls that showed them."""


class EventShelf(Protocol):
    """The shelf of calls."""

    def latest(self, *, limit: int, since: datetime, failed: bool = False) -> list[ToolEvent]:
        """List the calls since a moment, or the failed ones, the newest first."""
        ...


class EarlyEvents(Protocol):
    """Where events wait that came before their session was known; several processes share it.

    Laws: an event waits a day at most, and at most a thousand do; what was handed over and written
    waits no longer; what could not be written waits on.
    """

    def keep(self, event: ToolEvent) -> None:
        """Let an event wait; one that cannot is lost, which no call fails for."""
        ...

    def hand_over(
        self, tenant: str, agent: str, *, write: Callable[[Sequence[ToolEvent]], None]
    ) -> int:
        """Give an agent's events to what writes them, and forget them then; count them.

        Raises:
            CommonbrainError: what the writing raises; all of them wait on.

        """
        ...


class NoEarlyEvents:
    """Keeps nothing: where nobody's session is ever unknown."""

    def keep(self, event: ToolEvent) -> None:
        """Let it go."""

    def hand_over(
        self,
        tenant: str,  # noqa: ARG002
        agent: str,  # noqa: ARG002
        *,
        write: Callable[[Sequence[ToolEvent]], None],  # noqa: ARG002
    ) -> int:
        """Give none."""
        return 0
