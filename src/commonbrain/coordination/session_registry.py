"""The session registry: open sessions, touch them, and end dead ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from commonbrain.history.unit_of_work import UnitOfWork
from commonbrain.model import ids
from commonbrain.model.errors import CommonbrainError
from commonbrain.model.limits import PROBES_MAX, SESSIONS_SHOWN_MAX, SILENT_ENDED_MAX
from commonbrain.model.scope import Caller
from commonbrain.model.sessions import (
    SILENCE_MAX,
    ClientInfo,
    Ending,
    Session,
    ending_of,
    key_of,
    known_fields_of,
    rebooted_by,
)
from commonbrain.services import Services
from commonbrain.storage.interface import Heartbeat

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class ReapResult:
    """Sessions found dead, with the evidence, and sessions seen alive."""

    dead: Sequence[tuple[Session, Ending]]
    seen: Sequence[Session]
    is_partial: bool
    """Whether there may be more to check, so that the order must be stored."""

    @property
    def dead_ids(self) -> frozenset[int]:
        """Return the ids of dead sessions."""
        return frozenset(session.id for session, _ in self.dead)


def find_dead_sessions(tx: Transaction, services: Services, *, now: datetime) -> ReapResult:
    """Check the active sessions that are due; changes nothing."""
    processes, http_idle = services.processes, services.http_session_idle
    # Sessions of one client share its process, which is checked once.
    is_alive = cache(processes.is_alive)
    near = tx.sessions.to_probe(processes.host, limit=PROBES_MAX)
    silent = tx.sessions.silent(
        processes.host,
        since=now - SILENCE_MAX,
        http_since=now - http_idle,
        limit=SILENT_ENDED_MAX,
    )
    dead: list[tuple[Session, Ending]] = []
    seen: list[Session] = []
    for session in (*near, *silent):
        ending = ending_of(
            session,
            host=processes.host,
            now=now,
            is_alive=is_alive,
            silence_max=http_idle if session.is_http else SILENCE_MAX,
        )
        if ending is None:
            seen.append(session)
        else:
            dead.append((session, ending))
    return ReapResult(dead=dead, seen=seen, is_partial=len(near) == PROBES_MAX)


def has_changes(reaped: ReapResult) -> bool:
    """Return whether anything has to be written; usually no session is dead."""
    return bool(reaped.dead) or reaped.is_partial


def end_dead_sessions(tx: Transaction, reaped: ReapResult, *, now: datetime) -> None:
    """End dead sessions, and record which were checked if not all were."""
    for ending in Ending:
        ids = [session.id for session, how in reaped.dead if how is ending]
        tx.sessions.end(ids, ending=ending, at=now)
    if reaped.is_partial:
        tx.sessions.probed([session.id for session in reaped.seen], at=now)


def detect_client(
    services: Services, *, client: str | None = None, serves: bool = False
) -> ClientInfo:
    """Describe the client that started this process; with `serves`, this is its connection."""
    processes = services.processes
    return ClientInfo(
        client=client,
        cwd=processes.folder(),
        process=processes.client(),
        server=processes.own() if serves else None,
    )


def touch_session(services: Services, caller: Caller, *, last: str | None = None) -> Session:
    """Return the session of a call and queue its heartbeat.

    Never waits for a writer, and never fails: an unreadable store gives an unsaved session.

    Args:
        services: the services of the store.
        caller: the caller with its client; a session that it names is used.
        last: the key under which its connection called before.

    """
    try:
        with services.store.snapshot(caller.tenant) as tx:
            known, live_sessions = _known(tx, caller, last=last), _around(tx, caller)
    except CommonbrainError:
        # Any call proves that the session is alive; its result does not depend on that.
        known, live_sessions = None, []
    key = caller.session or key_of(last, known=known, live_sessions=live_sessions)
    session = next(
        (one for one in (known, *live_sessions) if one is not None and one.key == key), None
    )
    now = services.clock.now()
    if session is None:
        session = new_session(services, replace(caller, session=key))
    alive = replace(session, heartbeat_at=now, ended_at=None, ending=None)
    fields: dict[str, Any] = known_fields_of(caller.contact)
    services.journal.beat(Heartbeat(tenant=caller.tenant, session=replace(alive, **fields)))
    if last is not None and session.key != last:
        _end_unnamed(services, replace(caller, session=last))
    return session


def leave_session(services: Services, caller: Caller) -> None:
    """Queue the end of the connection of the caller's session."""
    if caller.session is not None:
        _leave(services, new_session(services, caller), tenant=caller.tenant, ending=Ending.CLOSED)


