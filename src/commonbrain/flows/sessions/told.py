"""What a session is answered."""

from dataclasses import dataclass
from datetime import datetime

from commonbrain.domain.liveness import is_idle
from commonbrain.domain.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What became of a call about sessions; each op fills what it speaks of."""

    op: str
    session: str | None = None
    """The caller's own, by its key."""
    task: str | None = None
    sessions: tuple[Peer, ...] | None = None
    """Who else is at work, latest heartbeat first."""


def peer(session: Session, now: datetime) -> Peer:
    """Show a session to others."""
    return Peer(
        session=session.key,
        agent=session.agent,
        client=session.client,
        project=session.project,
        task=session.task,
        is_idle=is_idle(session, now),
        since=session.started_at,
        heartbeat_age_s=max(0, int((now - session.heartbeat_at).total_seconds())),
    )
