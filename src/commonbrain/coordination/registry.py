"""The registry of sessions: who is there, who begins, and who is found to be gone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from typing import Any

from commonbrain.coordination.processes import Processes
from commonbrain.history.unit_of_work import Act
from commonbrain.model import ids
from commonbrain.model.errors import CommonbrainError
from commonbrain.model.limits import PROBES_MAX, SESSIONS_SHOWN_MAX, SILENT_ENDED_MAX
from commonbrain.model.scope import Caller
from commonbrain.model.sessions import (
    SILENCE_MAX,
    Contact,
    Ending,
    Session,
    ending_of,
    key_of,
    rebooted_by,
    told_by,
)
from commonbrain.services import House
from commonbrain.storage.coordination import Beat
from commonbrain.storage.interface import Transaction


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


def contact_here(house: House, *, client: str | None = None, serves: bool = False) -> Contact:
    """Describe the client that started this process; with `serves` this is its connection."""
    processes = house.processes
    return Contact(
        client=client,
        cwd=processes.folder(),
        process=processes.client(),
        server=processes.own() if serves else None,
    )


def meet(house: House, caller: Caller, *, last: str | None = None) -> Session:
    """Say which session a call is of, and leave its sign of life for the journal to write.

    Never waits for a writer, and never fails: of a store that cannot be read nothing is learnt.

    Args:
        house: where it is.
        caller: who calls, with its contact; a session that it names is taken as named.
        last: the key under which its connection called before.

    """
    try:
        with house.store.snapshot(caller.tenant) as tx:
            known, around = _known(tx, caller, last=last), _around(tx, caller)
    except CommonbrainError:
        # Whatever was called tells of it; what it says does not depend on the session.
        known, around = None, []
    key = caller.session or key_of(last, known=known, around=around)
    session = next((one for one in (known, *around) if one is not None and one.key == key), None)
    now = house.clock.now()
    if session is None:
        session = begun(house, replace(caller, session=key))
    heard = replace(session, heartbeat_at=now, ended_at=None, ending=None)
    told: dict[str, Any] = told_by(caller.contact)
    house.journal.beat(Beat(tenant=caller.tenant, session=replace(heard, **told)))
    if last is not None and session.key != last:
        _forsake(house, replace(caller, session=last))
    return session


def leave(house: House, caller: Caller) -> None:
    """Note that the connection of the caller's session was closed, for the journal to write."""
    if caller.session is not None:
        _leave(house, begun(house, caller), tenant=caller.tenant, ending=Ending.CLOSED)


def open_session(act: Act, *, contact: Contact, task: str | None) -> Session:
    """Begin the caller's session in earnest, or make a new one where the caller has none.

    A client that gives its sessions names has one at a time: one that begins ends the live ones of
    the same agent, process and folder. Who is found to be gone is ended, too.
    """
    swept = look_around(act.tx, act.house.processes, now=act.now)
    write_down(act.tx, swept, now=act.now)
    known = own_session(act)
    # What ended begins anew under its key: a client may take up an old conversation.
    told: dict[str, Any] = {
        "project": act.caller.project or known.project,
        "task": task or known.task,
        "booted_at": act.now,
        "heartbeat_at": act.now,
        "ended_at": None,
        "ending": None,
        **told_by(contact),
    }
    session = replace(known, **told)
    act.tx.sessions.save(session)
    if session.process is not None:
        around = act.tx.sessions.of_process(session.agent, session.process, cwd=session.cwd)
        gone = [one.id for one in rebooted_by(session, around)]
        act.tx.sessions.end(gone, ending=Ending.REBOOTED, at=act.now)
    return session


def own_session(act: Act) -> Session:
    """Give the caller's session as it is stored, or as it would begin now."""
    key = act.caller.session
    known = act.tx.sessions.get(act.caller.agent, key) if key else None
    return known or begun(act.house, act.caller)


def begun(house: House, caller: Caller) -> Session:
    """Make a session that begins now, under the caller's key or one drawn for it.

    Who is behind it stands in it from the first: a server may be killed before its next sign of
    life is written, and of whom nothing is known nobody can say that it is gone.
    """
    now = house.clock.now()
    id_ = ids.make_id(now, house.chance.bits(ids.RANDOM_BITS))
    session = Session(
        id=id_,
        key=caller.session or ids.show(ids.SESSION, id_),
        agent=caller.agent,
        project=caller.project,
        started_at=now,
        heartbeat_at=now,
    )
    told: dict[str, Any] = told_by(caller.contact)
    return replace(session, **told)


def siblings(act: Act, project: str | None, *, agent: str | None = None) -> list[Session]:
    """List the live sessions of a project and an agent, or of all, but for the caller's own."""
    own = (act.caller.agent, act.caller.session)
    live = act.tx.sessions.live(project=project, agent=agent, limit=SESSIONS_SHOWN_MAX + 1)
    others = [one for one in live if (one.agent, one.key) != own]
    return others[:SESSIONS_SHOWN_MAX]


def _known(tx: Transaction, caller: Caller, *, last: str | None) -> Session | None:
    key = caller.session or last
    return tx.sessions.get(caller.agent, key) if key else None


def _around(tx: Transaction, caller: Caller) -> list[Session]:
    """List the live sessions of the caller's client, whose one key a connection may take up."""
    process = caller.contact.process
    if caller.session is not None or process is None:
        return []
    return tx.sessions.of_process(caller.agent, process, cwd=caller.contact.cwd)


def _forsake(house: House, caller: Caller) -> None:
    """End what a connection was called until its client told the key that it was without.

    The session may not be written yet, only waiting to be. One that a client named may go on
    elsewhere.
    """
    former = begun(house, caller)
    if not former.is_named:
        _leave(house, former, tenant=caller.tenant, ending=Ending.REBOOTED)


def _leave(house: House, session: Session, *, tenant: str, ending: Ending) -> None:
    now = house.clock.now()
    over = replace(session, heartbeat_at=now, ended_at=now, ending=ending)
    house.journal.beat(Beat(tenant=tenant, session=over))