def open_session(unit: UnitOfWork, *, contact: ClientInfo, task: str | None) -> Session:
    """Start the caller's session, or a new one if the caller has none.

    A client that names its sessions has one at a time: starting one ends the active ones of the
    same agent, process and folder. Dead sessions are ended too.
    """
    reaped = find_dead_sessions(unit.tx, unit.services, now=unit.now)
    end_dead_sessions(unit.tx, reaped, now=unit.now)
    known = own_session(unit)
    # An ended session starts again under its key: a client may resume an old conversation.
    fields: dict[str, Any] = {
        "project": unit.caller.project or known.project,
        "task": task or known.task,
        "booted_at": unit.now,
        "heartbeat_at": unit.now,
        "ended_at": None,
        "ending": None,
        **known_fields_of(contact),
    }
    session = replace(known, **fields)
    unit.tx.sessions.save(session)
    if session.process is not None:
        live_sessions = unit.tx.sessions.of_process(session.agent, session.process, cwd=session.cwd)
        dead = [one.id for one in rebooted_by(session, live_sessions)]
        unit.tx.sessions.end(dead, ending=Ending.REBOOTED, at=unit.now)
    return session


def own_session(unit: UnitOfWork) -> Session:
    """Return the caller's session as stored, or as it would start now."""
    key = unit.caller.session
    known = unit.tx.sessions.get(unit.caller.agent, key) if key else None
    return known or new_session(unit.services, unit.caller)


def new_session(services: Services, caller: Caller) -> Session:
    """Create a session that starts now, under the caller's key or a generated one.

    It contains the client from the beginning: a server may be killed before the next heartbeat is
    written, and without the client no one could tell that the session is dead.
    """
    now = services.clock.now()
    id_ = ids.make_id(now, services.random_source.bits(ids.RANDOM_BITS))
    session = Session(
        id=id_,
        key=caller.session or ids.show(ids.SESSION, id_),
        agent=caller.agent,
        project=caller.project,
        started_at=now,
        heartbeat_at=now,
    )
    fields: dict[str, Any] = known_fields_of(caller.contact)
    return replace(session, **fields)


def active_sessions(
    unit: UnitOfWork, project: str | None, *, agent: str | None = None
) -> list[Session]:
    """List the active sessions of a project and agent, or all, without the caller's own."""
    own = (unit.caller.agent, unit.caller.session)
    live = unit.tx.sessions.live(project=project, agent=agent, limit=SESSIONS_SHOWN_MAX + 1)
    others = [one for one in live if (one.agent, one.key) != own]
    return others[:SESSIONS_SHOWN_MAX]


def _known(tx: Transaction, caller: Caller, *, last: str | None) -> Session | None:
    key = caller.session or last
    return tx.sessions.get(caller.agent, key) if key else None


def _around(tx: Transaction, caller: Caller) -> list[Session]:
    """List the active sessions of the caller's client, whose only key a connection may adopt."""
    process = caller.contact.process
    if caller.session is not None or process is None:
        return []
    return tx.sessions.of_process(caller.agent, process, cwd=caller.contact.cwd)


def _end_unnamed(services: Services, caller: Caller) -> None:
    """End the unnamed session of a connection whose client has named its session since.

    It may not be written yet. A session that a client named may continue elsewhere.
    """
    former = new_session(services, caller)
    if not former.is_named:
        _leave(services, former, tenant=caller.tenant, ending=Ending.REBOOTED)


def _leave(services: Services, session: Session, *, tenant: str, ending: Ending) -> None:
    now = services.clock.now()
    ended = replace(session, heartbeat_at=now, ended_at=now, ending=ending)
    services.journal.beat(Heartbeat(tenant=tenant, session=ended))
