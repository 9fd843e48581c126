"""Keys and tokens of sessions as their holders send them, and what they may name."""

import re
from ipaddress import ip_network
from typing import Final

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.limits import NETWORKS_MAX
from commonbrain.model.values import dataclass

PREFIX_CHARS: Final = 8
SECRET_CHARS: Final = 48
"""24 random bytes in hexadecimal: 192 bits, which cannot be guessed whatever the hash."""
KEY_SIGN: Final = "cb_"
"""The prefix of every key, by which it differs from a token and can be recognized."""
_TENANT: Final = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9])?", re.ASCII)
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
    """Split a key; None if it is malformed. What follows the tenant has a fixed length."""
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
        InvalidInputError: it has other characters, or begins or ends with `-` or `_`.

    """
    if _TENANT.fullmatch(name) is None:
        raise InvalidInputError(
            f"No tenant is called {name[:70]!r}.",
            hint="Give 1 to 63 of a-z, 0-9, - and _, without - and _ at the ends.",
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
