"""What a session is answered."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from commonbrain.ingestion.result import ItemResult
from commonbrain.model.kinds import TaskPriority, TaskStatus
from commonbrain.model.sessions import Note, Session, is_idle


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveSession:
    """One session as others see it."""

    session: str
    """Its key."""
    agent: str
    client: str | None
    project: str | None
    task: str | None
    is_idle: bool
    """Whether nothing was heard of it for five minutes."""
    since: datetime
    heartbeat_age_s: int


class LeaseStatus(StrEnum):
    """What became of a lease."""

    CLAIMED = "claimed"
    RENEWED = "renewed"
    RELEASED = "released"
    FREE = "free"
    """Nobody had claimed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A task and who has it until when; nobody, once it is released."""

    id: str
    headline: str
    status: LeaseStatus
    holder: str | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTask:
    """A task that is to be done, and who has claimed it until when."""

    id: str
    headline: str
    status: TaskStatus
    priority: TaskPriority
    project: str | None
    due_at: datetime | None
    assignee: str | None
    must_ack: bool
    holder: str | None
    until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteView:
    """A working note, and who wrote it."""

    key: str
    value: str
    agent: str
    session: str | None
    pinned: bool
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchingRule:
    """A rule that binds an action; `skill` is the name of its trigger."""

    id: str
    headline: str
    skill: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointResult:
    """What binds an action; nothing is told again where `is_repeated`."""

    at: datetime
    """When it was looked up."""
    blockers: tuple[MatchingRule, ...] = ()
    patterns: tuple[MatchingRule, ...] = ()
    skills: tuple[MatchingRule, ...] = ()
    is_more: bool = False
    """Whether there are more blockers than are told."""
    is_repeated: bool = False
    """Whether the same was asked a moment ago, and nothing has changed since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionResponse:
    """What became of a call about sessions; each op fills what it speaks of."""

    op: str
    session: str | None = None
    """The caller's own, by its key."""
    task: str | None = None
    sessions: tuple[ActiveSession, ...] | None = None
    """Who else is at work, latest heartbeat first."""
    outcome: ItemResult | None = None
    """What became of a handoff at the gate."""
    notes: tuple[NoteView, ...] | None = None
    """The session's own, then those that others pinned to the project."""
    tasks: tuple[OpenTask, ...] | None = None
    """What is to be done: by priority, then the earliest due, then the oldest."""
    tasks_total: int | None = None
    lease: Lease | None = None
    checked: CheckpointResult | None = None


def to_note_view(note: Note) -> NoteView:
    """Show a working note."""
    return NoteView(
        key=note.key,
        value=note.value,
        agent=note.agent,
        session=note.session or None,
        pinned=note.pinned,
        at=note.at,
    )


def to_active_session(session: Session, now: datetime) -> ActiveSession:
    """Show a session to others."""
    return ActiveSession(
        session=session.key,
        agent=session.agent,
        client=session.client,
        project=session.project,
        task=session.task,
        is_idle=is_idle(session, now),
        since=session.started_at,
        heartbeat_age_s=max(0, int((now - session.heartbeat_at).total_seconds())),
    )
