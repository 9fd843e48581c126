"""The session registry: open sessions, touch them, and end dead ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cache, partial
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from commonbrain.model import ids
from commonbrain.model.errors import CommonbrainError, InvalidInputError
from commonbrain.model.limits import (
    METADATA_CHARS_MAX,
    METADATA_NAME_CHARS_MAX,
    PROBES_MAX,
    SESSION_METADATA_MAX,
    SESSIONS_SHOWN_MAX,
    SILENT_ENDED_MAX,
)
from commonbrain.model.scope import Caller
from commonbrain.model.sessions import (
    UNKNOWN,
    ClientInfo,
    Ending,
    Session,
    ending_of,
    key_of,
    known_fields_of,
    rebooted_by,
)
from commonbrain.model.values import dataclass, replace
from commonbrain.services import Services
from commonbrain.storage.interface import Heartbeat
from commonbrain.text.normalisation import normalise_line

if TYPE_CHECKING:
    from commonbrain.history.unit_of_work import UnitOfWork
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
        since=now - services.session_silence_max,
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
            silence_max=http_idle if session.is_http else services.session_silence_max,
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


def touch_session(
    services: Services, caller: Caller, *, last: str | None = None, shared: str | None = None
) -> Session:
    """Return the session of a call and queue its heartbeat.

    Never waits for a writer, and never fails: an unreadable store gives an unsaved session.

    Args:
        services: the services of the store.
        caller: the caller with its client; a session that it names is used.
        last: the key under which its connection called before.
        shared: the key of calls without a session; one booted with this prefix takes precedence.

    """
    try:
        with services.store.snapshot(caller.tenant) as tx:
            known = _known(tx, caller, last=last, shared=shared)
            live_sessions = _around(tx, caller)
    except CommonbrainError:
        # Any call proves that the session is alive; its result does not depend on that.
        known, live_sessions = None, []
    own = known.key if known and shared else shared
    key = caller.session or own or key_of(last, known=known, live_sessions=live_sessions)
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
        # The session of a connection whose client has named its session since. It may not be
        # written yet; one that a client named may continue elsewhere.
        former = new_session(services, replace(caller, session=last))
        if not former.is_named:
            _leave(services, former, tenant=caller.tenant, ending=Ending.REBOOTED)
    return session


def leave_session(services: Services, caller: Caller) -> None:
    """Queue the end of the connection of the caller's session."""
    if caller.session is not None:
        _leave(services, new_session(services, caller), tenant=caller.tenant, ending=Ending.CLOSED)


def open_session(
    unit: UnitOfWork,
    *,
    contact: ClientInfo,
    task: str | None,
    metadata: Mapping[str, str] = MappingProxyType({}),
) -> Session:
    """Start the caller's session, or a new one if the caller has none.

    A client that names its sessions, a shell and a program have one at a time: starting one ends
    the active ones of the same agent and process. Dead sessions are ended too.
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
        "metadata": _renewed_metadata(known.metadata, metadata),
        **known_fields_of(contact),
    }
    session = replace(known, **fields)
    unit.tx.sessions.save(session)
    if session.process is not None:
        reads, agent, process = unit.tx.sessions, session.agent, session.process
        live_sessions = (
            reads.of_process(agent, process, cwd=session.cwd)
            if session.is_named
            else reads.of_terminal(agent, process)
        )
        dead = [one.id for one in rebooted_by(session, live_sessions)]
        unit.tx.sessions.end(dead, ending=Ending.REBOOTED, at=unit.now)
    return session


def _renewed_metadata(known: Mapping[str, str], given: Mapping[str, str]) -> Mapping[str, str]:
    """Add what a session had to what its boot gives, first come first served up to the limit."""
    merged = {**given, **{name: value for name, value in known.items() if name not in given}}
    return dict(islice(((name, one) for name, one in merged.items() if one), SESSION_METADATA_MAX))


def merged_metadata(known: Mapping[str, str], given: Mapping[str, str]) -> Mapping[str, str]:
    """Add metadata to a session's; an empty value removes one.

    Raises:
        InvalidInputError: there are too many.

    """
    merged = {name: value for name, value in {**known, **given}.items() if value}
    if len(merged) > SESSION_METADATA_MAX:
        raise InvalidInputError(
            f"A session has at most {SESSION_METADATA_MAX} metadata, not {len(merged)}.",
            hint="Remove one: give it an empty value.",
        )
    return merged


def checked_metadata(
    services: Services, caller: Caller, *, given: Mapping[str, str]
) -> Mapping[str, str]:
    """Validate metadata before the transaction.

    Raises:
        InvalidInputError: a name or value is not valid, or there are too many.
        RejectedError: `secret_detected`.

    """
    if len(given) > SESSION_METADATA_MAX:
        merged_metadata({}, dict.fromkeys(given, "-"))
    clean = partial(services.clean_text, what="metadata", caller=caller)
    checked: dict[str, str] = {}
    for name, value in given.items():
        line = clean(normalise_line(value) or "")
        is_name = name.isprintable() and 0 < len(name) <= METADATA_NAME_CHARS_MAX
        if not is_name or len(line) > METADATA_CHARS_MAX:
            raise InvalidInputError(
                f"The metadata {name[:40]!r} is too long or not printable.",
                hint=f"Give a name of 1 to {METADATA_NAME_CHARS_MAX} characters and a value of at "
                f"most {METADATA_CHARS_MAX}.",
            )
        checked[clean(name)] = line
    return checked


def may_resume(services: Services, caller: Caller) -> bool:
    """Return whether any terminal of this host has a session; finding one's own takes longer."""
    with suppress(CommonbrainError), services.store.snapshot(caller.tenant) as tx:
        return tx.sessions.has_terminals(caller.agent, services.processes.host)
    return False


