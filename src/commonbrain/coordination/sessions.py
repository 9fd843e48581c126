"""Sessions: operations on the caller's session and on those of others."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from commonbrain.consolidation.episodes import CLUSTER_MIN
from commonbrain.coordination.handoff import (
    RESERVED_PREFIX,
    Handoff,
    checked_note,
    list_notes,
    prepare_handoff,
    put_note,
)
from commonbrain.coordination.hook_activity import token_use
from commonbrain.coordination.session_registry import (
    active_sessions,
    checked_metadata,
    end_dead_sessions,
    find_dead_sessions,
    has_changes,
    leave_session,
    merged_metadata,
    own_session,
    resume_session,
    touch_session,
)
from commonbrain.coordination.session_views import (
    CheckpointResult,
    MatchingRule,
    SessionResponse,
    to_active_session,
    to_note_view,
)
from commonbrain.coordination.tasks import claim, open_tasks, release
from commonbrain.embeddings.interface import Matrix
from commonbrain.history.unit_of_work import UnitOfWork, read_unit, write_unit
from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError, UnavailableError, check_chars
from commonbrain.model.jobs import Job
from commonbrain.model.kinds import Kind, Severity, kinds_where, severity_of
from commonbrain.model.limits import (
    QUERY_CHARS_MAX,
    SESSIONS_SHOWN_MAX,
    TASK_CHARS_MAX,
    TASKS_SHOWN_MAX,
)
from commonbrain.model.memory import Memory
from commonbrain.model.notes import Note
from commonbrain.model.paging import Listing
from commonbrain.model.query import Filter
from commonbrain.model.scope import Authority, Caller, Role
from commonbrain.model.sessions import Ending, Session
from commonbrain.model.skills import read_skill
from commonbrain.model.tasks import LEASE_MINUTES_DEFAULT
from commonbrain.model.timestamps import from_millis, to_millis
from commonbrain.retrieval.plan import search_terms
from commonbrain.services import Services
from commonbrain.storage.interface import Hit, QueryScope
from commonbrain.storage.job_queue import REFLECT, enqueue, notify_worker
from commonbrain.text.classification import own_lines
from commonbrain.text.normalisation import normalise_line

COOLDOWN: Final = timedelta(minutes=5)
_SHOWN_MAX: Final = 5
"""Rules shown of each type."""
_NEAR: Final = 50
"""Rules searched for those similar to an action."""


def validate_action(action: str) -> str:
    """Return the action on one line.

    Raises:
        InvalidInputError: it is empty or too long.

    """
    line = normalise_line(action) or ""
    return check_chars(
        line, QUERY_CHARS_MAX, what="action", hint="Describe the action in one sentence."
    )


def vector_of(services: Services, action: str) -> Matrix | None:
    """Embed an action before the transaction; None if the embedder is unavailable."""
    try:
        return services.embedder.query(action)
    except UnavailableError:
        return None


def matching_rules(unit: UnitOfWork, action: str, *, vector: Matrix | None) -> CheckpointResult:
    """Find the rules for an action: blockers, similar rules and skills that it names."""
    criteria = Filter(kinds=(Kind.RULE,), project=unit.caller.project, trust_min=unit.trust_min)
    query_scope = unit.query_scope(criteria)
    triggers = {
        id_: skill
        for id_, one in unit.tx.memories.skills(query_scope).items()
        if (skill := read_skill(one.fields)) and skill.fires(action, unit.caller.project)
    }
    blocking = unit.tx.briefing.blockers(query_scope, limit=_SHOWN_MAX)
    # However many rules of models are about the action, none pushes a person's out.
    persons = unit.query_scope(replace(criteria, authority=Authority.PERSON))
    near = dict.fromkeys(
        hit.id
        for scope in (persons, query_scope)
        for hit in _near_rules(unit, action, vector=vector, scope=scope)
    )
    memories = unit.tx.memories.get([*blocking.ids, *near, *triggers])
    near_by = [
        id_
        for id_ in near
        if id_ not in triggers and severity_of(memories[id_].detail) is Severity.PATTERN
    ]
    return CheckpointResult(
        at=unit.now,
        blockers=_shown(memories, blocking.ids),
        patterns=_shown(memories, near_by),
        skills=tuple(
            replace(one, skill=triggers[ids.parse(ids.MEMORY, one.id)].name)
            for one in _shown(
                memories, sorted(triggers, key=lambda id_: (memories[id_].authority.rank, id_))
            )
        ),
        is_more=blocking.total > _SHOWN_MAX,
    )


def _near_rules(
    unit: UnitOfWork, action: str, *, vector: Matrix | None, scope: QueryScope
) -> Sequence[Hit]:
    if vector is None:
        return unit.tx.index.lexical(search_terms(action), scope, limit=_NEAR)
    threshold = unit.services.store.space.relevance_threshold
    return unit.tx.index.nearest(vector, scope, limit=_NEAR, at_least=threshold)


def suppress_repeat(
    unit: UnitOfWork, action: str, *, checked: CheckpointResult
) -> CheckpointResult:
    """Shorten the result if it is the same as for the same action within the cooldown."""
    shown_ids = [one.id for one in (*checked.blockers, *checked.patterns, *checked.skills)]
    since = note_shown(unit, sorted(search_terms(action)), shown_ids=shown_ids)
    return CheckpointResult(at=since, is_repeated=True) if since else checked


def note_shown(
    unit: UnitOfWork, topic: Iterable[str], *, shown_ids: Iterable[str]
) -> datetime | None:
    """Note what was shown on a topic; return when, if it was the same within the cooldown."""
    digest = _digest(shown_ids)
    key = f"{RESERVED_PREFIX}{_digest(topic)}"
    known = next(
        (one for one in unit.tx.scratchpad.of(unit.caller, now=unit.now) if one.key == key), None
    )
    if known is not None and known.value == digest:
        return known.at
    unit.tx.scratchpad.put(
        Note(
            key=key,
            value=digest,
            agent=unit.caller.agent,
            session=unit.caller.session or "",
            authority=unit.caller.authority,
            at=unit.now,
            expires_at=unit.now + COOLDOWN,
        )
    )
    return None


def _shown(memories: dict[int, Memory], memory_ids: Sequence[int]) -> tuple[MatchingRule, ...]:
    known = [memories[id_] for id_ in memory_ids][:_SHOWN_MAX]
    return tuple(
        MatchingRule(id=ids.show(ids.MEMORY, one.id), headline=one.headline) for one in known
    )


def _digest(words: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:32]


def enqueue_reflection(unit: UnitOfWork, session: Session) -> Job | None:
    """Enqueue a reflection, if it runs by schedule and the session stored enough; else None.

    It runs as that agent, because no other may see its private memories.
    """
    caller = unit.caller
    raw_filter = Filter(
        kinds=kinds_where(lambda policy: policy.is_reflected),
        agent=caller.agent,
        session=session.key,
        trust_min=0.0,
    )
    if not (unit.services.schedules_reflection and caller.role.covers(Role.WRITER)):
        return None
    if len(unit.tx.memories.newest(unit.query_scope(raw_filter), limit=CLUSTER_MIN)) < CLUSTER_MIN:
        return None
    given = {"agent": caller.agent}
    return enqueue(
        unit.tx, unit.services, caller=caller, kind=REFLECT, given=given, due_at=unit.now
    )


@dataclass(frozen=True, slots=True)
class Sessions:
    """Sessions for one caller.

    Every method returns a `SessionResponse`, and raises `UnavailableError` if the store stayed
    locked; those that store memories raise it also as `busy`, when too many texts of the tenant
    wait to be embedded, and as `deadline`. After an error nothing is changed.
    """

    services: Services
    caller: Caller

    def meet(self, *, last: str | None = None, shared: str | None = None) -> Session:
        """Return the session of a call and queue its heartbeat; never waits, never fails.

        `last` is the key under which a connection called before; a caller with a session keeps it.
        `shared` is the key of calls over HTTP that name no session: they continue the session that
        was booted last with a key that begins with it. Call this from time to time during long
        work.
        """
        return touch_session(self.services, self.caller, last=last, shared=shared)

    def leave(self) -> None:
        """Queue the end of the connection; a later heartbeat revokes it."""
        leave_session(self.services, self.caller)

    def has_booted(self) -> bool:
        """Return whether the caller's session was booted."""
        if self.caller.session is None:
            return False
        with self.services.store.snapshot(self.caller.tenant) as tx:
            known = tx.sessions.get(self.caller.agent, self.caller.session)
        return known is not None and known.booted_at is not None

    def list(
        self,
        *,
        project: str | None = None,
        agent: str | None = None,
        limit: int = SESSIONS_SHOWN_MAX,
        cursor: str | None = None,
    ) -> SessionResponse:
        """List other active sessions, in the caller's project unless another is given.

        Dead sessions are not listed, and are ended if the store can be written. `cursor` is `next`
        of the page before.

        Raises:
            InvalidInputError: the cursor is malformed.
            RejectedError: `limit_exceeded`.

        """
        where = project or self.caller.project
        filters = {"project": where, "agent": agent}
        listing = Listing(name="sessions", limit=limit, cursor=cursor, filters=filters)
        key = listing.checked(SESSIONS_SHOWN_MAX).after(datetime, int)
        after = None if key is None else (from_millis(int(key[0])), int(key[1]))
        with read_unit(self.services, self.caller) as unit:
            now = unit.now
            reaped = find_dead_sessions(unit.tx, self.services, now=now)

            def rows(most: int) -> Sequence[Session]:
                return active_sessions(
                    unit, where, agent=agent, after=after, limit=most, dead_ids=reaped.dead_ids
                )

            page = listing.page(
                rows(limit + 1),
                key=lambda one: (to_millis(one.heartbeat_at), one.id),
                count=lambda most: len(rows(most)),
            )
        if has_changes(reaped):
            # The caller may be unable to write; the next reader finds the same.
            with suppress(UnavailableError), self.services.store.begin(self.caller.tenant) as tx:
                end_dead_sessions(tx, reaped, now=now)
        return SessionResponse(
            op="list",
            session=self.caller.session,
            sessions=tuple(
                to_active_session(one, now, idle_after=self.services.session_idle)
                for one in page.rows
            ),
            next=page.next,
            more=page.more,
        )

    def task(
        self, text: str = "", *, metadata: Mapping[str, str] = MappingProxyType({})
    ) -> SessionResponse:
        """Set the task of the session, or its metadata, or both.

        Args:
            text: the task in a sentence; without one it stays.
            metadata: added to that of the session; an empty value removes one. Branch and worktree
                are read from the caller's folder, if it is known.

        Raises:
            InvalidInputError: a text is empty or too long, or the caller has no session.
            RejectedError: `secret_detected`.

        """
        task = self._line(text) if text or not metadata else None
        given = checked_metadata(self.services, self.caller, given=metadata)
        self._check_has_session("task")
        checkout = self.services.processes.checkout(self.caller.contact.cwd)
        with write_unit(self.services, self.caller) as unit:
            own = own_session(unit)
            changed = replace(
                own,
                heartbeat_at=unit.now,
                ended_at=None,
                ending=None,
                task=task or own.task,
                metadata=merged_metadata(own.metadata, {**checkout, **given}),
            )
            unit.tx.sessions.save(changed)
        return SessionResponse(op="task", session=own.key, task=changed.task)

    def resume(self) -> Session | None:
        """Return the active session that the caller's shell or program booted last, if any.

        Queues its heartbeat.
        """
        return resume_session(self.services, self.caller)

    def note(self, key: str, value: str, *, pinned: bool = False) -> SessionResponse:
        """Store a short text under a key; an empty text deletes it.

        Pinned notes, at most 10 per project, appear in every boot of the project; others are
        deleted 7 days after the session's last note.

        Raises:
            InvalidInputError: the key is empty, or key or text is too long.
            RejectedError: `secret_detected`, `limit_exceeded`, or the caller may not write or pin.

        """
        made = checked_note(self.services, self.caller, key=key, value=value, pinned=pinned)
        with write_unit(self.services, self.caller) as unit:
            stored = put_note(unit, made)
        notes = () if stored is None else (to_note_view(stored),)
        return SessionResponse(op="note", session=self.caller.session, notes=notes)

    def notes(self) -> SessionResponse:
        """List the session's notes and those that others pinned to the project."""
        with read_unit(self.services, self.caller) as unit:
            notes = tuple(to_note_view(one) for one in list_notes(unit))
        return SessionResponse(op="notes", session=self.caller.session, notes=notes)

    def checkpoint(self, action: str) -> SessionResponse:
        """Return the rules that apply to a planned action; a repetition within 5 minutes is short.

        Raises:
            InvalidInputError: the action is empty or too long.

        """
        line = validate_action(action)
        vector = vector_of(self.services, line)
        with write_unit(self.services, self.caller) as unit:
            checked = suppress_repeat(unit, line, checked=matching_rules(unit, line, vector=vector))
        return SessionResponse(op="checkpoint", session=self.caller.session, checked=checked)

    def tasks(
        self,
        *,
        project: str | None = None,
        limit: int = TASKS_SHOWN_MAX,
        cursor: str | None = None,
    ) -> SessionResponse:
        """List open tasks, in the caller's project unless another is given, most urgent first.

        `cursor` is `next` of the page before.

        Raises:
            InvalidInputError: the cursor is malformed.
            RejectedError: `limit_exceeded`.

        """
        where = project or self.caller.project
        listing = Listing(name="tasks", limit=limit, cursor=cursor, filters={"project": where})
        with read_unit(self.services, self.caller) as unit:
            page, total = open_tasks(unit, project=where, listing=listing.checked(TASKS_SHOWN_MAX))
        return SessionResponse(
            op="tasks",
            session=self.caller.session,
            tasks=page.rows,
            tasks_total=total,
            next=page.next,
            more=page.more,
        )

    def claim(
        self,
        id: str,  # noqa: A002 the public name is id
        *,
        minutes: int = LEASE_MINUTES_DEFAULT,
    ) -> SessionResponse:
        """Lease an open task for some minutes, or extend the lease.

        Raises:
            InvalidInputError: it is not a task, or the minutes are out of range.
            NotFoundError: there is no such memory, or the caller may not see it.
            RejectedError: `lease_held` by another, or the task is not open.

        """
        with write_unit(self.services, self.caller) as unit:
            lease = claim(unit, id, minutes=minutes)
        return SessionResponse(op="claim", session=self.caller.session, lease=lease)

    def release(self, id: str) -> SessionResponse:  # noqa: A002 the public name is id
        """Release a leased task; an admin may release any.

        Raises:
            InvalidInputError: it is not a task.
            NotFoundError: there is no such memory, or the caller may not see it.
            RejectedError: `lease_held` by another.

        """
        with write_unit(self.services, self.caller) as unit:
            lease = release(unit, id)
        return SessionResponse(op="release", session=self.caller.session, lease=lease)

    def handoff(
        self,
        summary: str,
        *,
        next_steps: Sequence[str] = (),
        blockers: Sequence[str] = (),
        context: str = "",
    ) -> SessionResponse:
        """Leave a handoff for the next session, replacing an earlier one.

        Args:
            summary: what was done, in a few sentences.
            next_steps: the next steps, one per line.
            blockers: the blockers, one per line.
            context: further information; all parts together have at most 2,000 characters.

        Returns:
            The outcome of storing it, in `outcome`: an episode that every recall can find.

        Raises:
            InvalidInputError: the summary is missing, or the caller has no session.
            RejectedError: `limit_exceeded`, it is too long; or the caller may not write.

        """
        return self._store_handoff(
            Handoff(summary=summary, next_steps=next_steps, blockers=blockers, context=context)
        )

    def sum_up(self, text: str) -> SessionResponse:
        """Store both ends of a text as automatic handoff, unless the agent wrote one itself.

        Raises:
            InvalidInputError: the summary is missing, or the caller has no session.
            RejectedError: as for `handoff`.

        """
        # Only hooks that end a session need it.
        from commonbrain.text.capture import both_ends  # noqa: PLC0415

        # What the whole text quotes is quoted in its ends.
        return self._store_handoff(
            Handoff(summary=both_ends(text), own_lines=own_lines(text), is_automatic=True)
        )

    def _store_handoff(self, handoff: Handoff) -> SessionResponse:
        self._check_has_session("handoff")
        pending_handoff = prepare_handoff(self.services, self.caller, handoff=handoff)
        with write_unit(self.services, self.caller) as unit:
            outcome = pending_handoff.store(unit)
        if outcome.embedding_pending:
            self.services.start_embedding(self.caller)
        return SessionResponse(op="handoff", session=self.caller.session, outcome=outcome)

    def end(
        self,
        summary: str = "",
        *,
        next_steps: Sequence[str] = (),
        blockers: Sequence[str] = (),
        context: str = "",
    ) -> SessionResponse:
        """End the session, with a handoff if one is given; a later call starts a new one.

        If the handoff is rejected, the session stays open, so that it can be corrected.

        Raises:
            InvalidInputError: the caller has no session, or the handoff has no summary;
                `session_unnamed`, the call over HTTP names no session.
            RejectedError: as for `handoff`.

        """
        if self.caller.is_session_shared:
            raise InvalidInputError(
                "The call names no session, and other programs may use this one.",
                code="session_unnamed",
                hint=f"Name it with the header Commonbrain-Session: {self.caller.session} (over "
                "MCP, the argument as_session).",
            )
        parts = Handoff(summary=summary, next_steps=next_steps, blockers=blockers, context=context)
        self._check_has_session("end")
        hands_over = parts != Handoff(summary="")
        pending_handoff = (
            prepare_handoff(self.services, self.caller, handoff=parts) if hands_over else None
        )
        job = None
        # Calls wait to be written; read before the write, which other writers wait for.
        self.services.journal.flush()
        with read_unit(self.services, self.caller) as unit:
            spent = token_use(unit.tx, self.caller, now=unit.now, session=self.caller.session)
        with write_unit(self.services, self.caller) as unit:
            outcome = pending_handoff.store(unit) if pending_handoff else None
            own = own_session(unit)
            if outcome is None or not outcome.status.is_refused:
                ended = replace(own, ended_at=unit.now, ending=Ending.ENDED)
                unit.tx.sessions.save(ended)
                job = enqueue_reflection(unit, own)
        if outcome is not None and outcome.embedding_pending:
            self.services.start_embedding(self.caller)
        if job is not None:
            notify_worker(self.services, job)
        return SessionResponse(op="end", session=own.key, outcome=outcome, token_use=spent)

    def _check_has_session(self, op: str) -> None:
        if self.caller.session is None:
            raise InvalidInputError(
                f"session {op} needs a session.",
                hint="Start one by boot, or name one: --session or COMMONBRAIN_SESSION.",
            )

    def _line(self, text: str) -> str:
        line = self.services.clean_text(normalise_line(text) or "", what="task", caller=self.caller)
        return check_chars(
            line, TASK_CHARS_MAX, what="task", hint="Describe the task in one sentence."
        )
