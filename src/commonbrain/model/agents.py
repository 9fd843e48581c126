"""Agents and API keys of a tenant."""

import re
from datetime import datetime
from enum import StrEnum
from ipaddress import ip_address, ip_network
from typing import Final

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.limits import NAME_CHARS_MAX, NETWORKS_MAX
from commonbrain.model.scope import NOBODYS_NAMES, Role, Trust
from commonbrain.model.values import dataclass

PREFIX_CHARS: Final = 8
SECRET_CHARS: Final = 48
"""24 random bytes in hexadecimal: 192 bits, which cannot be guessed whatever the hash."""
KEY_SIGN: Final = "cb_"
"""The prefix of every key, by which it differs from a token and can be recognized."""
_TENANT: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_KEY: Final = re.compile(
    rf"{KEY_SIGN}(?P<tenant>{_TENANT.pattern})_(?P<prefix>[0-9a-f]{{{PREFIX_CHARS}}})"
    rf"_(?P<secret>[0-9a-f]{{{SECRET_CHARS}}})",
    re.ASCII,
)

SESSION_SIGN: Final = "cbs_"
"""The prefix of every token of a session, which thus is neither a key nor a web token."""
SESSION_SECRET_BYTES: Final = 32
"""256 random bits: a search of the SHA-256 of all of them is out of reach, so no slower hash."""
_SESSION: Final = re.compile(
    # Base64 without padding writes 32 bytes as 43 characters.
    rf"{SESSION_SIGN}(?P<tenant>{_TENANT.pattern})_(?P<secret>[A-Za-z0-9_-]{{43}})",
    re.ASCII,
)


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
        try:
            here = ip_address(address or "")
        except ValueError:
            return False
        # A dual-stack listener reports IPv4 callers as IPv6 addresses.
        plain = getattr(here, "ipv4_mapped", None) or here
        return any(plain in ip_network(one) for one in self.networks)

    def narrowed(self, role: Role) -> Role:
        """Return the agent's role limited by the key."""
        if not self.scopes:
            return role
        widest = max((scope.role for scope in self.scopes), key=tuple(Role).index)
        return role if widest.covers(role) else widest


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyText:
    """A key as its holder knows it."""

    tenant: str
    prefix: str
    secret: str

    def __str__(self) -> str:
        return f"{KEY_SIGN}{self.tenant}_{self.prefix}_{self.secret}"

    def __repr__(self) -> str:
        return f"KeyText({self.tenant}, {self.prefix})"


def read_key(text: str) -> KeyText | None:
    """Split a key; None if it is malformed. Tenant names contain no `_`, so it is unambiguous."""
    matched = _KEY.fullmatch(text)
    return KeyText(**matched.groupdict()) if matched else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionToken:
    """The token of a session of the web page, as its cookie contains it."""

    tenant: str
    secret: str

    def __str__(self) -> str:
        return f"{SESSION_SIGN}{self.tenant}_{self.secret}"

    def __repr__(self) -> str:
        return f"SessionToken({self.tenant})"


def read_session_token(text: str) -> SessionToken | None:
    """Split the token of a session; None if it is malformed."""
    matched = _SESSION.fullmatch(text)
    return SessionToken(**matched.groupdict()) if matched else None


def check_tenant_name(name: str) -> str:
    """Return a valid tenant name.

    Raises:
        InvalidInputError: it is not a lower-case DNS label.

    """
    if _TENANT.fullmatch(name) is None:
        raise InvalidInputError(
            f"No tenant is called {name[:70]!r}.",
            hint="Give 1 to 63 of a-z, 0-9 and -, without - at the ends.",
        )
    return name


def check_networks(networks: tuple[str, ...]) -> tuple[str, ...]:
    """Return normalized networks.

    Raises:
        InvalidInputError: one is neither an address nor a network in CIDR notation, or there are
            too many.

    """
    if len(networks) > NETWORKS_MAX:
        raise InvalidInputError(
            f"A key has {len(networks)} networks.", hint=f"Give up to {NETWORKS_MAX}."
        )
    try:
        return tuple(str(ip_network(one)) for one in networks)
    except ValueError:
        raise InvalidInputError(
            "An entry of the allow list is neither an address nor a network.",
            hint="Give them as 192.0.2.7 or 192.0.2.0/24, without host bits.",
        ) from None
