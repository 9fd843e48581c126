"""Agents and API keys of a tenant, and where they are stored."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from ipaddress import ip_network
from typing import Final

from sqlalchemy import (
    ColumnElement,
    RowMapping,
    String,
    and_,
    case,
    cast,
    func,
    or_,
    select,
    update,
)

from commonbrain.hosts import parse_address
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.limits import NAME_CHARS_MAX
from commonbrain.model.scope import NOBODYS_NAMES, Role, Trust
from commonbrain.model.values import asdict, dataclass, fields, replace
from commonbrain.storage.schema.activity import agents, api_keys
from commonbrain.storage.sql.context import SqlContext


class KeyScope(StrEnum):
    """What a key allows, if less than the agent's role."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"
    JOIN = "join"
    """Nothing but to be exchanged for a key of the agent's full role, once: an invitation."""

    @property
    def role(self) -> Role:
        """The role that it corresponds to."""
        return Role.READER if self is KeyScope.JOIN else tuple(Role)[tuple(KeyScope).index(self)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """An agent that may call in a tenant, and its authority."""

    name: str
    role: Role
    trust_default: Trust = Trust.USER_CLAIM
    trust_ceiling: Trust = Trust.USER_CLAIM
    created_at: datetime
    disabled_at: datetime | None = None

    def __post_init__(self) -> None:
        """Check the name, and that the default trust is not above the ceiling.

        Raises:
            InvalidInputError: the name is empty, too long, not printable or reserved, or the trusts
                disagree.

        """
        if not (self.name.isprintable() and 0 < len(self.name) <= NAME_CHARS_MAX):
            raise InvalidInputError(
                f"The agent {self.name[:40]!r} has {len(self.name)} characters.",
                hint=f"Give 1 to {NAME_CHARS_MAX} printable ones.",
            )
        if self.name in NOBODYS_NAMES:
            raise InvalidInputError(
                f"An agent cannot be called {self.name}.", hint="The name means everyone."
            )
        if self.trust_default.weight > self.trust_ceiling.weight:
            raise InvalidInputError(
                f"The default trust {self.trust_default} is above the ceiling "
                f"{self.trust_ceiling}.",
                hint="Raise the ceiling or lower the default.",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """An API key as stored, without its secret."""

    prefix: str
    agent: str
    label: str | None = None
    scopes: tuple[KeyScope, ...] = ()
    """Empty means the agent's full role."""
    networks: tuple[str, ...] = ()
    """Addresses from which it may be used; empty means any."""
    seal: str
    """The argon2id hash of its secret, with salt and parameters."""
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None

    @property
    def is_invitation(self) -> bool:
        """Whether it is only good for a key of one's own."""
        return KeyScope.JOIN in self.scopes

    def is_good(self, now: datetime) -> bool:
        """Return whether it is neither revoked nor expired."""
        is_over = self.expires_at is not None and self.expires_at <= now
        return self.revoked_at is None and not is_over

    def allows(self, address: str | None) -> bool:
        """Return whether it may be used from an address.

        An unknown address requires that any may.
        """
        if not self.networks:
            return True
        here = parse_address(address or "")
        return here is not None and any(here in ip_network(one) for one in self.networks)

    def narrowed(self, role: Role) -> Role:
        """Return the agent's role limited by the key."""
        if not self.scopes:
            return role
        widest = max((scope.role for scope in self.scopes), key=tuple(Role).index)
        return role if widest.covers(role) else widest


_AGENTS: Final = select(*(agents.c[one.name] for one in fields(Agent)))
_KEYS: Final = select(*(api_keys.c[one.name] for one in fields(ApiKey)))


@dataclass(frozen=True, slots=True)
class KeyRepository:
    """The agents of a tenant and their API keys."""

    work: SqlContext

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

    def has_key(self) -> bool:
        """Return whether there is or was a key, other than an invitation to one."""
        is_key = cast(api_keys.c.scopes, String).not_like(f'%"{KeyScope.JOIN}"%')
        one = select(api_keys.c.prefix).where(self.work.here(api_keys), is_key).limit(1)
        return self.work.connection.execute(one).first() is not None

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

    def end_key(self, prefix: str, *, revoked_at: datetime | None, expires_at: datetime) -> bool:
        """End a key at the given times; a time that is already set is never put off.

        Returns whether this call revoked it, which one alone of several at once does.
        """
        here = self.work.here(api_keys, prefix=prefix)
        ends = api_keys.c.expires_at
        sooner = update(api_keys).where(*here, or_(ends.is_(None), ends > expires_at))
        self.work.connection.execute(sooner.values(expires_at=expires_at))
        if revoked_at is None:
            return False
        unrevoked = update(api_keys).where(*here, api_keys.c.revoked_at.is_(None))
        return bool(self.work.connection.execute(unrevoked.values(revoked_at=revoked_at)).rowcount)

    def used(self, prefixes: Sequence[str], *, at: datetime) -> None:
        """Record when keys were last used; the time never moves back."""
        last = api_keys.c.last_used_at
        here = self.work.here(api_keys), api_keys.c.prefix.in_(prefixes)
        statement = update(api_keys).where(*here, or_(last.is_(None), last < at))
        self.work.connection.execute(statement.values(last_used_at=at))


def _is_good(now: datetime) -> ColumnElement[bool]:
    """Repeat `ApiKey.is_good` in SQL."""
    ends = api_keys.c.expires_at
    return and_(api_keys.c.revoked_at.is_(None), or_(ends.is_(None), ends > now))


def _a_key(row: RowMapping) -> ApiKey:
    return replace(ApiKey(**row), scopes=tuple(KeyScope(one) for one in row["scopes"]))
