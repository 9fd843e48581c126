"""Tenants, agents, API keys, logins to the page, and the audit of access."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import ColumnElement, RowMapping, and_, case, delete, func, or_, select, update

from commonbrain.model.agents import Agent, ApiKey, KeyScope
from commonbrain.model.scope import Policy, Role
from commonbrain.model.values import asdict, dataclass, fields, replace
from commonbrain.storage.interface import AccessEntry, Tenant
from commonbrain.storage.schema.activity import access_audit, agents, api_keys, page_sessions
from commonbrain.storage.schema.memories import tenants
from commonbrain.storage.sql.context import SqlContext

_AGENTS: Final = select(*(agents.c[one.name] for one in fields(Agent)))
_KEYS: Final = select(*(api_keys.c[one.name] for one in fields(ApiKey)))
_NOTED: Final = select(*(access_audit.c[one.name] for one in fields(AccessEntry)))
TENANTS: Final = select(
    tenants.c.id.label("name"), tenants.c.created_at, tenants.c.policy, tenants.c.suspended_at
)
_POLICY: Final = frozenset(one.name for one in fields(Policy))


def a_tenant(row: RowMapping) -> Tenant:
    """Read a tenant; policy fields of a newer program are ignored."""
    known = {name: value for name, value in row["policy"].items() if name in _POLICY}
    for name in ("retention", "parameters"):
        known[name] = tuple(known.get(name, ()))
    given: dict[str, Any] = {**row, "policy": Policy(**known)}
    return Tenant(**given)


@dataclass(frozen=True, slots=True)
class CredentialRepository:
    """The tenant, its agents, their API keys and the access audit."""

    work: SqlContext

    def tenant(self) -> Tenant | None:
        """Return the tenant; None if it does not exist."""
        rows = self.work.connection.execute(TENANTS.where(tenants.c.id == self.work.tenant))
        row = rows.mappings().first()
        return None if row is None else a_tenant(row)

    def set_policy(self, policy: Policy) -> None:
        """Replace the tenant's policy."""
        known = select(tenants.c.policy).where(tenants.c.id == self.work.tenant)
        before = self.work.connection.execute(known).scalar_one()
        self._change_tenant(policy={**before, **asdict(policy)})

    def suspend(self, at: datetime | None) -> None:
        """Suspend the tenant for all network transports, or lift the suspension with None."""
        self._change_tenant(suspended_at=at)

    def agents(self, *, limit: int) -> list[Agent]:
        """List the agents by name."""
        statement = _AGENTS.where(self.work.here(agents)).order_by(agents.c.name).limit(limit)
        return [Agent(**row) for row in self.work.connection.execute(statement).mappings()]

    def agent(self, name: str) -> Agent | None:
        """Return an agent; None if there is none of that name."""
        statement = _AGENTS.where(self.work.here(agents, name=name))
        row = self.work.connection.execute(statement).mappings().first()
        return None if row is None else Agent(**row)

    def save_agent(self, agent: Agent) -> None:
        """Insert or replace an agent by name; `created_at` of an existing one stays."""
        row = asdict(agent)
        if self.work.add(agents, {"tenant_id": self.work.tenant, **row}):
            return
        del row["created_at"]
        here = self.work.here(agents, name=agent.name)
        self.work.connection.execute(update(agents).where(here).values(row))

    def keys(self, *, limit: int, now: datetime, agent: str | None = None) -> list[ApiKey]:
        """List the keys of the tenant or of one agent: valid keys first, then newest first."""
        statement = _KEYS.where(self.work.here(api_keys))
        if agent is not None:
            statement = statement.where(api_keys.c.agent == agent)
        ordered = statement.order_by(
            case((_is_good(now), 0), else_=1), api_keys.c.created_at.desc(), api_keys.c.prefix
        )
        rows = self.work.connection.execute(ordered.limit(limit)).mappings()
        return [_a_key(row) for row in rows]

    def good_keys(self, now: datetime) -> int:
        """Count the valid keys."""
        good = select(func.count()).where(self.work.here(api_keys), _is_good(now))
        return self.work.connection.execute(good).scalar_one()

    def key(self, prefix: str) -> ApiKey | None:
        """Return a key, valid or not; None if there is none."""
        statement = _KEYS.where(self.work.here(api_keys, prefix=prefix))
        row = self.work.connection.execute(statement).mappings().first()
        return None if row is None else _a_key(row)

    def keys_with_agents(self, prefixes: Sequence[str]) -> dict[str, tuple[ApiKey, Agent | None]]:
        """Map prefixes to keys, valid or not, and their agents; unknown ones are absent."""
        of_key = _KEYS.where(self.work.here(api_keys), api_keys.c.prefix.in_(prefixes))
        keys = [_a_key(row) for row in self.work.connection.execute(of_key).mappings()]
        named = agents.c.name.in_({key.agent for key in keys})
        of_agent = _AGENTS.where(self.work.here(agents), named)
        rows = self.work.connection.execute(of_agent).mappings()
        known = {row["name"]: Agent(**row) for row in rows}
        return {key.prefix: (key, known.get(key.agent)) for key in keys}

    def add_key(self, key: ApiKey) -> bool:
        """Store a new key; return False, with nothing stored, if its prefix is taken."""
        return self.work.add(api_keys, {"tenant_id": self.work.tenant, **asdict(key)})

    def end_key(self, prefix: str, *, revoked_at: datetime | None, expires_at: datetime) -> None:
        """End a key at the given times; a time that is already set is never put off."""
        here = self.work.here(api_keys, prefix=prefix)
        ends = api_keys.c.expires_at
        sooner = update(api_keys).where(*here, or_(ends.is_(None), ends > expires_at))
        self.work.connection.execute(sooner.values(expires_at=expires_at))
        if revoked_at is not None:
            unrevoked = update(api_keys).where(*here, api_keys.c.revoked_at.is_(None))
            self.work.connection.execute(unrevoked.values(revoked_at=revoked_at))

    def used(self, prefixes: Sequence[str], *, at: datetime) -> None:
        """Record when keys were last used; the time never moves back."""
        last = api_keys.c.last_used_at
        here = self.work.here(api_keys), api_keys.c.prefix.in_(prefixes)
        statement = update(api_keys).where(*here, or_(last.is_(None), last < at))
        self.work.connection.execute(statement.values(last_used_at=at))

    def note(self, entry: AccessEntry, *, id_: int | None = None) -> None:
        """Append an entry to the access audit.

        Args:
            entry: what was denied or done.
            id_: its id, if it was generated when that happened; the next free one is taken.

        """
        self.work.append(access_audit, asdict(entry), at=entry.at, drawn=id_)

    def audit_entries(self, *, limit: int) -> list[AccessEntry]:
        """List entries of the access audit, newest first."""
        here = _NOTED.where(self.work.here(access_audit))
        ordered = here.order_by(access_audit.c.id.desc()).limit(limit)
        return [AccessEntry(**row) for row in self.work.connection.execute(ordered).mappings()]

    def _change_tenant(self, **values: Any) -> None:  # noqa: ANN401 columns are of any sort
        here = tenants.c.id == self.work.tenant
        self.work.connection.execute(update(tenants).where(here).values(**values))


def _is_good(now: datetime) -> ColumnElement[bool]:
    """Repeat `ApiKey.is_good` in SQL."""
    ends = api_keys.c.expires_at
    return and_(api_keys.c.revoked_at.is_(None), or_(ends.is_(None), ends > now))


def _a_key(row: RowMapping) -> ApiKey:
    return replace(ApiKey(**row), scopes=tuple(KeyScope(one) for one in row["scopes"]))


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

    def drop_ended(self, *, now: datetime, limit: int) -> int:
        """Delete sessions whose end has passed; return the number deleted."""
        row = page_sessions.c
        old = select(row.digest).where(self.work.here(page_sessions, row.ends_at <= now))
        some = old.order_by(row.ends_at).limit(limit).scalar_subquery()
        here = self.work.here(page_sessions, row.digest.in_(some))
        return self.work.connection.execute(delete(page_sessions).where(here)).rowcount
