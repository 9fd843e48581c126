"""Results of the session operations."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from commonbrain.coordination.hook_activity import TokenUse
from commonbrain.ingestion.result import ItemResult
from commonbrain.model.kinds import TaskPriority, TaskStatus
from commonbrain.model.notes import Note
from commonbrain.model.sessions import Session, is_idle


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveSession:
    """A session as others see it."""

    session: str
    """Its key."""
    agent: str
    client: str | None
    project: str | None
    task: str | None
    is_idle: bool
    """Whether there was no heartbeat for five minutes."""
    since: datetime
    heartbeat_age_s: int
    metadata: Mapping[str, str]
    """Branch, worktree, model and more."""


class LeaseStatus(StrEnum):
    """The outcome of a lease operation."""

    CLAIMED = "claimed"
    RENEWED = "renewed"
    RELEASED = "released"
    FREE = "free"
    """It was not leased."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A task, its holder and the expiry; without a holder once released."""

    id: str
    headline: str
    status: LeaseStatus
    holder: str | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTask:
    """An open task, and its lease."""

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
    """A working note and its author."""

    key: str
    value: str
    agent: str
    session: str | None
    pinned: bool
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchingRule:
    """A rule that applies to an action; `skill` is the name of its trigger."""

    id: str
    headline: str
    skill: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointResult:
    """Rules that apply to an action; empty if `is_repeated`."""

    at: datetime
    """When they were looked up."""
    blockers: tuple[MatchingRule, ...] = ()
    patterns: tuple[MatchingRule, ...] = ()
    skills: tuple[MatchingRule, ...] = ()
    is_more: bool = False
    """Whether there are more blockers."""
    is_repeated: bool = False
    """Whether the same action was checked recently and nothing has changed since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionResponse:
    """The result of a session operation; each operation fills its own fields."""

    op: str
    session: str | None = None
    """The key of the caller's session."""
    task: str | None = None
    sessions: tuple[ActiveSession, ...] | None = None
    """Other active sessions, latest heartbeat first."""
    next: str | None = None
    """The cursor of the next page of sessions or tasks; None on the last one."""
    more: int = 0
    """Sessions or tasks after this page; 1,000 means 1,000 or more."""
    outcome: ItemResult | None = None
    """The outcome of storing a handoff."""
    notes: tuple[NoteView, ...] | None = None
    """The session's notes, then those that others pinned to the project."""
    tasks: tuple[OpenTask, ...] | None = None
    """Open tasks by priority, due time and age."""
    tasks_total: int | None = None
    lease: Lease | None = None
    checked: CheckpointResult | None = None
    token_use: TokenUse | None = None
    """What the session cost that ends."""


def to_note_view(note: Note) -> NoteView:
    """Convert a working note."""
    return NoteView(
        key=note.key,
        value=note.value,
        agent=note.agent,
        session=note.session or None,
        pinned=note.pinned,
        at=note.at,
    )


def to_active_session(session: Session, now: datetime, *, idle_after: timedelta) -> ActiveSession:
    """Convert a session for other agents."""
    return ActiveSession(
        session=session.key,
        agent=session.agent,
        client=session.client,
        project=session.project,
        task=session.task,
        is_idle=is_idle(session, now, after=idle_after),
        since=session.started_at,
        heartbeat_age_s=max(0, int((now - session.heartbeat_at).total_seconds())),
        metadata=session.metadata,
    )
