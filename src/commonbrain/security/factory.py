"""Creates the security components of the extra `server`, or reports that it is missing.

Local use of a store loads none of them.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from commonbrain.clock import Clock
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.values import dataclass, replace
from commonbrain.security.denials import AccessDenials
from commonbrain.security.quotas import RateLimiter
from commonbrain.storage.interface import PasswordHasher

if TYPE_CHECKING:
    from commonbrain.security.authentication import Authenticator, Issuer, OidcClient
    from commonbrain.security.page_sessions import StoredPageSessions
    from commonbrain.security.provider_login import ProviderLogin
    from commonbrain.security.web_tokens import JwtAuthenticator
    from commonbrain.storage.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticationServices:
    """What authenticators depend on."""

    store: Store
    clock: Clock
    refusals: AccessDenials
    rates: RateLimiter
    password_hasher: PasswordHasher


def make_password_hasher() -> PasswordHasher:
    """Create the password hasher.

    Raises:
        InvalidInputError: `extra_missing`.

    """
    with _reporting_missing_extra():
        from commonbrain.security.passwords import Argon2PasswordHasher  # noqa: PLC0415

    return Argon2PasswordHasher()


def make_rates(redis_url: str | None = None) -> RateLimiter:
    """Create the rate limiter, in Redis if a URL is given.

    Raises:
        InvalidInputError: `extra_missing`, or the URL is invalid.

    """
    with _reporting_missing_extra():
        from commonbrain.security.rate_limits import shared_rate_limiter  # noqa: PLC0415

    try:
        return shared_rate_limiter(redis_url)
    except ValueError:
        raise InvalidInputError(
            "COMMONBRAIN_REDIS_URL is not a valid Redis URL.",
            hint="Set it to redis://host:6379/0, or unset it.",
        ) from None


def make_access(services: AuthenticationServices, issuer: Issuer | None) -> Authenticator:
    """Create the authenticator for API keys and, with an issuer, for tokens.

    Raises:
        InvalidInputError: `extra_missing`.

    """
    with _reporting_missing_extra():
        from commonbrain.security.api_keys import ApiKeyAuthenticator  # noqa: PLC0415
        from commonbrain.security.authentication import AuthenticatorChain  # noqa: PLC0415

    keys = ApiKeyAuthenticator(
        store=services.store,
        password_hasher=services.password_hasher,
        clock=services.clock,
        rates=services.rates,
        refusals=services.refusals,
    )
    return AuthenticatorChain(keys=keys, tokens=_token_access(services, issuer) if issuer else None)


def make_provider_login(
    services: AuthenticationServices,
    sessions: StoredPageSessions,
    *,
    issuer: Issuer,
    client: OidcClient,
) -> ProviderLogin:
    """Create the login to the web page at the issuer.

    Raises:
        InvalidInputError: `extra_missing`.

    """
    with _reporting_missing_extra():
        from commonbrain.security.provider_login import Provider, ProviderLogin  # noqa: PLC0415

    return ProviderLogin(
        provider=Provider(issuer=issuer, clock=services.clock),
        client=client,
        tokens=_token_access(services, replace(issuer, audience=client.id)),
        sessions=sessions,
    )


def _token_access(services: AuthenticationServices, issuer: Issuer) -> JwtAuthenticator:
    with _reporting_missing_extra():
        from commonbrain.security.web_tokens import IssuerKeys, JwtAuthenticator  # noqa: PLC0415

    return JwtAuthenticator(
        store=services.store,
        clock=services.clock,
        refusals=services.refusals,
        issuer=issuer,
        keys=IssuerKeys(issuer=issuer, clock=services.clock),
    )


@contextmanager
def _reporting_missing_extra() -> Generator[None]:
    try:
        yield
    except ImportError as error:
        raise InvalidInputError(
            f"This needs {(error.name or 'a library').partition('.')[0]}, which is not installed.",
            code="extra_missing",
            hint="Install it with: pip install 'commonbrain[server]'",
        ) from error
