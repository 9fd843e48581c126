"""Memories for subagents that are about to start.

A client says what a subagent is to do when its agent asks for it, and shows it something when it
starts. In between, a note of the session holds the ids of what bears upon the task.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

from commonbrain.coordination.handoff import RESERVED_PREFIX
from commonbrain.history.unit_of_work import UnitOfWork, write_unit
from commonbrain.model.notes import Note
from commonbrain.model.timestamps import to_millis

if TYPE_CHECKING:
    from commonbrain.model.scope import Caller
    from commonbrain.services import Services

_KEY: Final = f"{RESERVED_PREFIX}subagents"
_WAITING: Final = timedelta(minutes=1)
"""A subagent that has not started by then was refused."""
_PENDING_MAX: Final = 10
"""Subagents that an agent asks for at once; of more, the last ones."""
_Pending: TypeAlias = tuple[int, str, list[str]]
"""When it was asked for, the type of the subagent, and ids of memories."""


@dataclass(frozen=True, slots=True)
class PendingSubagents:
    """The subagents that a caller's session has asked for and that have not started."""

    services: Services
    caller: Caller

    def add(self, kind: str, memory_ids: Sequence[str]) -> None:
        """Note what bears upon the task of a subagent.

        Raises:
            UnavailableError: the store stayed locked; nothing is noted.

        """
        with write_unit(self.services, self.caller) as unit:
            one = (to_millis(unit.now), kind, list(memory_ids))
            _write(unit, [*_pending(unit), one][-_PENDING_MAX:])

    def take(self, kind: str) -> Sequence[str]:
        """Return the ids for the subagent that was asked for first, of this type if one is.

        Raises:
            UnavailableError: the store stayed locked; nothing is taken.

        """
        with write_unit(self.services, self.caller) as unit:
            pending = _pending(unit)
            if not pending:
                return ()
            taken = next((one for one in pending if one[1] == kind), pending[0])
            _write(unit, [one for one in pending if one is not taken])
        return taken[2]


def _pending(unit: UnitOfWork) -> list[_Pending]:
    notes = unit.tx.scratchpad.of(unit.caller, now=unit.now)
    value = next((one.value for one in notes if one.key == _KEY), "[]")
    since = to_millis(unit.now - _WAITING)
    return [(at, kind, ids) for at, kind, ids in json.loads(value) if at >= since]


def _write(unit: UnitOfWork, pending: Sequence[_Pending]) -> None:
    unit.tx.scratchpad.put(
        Note(
            key=_KEY,
            value=json.dumps(pending),
            agent=unit.caller.agent,
            session=unit.caller.session or "",
            authority=unit.caller.authority,
            at=unit.now,
            expires_at=unit.now + _WAITING,
        )
    )
