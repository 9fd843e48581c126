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
from commonbrain.coordination.session_registry import (
    ReapResult,
    active_sessions,
    checked_metadata,
    end_dead_sessions,
    find_dead_sessions,
    has_changes,
    leave_session,
    merged_metadata,
    own_session,
    terminal_session,
    touch_session,
)
from commonbrain.coordination.session_views import (
    CheckpointResult,
    Lease,
    LeaseStatus,
    MatchingRule,
    OpenTask,
    SessionResponse,
    to_active_session,
    to_note_view,
)
from commonbrain.coordination.token_use import token_use
from commonbrain.embeddings.interface import Matrix
from commonbrain.history.change_plan import check_current, show
from commonbrain.history.unit_of_work import UnitOfWork, read_unit, write_unit
from commonbrain.ingestion.validation import scan_text
from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError, RejectedError, UnavailableError
from commonbrain.model.jobs import Job
from commonbrain.model.kinds import Kind, RuleDetail, Severity, TaskDetail, kinds_where
from commonbrain.model.limits import QUERY_CHARS_MAX, TASK_CHARS_MAX, TASKS_SHOWN_MAX
from commonbrain.model.memory import Memory, State
from commonbrain.model.query import Filter
from commonbrain.model.revision import Action
from commonbrain.model.scope import Caller, Role, check_may_write
from commonbrain.model.sessions import Ending, Note, Session
from commonbrain.model.skills import read_skill, skill_of
from commonbrain.model.tasks import LEASE_MINUTES_DEFAULT, OPEN_STATUSES, holder_of, lease_end
from commonbrain.retrieval.query_plan import search_terms
from commonbrain.services import Services
from commonbrain.storage.change_log import check_lease, is_held
from commonbrain.storage.job_queue import REFLECT, enqueue, notify_worker
from commonbrain.text.commits import COMMIT_TERMS, concerns_commits
from commonbrain.text.normalisation import normalise_line


def claim(unit: UnitOfWork, id_: str, *, minutes: int) -> Lease:
    """Lease an open task, or renew the lease.

    Raises:
        RejectedError: `lease_held` by another, or `not_open`.
        InvalidInputError: it is not a task, or the minutes are out of range.

    """
    until = lease_end(minutes, now=unit.now)
    task, detail = _task(unit, id_)
    if detail.status not in OPEN_STATUSES:
        raise RejectedError(
            f"{show(task)} is {detail.status}: there is nothing to claim.",
            code="not_open",
            hint="Reopen it first: revise status, value open.",
        )
    check_lease(unit.tx, unit.caller, memory=task, now=unit.now)
    holder = holder_of(unit.caller)
    is_renewed = detail.lease_holder == holder and is_held(unit.tx, detail, now=unit.now)
    claimed = replace(detail, lease_holder=holder, lease_until=until)
    _amend(unit, task, detail=claimed, action=Action.CLAIM)
    status = LeaseStatus.RENEWED if is_renewed else LeaseStatus.CLAIMED
    return Lease(id=show(task), headline=task.headline, status=status, holder=holder, until=until)


def open_tasks(
    unit: UnitOfWork, *, project: str | None, limit: int
) -> tuple[tuple[OpenTask, ...], int]:
    """List open tasks up to a limit, and count all."""
    query_scope = unit.query_scope(
        Filter(kinds=(Kind.TASK,), states=(State.ACTIVE,), project=project)
    )
    ranked = unit.tx.briefing.open_tasks(query_scope, limit=limit)
    memories = unit.tx.memories.get(ranked.ids)
    return tuple(_open_task(unit, memories[id_]) for id_ in ranked.ids), ranked.total


def _open_task(unit: UnitOfWork, task: Memory) -> OpenTask:
    detail = task.detail if isinstance(task.detail, TaskDetail) else TaskDetail()
    is_taken = is_held(unit.tx, detail, now=unit.now)
    return OpenTask(
        id=show(task),
        headline=task.headline,
        status=detail.status,
        priority=detail.priority,
        project=task.project,
        due_at=detail.due_at,
        assignee=detail.assignee,
        must_ack=detail.must_ack,
        holder=detail.lease_holder if is_taken else None,
        until=detail.lease_until if is_taken else None,
    )


def release(unit: UnitOfWork, id_: str) -> Lease:
    """Release a task; an admin may do so for another.

    Raises:
        RejectedError: `lease_held` by another.
        InvalidInputError: it is not a task.

    """
    task, detail = _task(unit, id_)
    if unit.caller.role is not Role.ADMIN:
        check_lease(unit.tx, unit.caller, memory=task, now=unit.now)
    status = LeaseStatus.RELEASED if is_held(unit.tx, detail, now=unit.now) else LeaseStatus.FREE
    _amend(
        unit,
        task,
        detail=replace(detail, lease_holder=None, lease_until=None),
        action=Action.RELEASE,
    )
    return Lease(id=show(task), headline=task.headline, status=status)


