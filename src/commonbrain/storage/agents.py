"""Agents and API keys of a tenant."""

from datetime import datetime
from enum import StrEnum
from ipaddress import ip_network

from commonbrain.hosts import parse_address
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.limits import NAME_CHARS_MAX
from commonbrain.model.scope import NOBODYS_NAMES, Role, Trust
from commonbrain.model.values import dataclass


class KeyScope(StrEnum):
    """What a key allows, if less than the agent's role."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"

    @property
    def role(self) -> Role:
        """The role that it corresponds to."""
        return tuple(Role)[tuple(KeyScope).index(self)]


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
