"""Makes what comes with the extra `server`, and says so where that is not installed.

Who only uses a store on this machine loads none of it.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from commonbrain.clock import Clock
from commonbrain.model.errors import InvalidInputError
from commonbrain.security.authentication import Authenticator, AuthenticatorChain, Issuer
from commonbrain.security.denials import AccessDenials
from commonbrain.security.quotas import RateLimiter
from commonbrain.storage.interface import PasswordHasher

if TYPE_CHECKING:
    from commonbrain.storage.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticationServices:
    """What telling callers stands on."""

    store: Store
    clock: Clock
    refusals: AccessDenials
    rates: RateLimiter
    seals: PasswordHasher


def make_password_hasher() -> PasswordHasher:
    """Make what seals secrets.

    Raises:
        InvalidInputError: `extra_missing`.

    """
    with _telling_of_the_extra():
        from commonbrain.security.passwords import Argon2PasswordHasher  # noqa: PLC0415

    return Argon2PasswordHasher()


def make_rates(redis_url: str | None = None) -> RateLimiter:
    """Make what counts calls, in Redis if there is one.

    Raises:
        InvalidInputError: `extra_missing`, or the address is none that Redis could have.

    """
    with _telling_of_the_extra():
        from commonbrain.security.rate_limits import shared_rate_limiter  # noqa: PLC0415

    try:
        return shared_rate_limiter(redis_url)
    except ValueError:
        raise InvalidInputError(
            "COMMONBRAIN_REDIS_URL is no address of a Redis.",
            hint="Give it as redis://host:6379/0, or unset it.",
        ) from None


def make_access(ground: AuthenticationServices, issuer: Issuer | None) -> Authenticator:
    """Make what tells callers by their credentials; without an issuer, by keys alone.

    Raises:
        InvalidInputError: `extra_missing`.

    """
    with _telling_of_the_extra():
        from commonbrain.security.api_keys import ApiKeyAuthenticator  # noqa: PLC0415

    keys = ApiKeyAuthenticator(
        store=ground.store,
        seals=ground.seals,
        clock=ground.clock,
        rates=ground.rates,
        refusals=ground.refusals,
    )
    return AuthenticatorChain(keys=keys, tokens=_token_access(ground, issuer) if issuer else None)


def _token_access(ground: AuthenticationServices, issuer: Issuer) -> Authenticator:
    with _telling_of_the_extra():
        from commonbrain.security.tokens import IssuerKeys, JwtAuthenticator  # noqa: PLC0415

    return JwtAuthenticator(
        store=ground.store,
        clock=ground.clock,
        refusals=ground.refusals,
        issuer=issuer,
        keys=IssuerKeys(issuer=issuer, clock=ground.clock),
    )


@contextmanager
def _telling_of_the_extra() -> Generator[None]:
    try:
        yield
    except ImportError as error:
        raise InvalidInputError(
            f"This needs {(error.name or 'a library').partition('.')[0]}, which is not installed.",
            code="extra_missing",
            hint="Install it with: pip install 'commonbrain[server]'",
        ) from error