def _task(unit: UnitOfWork, id_: str) -> tuple[Memory, TaskDetail]:
    task = unit.fetch(ids.parse(ids.MEMORY, id_))
    check_may_write(unit.caller, task.scope)
    check_current(task, unit.now)
    if not isinstance(task.detail, TaskDetail):
        raise InvalidInputError(f"{show(task)} is a {task.kind}; only a task can be claimed.")
    return task, task.detail


def _amend(unit: UnitOfWork, task: Memory, *, detail: TaskDetail, action: Action) -> None:
    if detail != task.detail:
        unit.amend(
            task, replace(task, detail=detail), change_context=unit.change_context(action, None)
        )


COOLDOWN: Final = timedelta(minutes=5)
_SHOWN_MAX: Final = 5
"""Rules shown of each type."""
_NEAR: Final = 50
"""Rules searched for those similar to an action."""
_COMMIT_RULES_READ: Final = 200
"""Rules with a word of commits that are read; most of them are about something else."""


def validate_action(action: str) -> str:
    """Return the action on one line.

    Raises:
        InvalidInputError: it is empty or too long.

    """
    line = normalise_line(action) or ""
    if not 0 < len(line) <= QUERY_CHARS_MAX:
        raise InvalidInputError(
            f"The action has {len(line)} characters; 1 to {QUERY_CHARS_MAX} are allowed.",
            hint="Describe the action in one sentence.",
        )
    return line


def vector_of(services: Services, action: str) -> Matrix | None:
    """Embed an action before the transaction; None if the embedder is unavailable."""
    try:
        return services.embedder.query(action)
    except UnavailableError:
        return None


def matching_rules(unit: UnitOfWork, action: str, *, vector: Matrix | None) -> CheckpointResult:
    """Find the rules for an action: blockers, similar rules and skills that it names."""
    query_scope = unit.query_scope(Filter(kinds=(Kind.RULE,), project=unit.caller.project))
    triggers = {
        id_: skill
        for id_, given in unit.tx.memories.skills(query_scope).items()
        if (skill := read_skill(given)) and skill.fires(action, unit.caller.project)
    }
    blocking = unit.tx.briefing.blockers(query_scope, limit=_SHOWN_MAX)
    near = (
        unit.tx.index.lexical(search_terms(action), query_scope, limit=_NEAR)
        if vector is None
        else unit.tx.index.nearest(
            vector, query_scope, limit=_NEAR, at_least=unit.services.store.space.relevance_threshold
        )
    )
    memories = unit.tx.memories.get([*blocking.ids, *(hit.id for hit in near), *triggers])
    near_by = [hit.id for hit in near if hit.id not in triggers and _is_pattern(memories[hit.id])]
    return CheckpointResult(
        at=unit.now,
        blockers=_shown(memories, blocking.ids),
        patterns=_shown(memories, near_by),
        skills=tuple(
            replace(one, skill=triggers[ids.parse(ids.MEMORY, one.id)].name)
            for one in _shown(memories, sorted(triggers))
        ),
        is_more=blocking.total > _SHOWN_MAX,
    )


def commit_rules(unit: UnitOfWork) -> CheckpointResult:
    """Find the rules about commits, and the skills that have them among their keywords."""
    query_scope = unit.query_scope(Filter(kinds=(Kind.RULE,), project=unit.caller.project))
    hits = unit.tx.index.lexical(COMMIT_TERMS, query_scope, limit=_COMMIT_RULES_READ)
    triggers = unit.tx.memories.skills(query_scope)
    memories = unit.tx.memories.get(list(dict.fromkeys([*(hit.id for hit in hits), *triggers])))
    about = [id_ for id_, one in memories.items() if _concerns_commits(one, unit.caller.project)]
    rules = [id_ for id_ in about if id_ not in triggers]
    return CheckpointResult(
        at=unit.now,
        blockers=_shown(memories, [id_ for id_ in rules if _is_blocker(memories[id_])]),
        patterns=_shown(memories, [id_ for id_ in rules if _is_pattern(memories[id_])]),
        skills=_shown(memories, sorted(id_ for id_ in about if id_ in triggers)),
    )


def _concerns_commits(rule: Memory, project: str | None) -> bool:
    skill = skill_of(rule)
    if skill is not None and not skill.holds_in(project):
        return False
    keywords = skill.keywords if skill else ()
    return any("commit" in one for one in keywords) or concerns_commits(rule.text)


