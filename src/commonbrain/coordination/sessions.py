"""Sessions: operations on the caller's session and on those of others."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime

from commonbrain.consolidation.clustering import CLUSTER_MIN
from commonbrain.coordination.checkpoint import (
    matching_rules,
    suppress_repeat,
    validate_action,
    vector_of,
)
from commonbrain.coordination.handoff import Handoff, prepare_handoff
from commonbrain.coordination.leases import claim, open_tasks, release
from commonbrain.coordination.registry import (
    ReapResult,
    active_sessions,
    end_dead_sessions,
    find_dead_sessions,
    has_changes,
    leave_session,
    own_session,
    touch_session,
)
from commonbrain.coordination.scratchpad import checked_note, list_notes, put_note
from commonbrain.coordination.session_views import SessionResponse, to_active_session, to_note_view
from commonbrain.history.unit_of_work import UnitOfWork
from commonbrain.ingestion.secret_scanning import scan_text
from commonbrain.model.errors import InvalidInputError, UnavailableError
from commonbrain.model.jobs import Job
from commonbrain.model.kinds import kinds_where
from commonbrain.model.limits import TASK_CHARS_MAX, TASKS_SHOWN_MAX
from commonbrain.model.query import Filter
from commonbrain.model.scope import Caller, Role
from commonbrain.model.sessions import Ending, Session
from commonbrain.model.tasks import LEASE_MINUTES_DEFAULT
from commonbrain.services import Services
from commonbrain.storage.job_queue import REFLECT, enqueue, notify_worker
from commonbrain.text.normalisation import normalise_line


def enqueue_reflection(unit: UnitOfWork, session: Session) -> Job | None:
    """Enqueue a reflection for an agent whose session stored enough; None otherwise.

    It runs as that agent, because no other may see its private memories.
    """
    caller = unit.caller
    raw_filter = Filter(
        kinds=kinds_where(lambda policy: policy.is_reflected),
        agent=caller.agent,
        session=session.key,
        trust_min=0.0,
    )
    if not caller.role.covers(Role.WRITER):
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
    locked; after an error nothing is changed.
    """

    services: Services
    caller: Caller

    def meet(self, *, last: str | None = None) -> Session:
        """Return the session of a call and queue its heartbeat; never waits, never fails.

        `last` is the key under which a connection called before; a caller with a session keeps it.
        Call this from time to time during long work.
        """
        return touch_session(self.services, self.caller, last=last)

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

    def list(self, *, project: str | None = None, agent: str | None = None) -> SessionResponse:
        """List other active sessions, in the caller's project unless another is given.

        Dead sessions are not listed, and are ended if the store can be written.
        """
        services, now = self.services, self.services.clock.now()
        with services.store.snapshot(self.caller.tenant) as tx:
            unit = UnitOfWork(tx=tx, services=services, caller=self.caller, now=now)
            reaped = find_dead_sessions(tx, services.processes, now=now)
            others = active_sessions(unit, project or self.caller.project, agent=agent)
        if has_changes(reaped):
            self._end_dead(reaped, now)
        there = [one for one in others if one.id not in reaped.dead_ids]
        return SessionResponse(
            op="list",
            session=self.caller.session,
            sessions=tuple(to_active_session(one, now) for one in there),
        )

    def task(self, text: str) -> SessionResponse:
        """Set the task of the session.

        Raises:
            InvalidInputError: the text is empty or too long, or the caller has no session.
            RejectedError: `secret_detected`.

        """
        task = self._line(text)
        self._check_has_session("task")
        with self._write_unit() as unit:
            own = own_session(unit)
            alive = replace(own, heartbeat_at=unit.now, ended_at=None, ending=None)
            unit.tx.sessions.save(replace(alive, task=task))
        return SessionResponse(op="task", session=own.key, task=task)

    def note(self, key: str, value: str, *, pinned: bool = False) -> SessionResponse:
        """Store a short text under a key; an empty text deletes it.

        Pinned notes, at most 10 per project, appear in every boot of the project; others are
        deleted 7 days after the session's last note.

        Raises:
            InvalidInputError: the key is empty, or key or text is too long.
            RejectedError: `secret_detected`, `limit_exceeded`, or the caller may not write or pin.

        """
        made = checked_note(self.services, self.caller, key=key, value=value, pinned=pinned)
        with self._write_unit() as unit:
            stored = put_note(unit, made)
        notes = () if stored is None else (to_note_view(stored),)
        return SessionResponse(op="note", session=self.caller.session, notes=notes)

    def notes(self) -> SessionResponse:
        """List the session's notes and those that others pinned to the project."""
        with self._read_unit() as unit:
            notes = tuple(to_note_view(one) for one in list_notes(unit))
        return SessionResponse(op="notes", session=self.caller.session, notes=notes)

    def checkpoint(self, action: str) -> SessionResponse:
        """Return the rules that apply to a planned action; a repetition within 5 minutes is short.

        Raises:
            InvalidInputError: the action is empty or too long.

        """
        line = validate_action(action)
        vector = vector_of(self.services, line)
        with self._write_unit() as unit:
            checked = suppress_repeat(unit, line, checked=matching_rules(unit, line, vector=vector))
        return SessionResponse(op="checkpoint", session=self.caller.session, checked=checked)

    def tasks(self, *, project: str | None = None, limit: int = TASKS_SHOWN_MAX) -> SessionResponse:
        """List open tasks, in the caller's project unless another is given."""
        most = max(1, min(limit, TASKS_SHOWN_MAX))
        with self._read_unit() as unit:
            tasks, total = open_tasks(unit, project=project or self.caller.project, limit=most)
        return SessionResponse(
            op="tasks", session=self.caller.session, tasks=tasks, tasks_total=total
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
        with self._write_unit() as unit:
            lease = claim(unit, id, minutes=minutes)
        return SessionResponse(op="claim", session=self.caller.session, lease=lease)

    def release(self, id: str) -> SessionResponse:  # noqa: A002 the public name is id
        """Release a leased task; an admin may release any.

        Raises:
            InvalidInputError: it is not a task.
            NotFoundError: there is no such memory, or the caller may not see it.
            RejectedError: `lease_held` by another.

        """
        with self._write_unit() as unit:
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
        parts = Handoff(summary=summary, next_steps=next_steps, blockers=blockers, context=context)
        self._check_has_session("handoff")
        pending_handoff = prepare_handoff(self.services, self.caller, handoff=parts)
        with self._write_unit() as unit:
            outcome = pending_handoff.store(unit)
        return SessionResponse(op="handoff", session=self.caller.session, outcome=outcome)

    def sum_up(self, summary: str) -> SessionResponse:
        """Store an automatic handoff, unless the agent wrote one itself.

        Raises:
            InvalidInputError: the summary is missing, or the caller has no session.
            RejectedError: as for `handoff`.

        """
        self._check_has_session("handoff")
        left = Handoff(summary=summary, is_automatic=True)
        pending_handoff = prepare_handoff(self.services, self.caller, handoff=left)
        with self._write_unit() as unit:
            outcome = pending_handoff.store(unit)
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
            InvalidInputError: the caller has no session, or the handoff has no summary.
            RejectedError: as for `handoff`.

        """
        parts = Handoff(summary=summary, next_steps=next_steps, blockers=blockers, context=context)
        self._check_has_session("end")
        hands_over = parts != Handoff(summary="")
        pending_handoff = (
            prepare_handoff(self.services, self.caller, handoff=parts) if hands_over else None
        )
        job = None
        with self._write_unit() as unit:
            outcome = pending_handoff.store(unit) if pending_handoff else None
            own = own_session(unit)
            if outcome is None or not outcome.status.is_refused:
                ended = replace(own, ended_at=unit.now, ending=Ending.ENDED)
                unit.tx.sessions.save(ended)
                job = enqueue_reflection(unit, own)
        if job is not None:
            notify_worker(self.services, job)
        return SessionResponse(op="end", session=own.key, outcome=outcome)

    @contextmanager
    def _read_unit(self) -> Generator[UnitOfWork]:
        with self.services.store.snapshot(self.caller.tenant) as tx:
            yield UnitOfWork(
                tx=tx, services=self.services, caller=self.caller, now=self.services.clock.now()
            )

    @contextmanager
    def _write_unit(self) -> Generator[UnitOfWork]:
        with self.services.store.begin(self.caller.tenant) as tx:
            yield UnitOfWork(
                tx=tx, services=self.services, caller=self.caller, now=self.services.clock.now()
            )

    def _end_dead(self, reaped: ReapResult, now: datetime) -> None:
        # The caller may be unable to write; the next reader finds the same.
        with suppress(UnavailableError), self.services.store.begin(self.caller.tenant) as tx:
            end_dead_sessions(tx, reaped, now=now)

    def _check_has_session(self, op: str) -> None:
        if self.caller.session is None:
            raise InvalidInputError(
                f"session {op} needs a session.",
                hint="Name it by --session or COMMONBRAIN_SESSION; `brain boot` gives a key.",
            )

    def _line(self, text: str) -> str:
        line = scan_text(normalise_line(text) or "", what="task", services=self.services)
        if not line or len(line) > TASK_CHARS_MAX:
            raise InvalidInputError(
                f"The task has {len(line)} characters; 1 to {TASK_CHARS_MAX} are allowed.",
                hint="Say in a sentence what you are at.",
            )
        return line