def resume_session(services: Services, caller: Caller) -> Session | None:
    """Return the active session of the caller's terminal, if any, and queue its heartbeat."""
    process, known = caller.contact.process, None
    if process is not None:
        with suppress(CommonbrainError), services.store.snapshot(caller.tenant) as tx:
            known = next(iter(tx.sessions.of_terminal(caller.agent, process)), None)
    if known is not None:
        touch_session(services, replace(caller, session=known.key))
    return known


def program_caller(services: Services, caller: Caller) -> Caller:
    """Return the caller; a program that uses the library without a session is its own client."""
    if caller.session is not None or caller.contact != UNKNOWN:
        return caller
    processes = services.processes
    own = ClientInfo(cwd=processes.folder(), process=processes.own())
    return replace(caller, contact=own)


def resumed_caller(services: Services, caller: Caller) -> Caller:
    """Return the caller; one that uses the library is in the session that its program booted."""
    program = program_caller(services, caller)
    session = None if program is caller else resume_session(services, program)
    if session is None:
        return caller
    return replace(program, session=session.key, project=caller.project or session.project)


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
    unit: UnitOfWork,
    project: str | None,
    *,
    agent: str | None = None,
    after: tuple[datetime, int] | None = None,
    limit: int = SESSIONS_SHOWN_MAX,
    dead_ids: frozenset[int] = frozenset(),
) -> list[Session]:
    """List the active sessions of a project and agent, or all, without the caller's own.

    `dead_ids` are left out too: sessions that were found dead and are not ended yet.
    """
    own = (unit.caller.agent, unit.caller.session)
    most = limit + len(dead_ids) + 1
    live = unit.tx.sessions.live(project=project, agent=agent, limit=most, after=after)
    others = [one for one in live if (one.agent, one.key) != own and one.id not in dead_ids]
    return others[:limit]


def _known(
    tx: Transaction, caller: Caller, *, last: str | None, shared: str | None
) -> Session | None:
    booted = tx.sessions.last_booted(caller.agent, prefix=f"{shared}_") if shared else None
    if booted is not None:
        return booted
    key = caller.session or last or shared
    return tx.sessions.get(caller.agent, key) if key else None


def _around(tx: Transaction, caller: Caller) -> list[Session]:
    """List the active sessions of the caller's client, whose only key a connection may adopt."""
    process = caller.contact.process
    if caller.session is not None or process is None:
        return []
    return tx.sessions.of_process(caller.agent, process, cwd=caller.contact.cwd)


def _leave(services: Services, session: Session, *, tenant: str, ending: Ending) -> None:
    now = services.clock.now()
    ended = replace(session, heartbeat_at=now, ended_at=now, ending=ending)
    services.journal.beat(Heartbeat(tenant=tenant, session=ended))
