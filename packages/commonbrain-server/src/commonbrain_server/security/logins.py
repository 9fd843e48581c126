"""Builds the authenticators and logins of a server from settings."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import cache

from commonbrain.client import Brain
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.scope import Authority, Caller
from commonbrain.services import Services
from commonbrain_server.guard import guard_of
from commonbrain_server.security.api_keys import ApiKeyAuthenticator
from commonbrain_server.security.authentication import (
    CALLBACK_PATH,
    Authenticator,
    AuthenticatorChain,
    Issuer,
    LocalAuthenticator,
    OidcClient,
)
from commonbrain_server.security.page_sessions import StoredPageSessions
from commonbrain_server.security.passwords import Argon2PasswordHasher
from commonbrain_server.security.provider_login import Provider, ProviderLogin
from commonbrain_server.security.web_tokens import IssuerKeys, JwtAuthenticator
from commonbrain_server.settings import (
    ServerSettings,
    TokenSettings,
    load_token_settings,
    safe_url,
)

_password_hasher = cache(Argon2PasswordHasher)


def make_access(brain: Brain, settings: TokenSettings | None = None) -> Authenticator:
    """Create the authenticator of networked transports.

    Args:
        brain: Supplies the services.
        settings: Token settings; read from the environment by default.

    Raises:
        InvalidInputError: The token settings are incomplete.

    """
    return make_authenticator(brain.services, _issuer(settings or load_token_settings()))


def make_authenticator(services: Services, issuer: Issuer | None) -> Authenticator:
    """Create the authenticator for API keys and, with an issuer, for tokens."""
    guard = guard_of(services)
    keys = ApiKeyAuthenticator(
        store=services.store,
        password_hasher=_password_hasher(),
        clock=services.clock,
        rates=guard.rates,
        refusals=guard.refusals,
    )
    return AuthenticatorChain(keys=keys, tokens=_token_access(services, issuer) if issuer else None)


def make_page_sessions(
    brain: Brain, access: Authenticator, *, settings: ServerSettings
) -> StoredPageSessions:
    """Create the sessions of the web page.

    Args:
        brain: Supplies the services.
        access: Checks the credentials of people who log in, as `make_access` makes it.
        settings: When sessions end.

    """
    services = brain.services
    return StoredPageSessions(
        store=services.store,
        access=access,
        clock=services.clock,
        rates=guard_of(services).rates,
        refusals=guard_of(services).refusals,
        random_source=services.random_source,
        idle=timedelta(minutes=settings.page_idle_minutes),
        lifetime=timedelta(hours=settings.page_session_hours),
    )


def make_provider_login(
    brain: Brain, sessions: StoredPageSessions, *, url: str, settings: TokenSettings | None = None
) -> ProviderLogin | None:
    """Create the login to the web page at the token issuer; None without a client of it.

    Args:
        brain: Supplies the services.
        sessions: Opens the sessions, as `make_page_sessions` makes them.
        url: The public URL of the server, to which the issuer sends people back.
        settings: Token and client settings; read from the environment by default.

    Raises:
        InvalidInputError: The settings are incomplete.

    """
    settings = settings or load_token_settings()
    if settings.oidc_client_id is None:
        return None
    issuer = _issuer(settings)
    if issuer is None:
        raise InvalidInputError(
            "COMMONBRAIN_OIDC_CLIENT_ID names a client of no issuer.",
            hint="Set COMMONBRAIN_JWT_ISSUER, COMMONBRAIN_JWT_AUDIENCE and "
            "COMMONBRAIN_JWT_JWKS_URL too.",
        )
    try:
        safe_url(issuer.name)
    except ValueError as error:
        raise InvalidInputError(
            f"People cannot log in at COMMONBRAIN_JWT_ISSUER: {error}.",
            hint="Correct it, or unset COMMONBRAIN_OIDC_CLIENT_ID.",
        ) from None
    secret = settings.oidc_client_secret
    client = OidcClient(
        id=settings.oidc_client_id,
        secret=secret.get_secret_value() if secret else None,
        scopes=settings.oidc_scopes,
        callback_url=f"{url}{CALLBACK_PATH}",
    )
    return ProviderLogin(
        provider=Provider(issuer=issuer, clock=brain.services.clock),
        client=client,
        tokens=_token_access(brain.services, replace(issuer, audience=client.id)),
        sessions=sessions,
    )


def make_local_access(caller: Caller) -> Authenticator:
    """Create an authenticator that maps every local call to one caller, who writes as a model."""
    return LocalAuthenticator(replace(caller, authority=Authority.MODEL))


def _token_access(services: Services, issuer: Issuer) -> JwtAuthenticator:
    return JwtAuthenticator(
        store=services.store,
        clock=services.clock,
        refusals=guard_of(services).refusals,
        issuer=issuer,
        keys=IssuerKeys(issuer=issuer, clock=services.clock),
    )


def _issuer(settings: TokenSettings) -> Issuer | None:
    claims = {
        "COMMONBRAIN_JWT_ISSUER": settings.jwt_issuer,
        "COMMONBRAIN_JWT_AUDIENCE": settings.jwt_audience,
        "COMMONBRAIN_JWT_JWKS_URL": settings.jwt_jwks_url,
    }
    name, audience, keys_url = claims.values()
    if name is None or audience is None or keys_url is None:
        if not any(claims.values()):
            return None
        missing = ", ".join(setting for setting, value in claims.items() if not value)
        raise InvalidInputError(
            f"Tokens are taken only with {missing} too.", hint="Set all three, or none."
        )
    return Issuer(
        name=name,
        audience=audience,
        keys_url=keys_url,
        algorithms=tuple(one.strip() for one in settings.jwt_algorithms.split(",")),
        tenant_claim=settings.jwt_tenant_claim,
        agent_claim=settings.jwt_agent_claim,
        role_claim=settings.jwt_role_claim,
        leeway_s=settings.jwt_leeway_s,
        timeout_s=settings.jwt_timeout_s,
    )
