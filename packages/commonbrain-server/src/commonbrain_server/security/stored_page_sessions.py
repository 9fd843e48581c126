"""Sessions of the web page as they are stored."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import delete, select, update

from commonbrain.model.scope import Role
from commonbrain.model.values import asdict, dataclass, fields
from commonbrain.storage.schema.activity import page_sessions
from commonbrain.storage.sql.context import SqlContext


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPageSession:
    """A session as stored, without its secret; it has either a key or the role of a token."""

    digest: str
    """The SHA-256 of its secret, in hexadecimal."""
    agent: str
    key_prefix: str | None = None
    token_role: Role | None = None
    """The role at login by token."""
    created_at: datetime
    last_seen_at: datetime
    ends_at: datetime

    def is_over(self, now: datetime, *, idle: timedelta) -> bool:
        """Return whether it has ended, or was not used for as long as `idle`."""
        return self.ends_at <= now or now - self.last_seen_at >= idle


_STORED: Final = select(*(page_sessions.c[one.name] for one in fields(StoredPageSession)))


@dataclass(frozen=True, slots=True)
class PageSessionRepository:
    """The sessions of a tenant."""

    work: SqlContext

    def get(self, digest: str) -> StoredPageSession | None:
        """Return a session, ended or not; None if there is none."""
        statement = _STORED.where(self.work.here(page_sessions, digest=digest))
        row = self.work.connection.execute(statement).mappings().first()
        return None if row is None else StoredPageSession(**row)

    def of_agent(self, agent: str) -> list[StoredPageSession]:
        """List the sessions of an agent, ended or not, newest first."""
        statement = _STORED.where(self.work.here(page_sessions, agent=agent))
        ordered = statement.order_by(page_sessions.c.created_at.desc(), page_sessions.c.digest)
        rows = self.work.connection.execute(ordered).mappings()
        return [StoredPageSession(**row) for row in rows]

    def add(self, session: StoredPageSession) -> None:
        """Store a new session."""
        self.work.add(page_sessions, {"tenant_id": self.work.tenant, **asdict(session)})

    def record_use(self, digest: str, *, at: datetime) -> None:
        """Record when a session was last used; the time never moves back."""
        here = self.work.here(page_sessions, digest=digest), page_sessions.c.last_seen_at < at
        statement = update(page_sessions).where(*here).values(last_seen_at=at)
        self.work.connection.execute(statement)

    def drop(self, digests: Sequence[str]) -> int:
        """Delete sessions; return the number deleted."""
        here = self.work.here(page_sessions, page_sessions.c.digest.in_(digests))
        return self.work.connection.execute(delete(page_sessions).where(here)).rowcount
