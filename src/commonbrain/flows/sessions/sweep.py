"""Finding out who is gone: a bounded look at processes, and at who fell silent for a day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache

from commonbrain.domain.limits import PROBES_MAX, SILENT_ENDED_MAX
from commonbrain.domain.liveness import SILENCE_MAX, ending_of
from commonbrain.domain.session import Ending, Session
from commonbrain.ports.processes import Processes
from commonbrain.ports.store import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What a look around found: who is gone by which evidence, and who was seen to be there."""

    gone: Sequence[tuple[Session, Ending]]
    seen: Sequence[Session]
    is_partial: bool
    """Whether there may be more to look at, so that it matters whose turn it was."""

    @property
    def gone_ids(self) -> frozenset[int]:
        """Give the ids of those who are gone."""
        return frozenset(session.id for session, _ in self.gone)


def look_around(tx: Transaction, processes: Processes, *, now: datetime) -> Swept:
    """Judge the live sessions whose turn it is; changes nothing."""
    # Sessions of one client share its process: it is looked at once.
    is_alive = cache(processes.is_alive)
    near = tx.sessions.to_probe(processes.host, limit=PROBES_MAX)
    silent = tx.sessions.silent(processes.host, since=now - SILENCE_MAX, limit=SILENT_ENDED_MAX)
    gone: list[tuple[Session, Ending]] = []
    seen: list[Session] = []
    for session in (*near, *silent):
        ending = ending_of(session, host=processes.host, now=now, is_alive=is_alive)
        if ending is None:
            seen.append(session)
        else:
            gone.append((session, ending))
    return Swept(gone=gone, seen=seen, is_partial=len(near) == PROBES_MAX)


def needs_writing(swept: Swept) -> bool:
    """Say whether anything has to be written down; mostly nobody is gone."""
    return bool(swept.gone) or swept.is_partial


def write_down(tx: Transaction, swept: Swept, *, now: datetime) -> None:
    """End who is gone, and note whose turn it was where not all had theirs."""
    for ending in Ending:
        ids = [session.id for session, how in swept.gone if how is ending]
        tx.sessions.end(ids, ending=ending, at=now)
    if swept.is_partial:
        tx.sessions.probed([session.id for session in swept.seen], at=now)
