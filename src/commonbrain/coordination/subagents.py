"""Memories for subagents: of those that are about to start, and what the others were shown.

A client says what a subagent is to do when its agent asks for it, and shows it something when it
starts. In between, a note of the session holds the ids of what bears upon the task. Another note
holds what a subagent was shown: it does not see what its session was.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from commonbrain.coordination.handoff import RESERVED_PREFIX
from commonbrain.history.unit_of_work import UnitOfWork, read_unit, write_unit
from commonbrain.model.errors import UnavailableError
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
_SHOWN_FOR: Final = timedelta(days=1)
"""Longer than a subagent runs."""
_SHOWN_MAX: Final = 300
"""Ids in a note; of more, the last ones."""
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
            pending = [*_pending(unit), one][-_PENDING_MAX:]
            _write(unit, _KEY, listed=pending, lasting=_WAITING)

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
            rest = [one for one in pending if one is not taken]
            _write(unit, _KEY, listed=rest, lasting=_WAITING)
        return taken[2]


@dataclass(frozen=True, slots=True)
class ShownToSubagent:
    """What a subagent of a caller's session was shown; nothing without either."""

    services: Services
    caller: Caller
    subagent: str
    """The client's name of it; empty in the conversation of the session itself."""

    def ids(self) -> Collection[str]:
        """Return the ids of these memories.

        Raises:
            UnavailableError: the store cannot be read.

        """
        if not (self.subagent and self.caller.session):
            return ()
        with read_unit(self.services, self.caller) as unit:
            return frozenset(_read(unit, self._key))

    def add(self, memory_ids: Sequence[str]) -> None:
        """Note that it was shown these memories; it is shown them again if the store is locked."""
        if not (self.subagent and self.caller.session and memory_ids):
            return
        with suppress(UnavailableError), write_unit(self.services, self.caller) as unit:
            shown = dict.fromkeys([*_read(unit, self._key), *memory_ids])
            _write(unit, self._key, listed=list(shown)[-_SHOWN_MAX:], lasting=_SHOWN_FOR)

    @property
    def _key(self) -> str:
        return f"{RESERVED_PREFIX}shown.{hashlib.sha256(self.subagent.encode()).hexdigest()[:32]}"


def _pending(unit: UnitOfWork) -> list[_Pending]:
    since = to_millis(unit.now - _WAITING)
    return [(at, kind, ids) for at, kind, ids in _read(unit, _KEY) if at >= since]


def _read(unit: UnitOfWork, key: str) -> list[Any]:
    notes = unit.tx.scratchpad.of(unit.caller, now=unit.now)
    return json.loads(next((one.value for one in notes if one.key == key), "[]"))


def _write(unit: UnitOfWork, key: str, *, listed: Sequence[Any], lasting: timedelta) -> None:
    unit.tx.scratchpad.put(
        Note(
            key=key,
            value=json.dumps(listed),
            agent=unit.caller.agent,
            session=unit.caller.session or "",
            authority=unit.caller.authority,
            at=unit.now,
            expires_at=unit.now + lasting,
        )
    )