def suppress_repeat(
    unit: UnitOfWork, action: str, *, checked: CheckpointResult
) -> CheckpointResult:
    """Shorten the result if it is the same as for the same action within the cooldown."""
    topic = _digest(sorted(search_terms(action)))
    digest = _digest(one.id for one in (*checked.blockers, *checked.patterns, *checked.skills))
    key = f"{RESERVED_PREFIX}{topic}"
    known = next(
        (one for one in unit.tx.scratchpad.of(unit.caller, now=unit.now) if one.key == key), None
    )
    if known is not None and known.value == digest:
        return CheckpointResult(at=known.at, is_repeated=True)
    unit.tx.scratchpad.put(
        Note(
            key=key,
            value=digest,
            agent=unit.caller.agent,
            session=unit.caller.session or "",
            at=unit.now,
            expires_at=unit.now + COOLDOWN,
        )
    )
    return checked


def _is_pattern(rule: Memory) -> bool:
    return isinstance(rule.detail, RuleDetail) and rule.detail.severity is Severity.PATTERN


def _is_blocker(rule: Memory) -> bool:
    return isinstance(rule.detail, RuleDetail) and rule.detail.severity is Severity.BLOCKER


def _shown(memories: dict[int, Memory], memory_ids: Sequence[int]) -> tuple[MatchingRule, ...]:
    known = [memories[id_] for id_ in memory_ids][:_SHOWN_MAX]
    return tuple(
        MatchingRule(id=ids.show(ids.MEMORY, one.id), headline=one.headline) for one in known
    )


def _digest(words: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:32]


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
        with read_unit(self.services, self.caller) as unit:
            now = unit.now
            reaped = find_dead_sessions(unit.tx, self.services, now=now)
            others = active_sessions(unit, project or self.caller.project, agent=agent)
        if has_changes(reaped):
            self._end_dead(reaped, now)
        there = [one for one in others if one.id not in reaped.dead_ids]
        return SessionResponse(
            op="list",
            session=self.caller.session,
            sessions=tuple(to_active_session(one, now) for one in there),
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
        known = terminal_session(self.services, self.caller)
        if known is not None:
            touch_session(self.services, replace(self.caller, session=known.key))
        return known

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

    def tasks(self, *, project: str | None = None, limit: int = TASKS_SHOWN_MAX) -> SessionResponse:
        """List open tasks, in the caller's project unless another is given."""
        most = max(1, min(limit, TASKS_SHOWN_MAX))
        with read_unit(self.services, self.caller) as unit:
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

    def sum_up(self, summary: str) -> SessionResponse:
        """Store an automatic handoff, unless the agent wrote one itself.

        Raises:
            InvalidInputError: the summary is missing, or the caller has no session.
            RejectedError: as for `handoff`.

        """
        return self._store_handoff(Handoff(summary=summary, is_automatic=True))

    def _store_handoff(self, handoff: Handoff) -> SessionResponse:
        self._check_has_session("handoff")
        pending_handoff = prepare_handoff(self.services, self.caller, handoff=handoff)
        with write_unit(self.services, self.caller) as unit:
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
        with write_unit(self.services, self.caller) as unit:
            outcome = pending_handoff.store(unit) if pending_handoff else None
            own = own_session(unit)
            spent = token_use(unit.tx, self.caller, now=unit.now, session=own.key)
            if outcome is None or not outcome.status.is_refused:
                ended = replace(own, ended_at=unit.now, ending=Ending.ENDED)
                unit.tx.sessions.save(ended)
                job = enqueue_reflection(unit, own)
        if job is not None:
            notify_worker(self.services, job)
        return SessionResponse(op="end", session=own.key, outcome=outcome, token_use=spent)

    def _end_dead(self, reaped: ReapResult, now: datetime) -> None:
        # The caller may be unable to write; the next reader finds the same.
        with suppress(UnavailableError), self.services.store.begin(self.caller.tenant) as tx:
            end_dead_sessions(tx, reaped, now=now)

    def _check_has_session(self, op: str) -> None:
        if self.caller.session is None:
            raise InvalidInputError(
                f"session {op} needs a session.",
                hint="Start one by boot, or name one: --session or COMMONBRAIN_SESSION.",
            )

    def _line(self, text: str) -> str:
        line = scan_text(
            normalise_line(text) or "", what="task", services=self.services, caller=self.caller
        )
        if not line or len(line) > TASK_CHARS_MAX:
            raise InvalidInputError(
                f"The task has {len(line)} characters; 1 to {TASK_CHARS_MAX} are allowed.",
                hint="Describe the task in one sentence.",
            )
        return line
