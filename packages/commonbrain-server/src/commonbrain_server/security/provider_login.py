"""Logs people in to the web page at an OpenID provider; requires the extra `server`.

It is the authorization code flow of OpenID Connect Core 1.0, section 3.1, with PKCE (RFC 7636) and
the protection against mix-up of RFC 9207.
"""

from __future__ import annotations

import hmac
import json
import logging
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from threading import Lock
from time import monotonic
from typing import Annotated, Any, Final
from urllib.parse import parse_qsl, quote_plus, urlsplit

import httpx2
from oauthlib.oauth2 import (
    AccessDeniedError,
    InvalidClientError,
    OAuth2Error,
    UnauthorizedClientError,
    WebApplicationClient,
)
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from commonbrain.clock import Clock
from commonbrain.hosts import is_local_host
from commonbrain.model.errors import AuthenticationError, RejectedError, UnavailableError
from commonbrain.model.limits import PROVIDER_LOGIN_MINUTES
from commonbrain.web.logins import PageLogin
from commonbrain_server.security.authentication import LOGIN_OVER, Issuer, OidcClient
from commonbrain_server.security.page_sessions import StoredPageSessions
from commonbrain_server.security.web_tokens import JwtAuthenticator
from commonbrain_server.settings import safe_url

_LOG: Final = logging.getLogger(__name__)
_SECRET_BYTES: Final = 32
_NEXT_BYTES_MAX: Final = 2000
"""A longer path to return to is dropped: browsers refuse cookies of more than 4,096 bytes."""
_METADATA: Final = "/.well-known/openid-configuration"
_METADATA_TTL_MS: Final = 3_600_000
"""Lifetime of the cached metadata, as of the issuer's keys."""
_TURN_S: Final = 1.0
"""How long a request waits while another one fetches the metadata."""
_REPLY_BYTES_MAX: Final = 256 * 1024
"""Metadata of known providers has up to 10 KB, a response with three tokens of 16 KB under 50."""
_MS: Final = 1000
_NAME_CHARS_LOGGED: Final = 200
_CHECK_ISSUER: Final = (
    "Log in with an API key, and ask who runs the server to check COMMONBRAIN_JWT_ISSUER."
)

_Endpoint = Annotated[str, AfterValidator(safe_url)]


class _Metadata(BaseModel):
    """The parts of the provider's metadata that a login uses (OpenID Connect Discovery 1.0, 3)."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    issuer: str
    authorization_endpoint: _Endpoint
    token_endpoint: _Endpoint
    token_endpoint_auth_methods_supported: tuple[str, ...] | None = None
    authorization_response_iss_parameter_supported: bool | None = None

    @property
    def takes_basic(self) -> bool:
        """Whether the token endpoint takes the client's secret by basic authentication."""
        methods = self.token_endpoint_auth_methods_supported
        return methods is None or "client_secret_basic" in methods


@dataclass(slots=True, kw_only=True)
class Provider:
    """The endpoints of the issuer, which its metadata names; fetched when a login needs them."""

    issuer: Issuer
    clock: Clock
    _metadata: _Metadata | None = None
    _stale_at_ms: float = 0.0
    _down_until_ms: float = 0.0
    _lock: Lock = field(default_factory=Lock)

    @property
    def host(self) -> str:
        """The host of the issuer, with its port if it has one."""
        return urlsplit(self.issuer.name).netloc

    def metadata(self) -> _Metadata:
        """Return the provider's metadata.

        Raises:
            UnavailableError: The provider does not answer, or its metadata is not valid.

        """
        # Requests that wait for a provider that hangs must not take up all threads of the server.
        if not self._lock.acquire(timeout=_TURN_S):
            raise self._unavailable()
        try:
            now_ms = self.clock.elapsed_ms()
            if self._metadata is not None and now_ms < self._stale_at_ms:
                return self._metadata
            if now_ms < self._down_until_ms:
                raise self._unavailable()
            try:
                self._metadata = self._fetch_metadata()
            except UnavailableError:
                # From now on: what the fetch itself took is often as long as the pause.
                self._down_until_ms = self.clock.elapsed_ms() + self.issuer.timeout_s * _MS
                raise
            self._stale_at_ms = now_ms + _METADATA_TTL_MS
            return self._metadata
        finally:
            self._lock.release()

    def _fetch_metadata(self) -> _Metadata:
        # Discovery 1.0, section 4: without the slash at the end of the issuer.
        status, body = self._send("GET", f"{self.issuer.name.removesuffix('/')}{_METADATA}")
        try:
            metadata = _Metadata.model_validate_json(body)
        except ValidationError:
            _LOG.warning("the identity provider's metadata is not valid (HTTP status %d)", status)
            raise self._unavailable(hint=_CHECK_ISSUER) from None
        if status != HTTPStatus.OK or metadata.issuer != self.issuer.name:
            named = metadata.issuer[:_NAME_CHARS_LOGGED]
            _LOG.warning("the metadata of %s names the issuer %r", self.issuer.name, named)
            raise self._unavailable(hint=_CHECK_ISSUER)
        return metadata

    def redeem(self, form: str, *, basic: tuple[str, str] | None) -> str:
        """Send a form to the token endpoint and return its JSON object, which may be an error.

        Args:
            form: The urlencoded request.
            basic: The client's id and secret for basic authentication, if it uses that.

        Raises:
            UnavailableError: The provider does not answer, or with something else.

        """
        status, body = self._send(
            "POST",
            self.metadata().token_endpoint,
            content=form,
            headers={"Content-Type": "application/x-www-form-urlencoded"},
            auth=basic,
        )
        text = body.decode(errors="replace")
        if not _is_json_object(text):
            _LOG.warning("the identity provider answered with HTTP status %d", status)
            raise self._unavailable()
        return text

    def _send(self, method: str, url: str, **request: Any) -> tuple[int, bytes]:  # noqa: ANN401 as httpx2's
        """Send a request and return the status and the body of its response."""
        ends_at = monotonic() + self.issuer.timeout_s
        # Without compression, the limit holds for what is received and for what it becomes.
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        headers |= request.pop("headers", {})
        body = bytearray()
        try:
            with httpx2.stream(
                method,
                url,
                headers=headers,
                timeout=self.issuer.timeout_s,
                # A proxy for the internet cannot reach this machine.
                trust_env=not is_local_host(urlsplit(url).hostname or ""),
                **request,
            ) as response:
                for piece in response.iter_raw():
                    body += piece
                    # The timeout of the client applies to each piece only.
                    if len(body) > _REPLY_BYTES_MAX or monotonic() > ends_at:
                        _LOG.warning("the identity provider's response is too large or too slow")
                        raise self._unavailable()
                return response.status_code, bytes(body)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            _LOG.warning("the identity provider cannot be reached (%s)", type(error).__name__)
            raise self._unavailable() from error

    def _unavailable(
        self, *, hint: str = "Try again in some seconds, or log in with an API key."
    ) -> UnavailableError:
        return UnavailableError(
            f"The login at {self.host} is not available.", code="issuer_down", hint=hint
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingLogin:
    """A login that a browser has begun, as its cookie stores it.

    The state of a request is a signature of the whole cookie under the secret in it, so it matches
    only this cookie. Another site cannot forge either.
    """

    secret: str = field(repr=False)
    ends_at: datetime
    next: str
    """The path to open after the login."""

    def __str__(self) -> str:
        return f"{self.secret}.{self._rest}"

    @property
    def state(self) -> str:
        """Ties the answer of the provider to this browser (RFC 6749, section 10.12)."""
        return self._derive("state")

    @property
    def nonce(self) -> str:
        """Ties the ID token to this login."""
        return self._derive("nonce")

    @property
    def verifier(self) -> str:
        """Ties the code to this login (RFC 7636); it has 43 characters, which is the minimum."""
        return self._derive("verifier")

    @property
    def _rest(self) -> str:
        return f"{int(self.ends_at.timestamp())}.{_base64(self.next.encode())}"

    def _derive(self, purpose: str) -> str:
        text = f"{purpose}.{self._rest}"
        return _base64(hmac.digest(self.secret.encode(), text.encode(), "sha256"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderLogin:
    """Logs people in at one provider: sends them there, and opens a session when they return."""

    provider: Provider
    client: OidcClient
    tokens: JwtAuthenticator
    """Checks ID tokens, whose audience is the client."""
    sessions: StoredPageSessions

    @property
    def host(self) -> str:
        """The host of the provider, for people to recognize."""
        return self.provider.host

    @staticmethod
    def pending(cookie: str) -> PendingLogin | None:
        """Read the login of a cookie; None if it is malformed."""
        try:
            secret, ends_at, next_ = cookie.split(".")
            return PendingLogin(
                secret=secret,
                ends_at=datetime.fromtimestamp(int(ends_at), UTC),
                next=urlsafe_b64decode(next_ + "=" * (-len(next_) % 4)).decode(),
            )
        except (ValueError, OverflowError, OSError):
            return None

    def start(self, *, next_: str) -> PendingLogin:
        """Begin a login, after which a path is opened."""
        secret = self.sessions.random_source.bits(8 * _SECRET_BYTES).to_bytes(_SECRET_BYTES)
        return PendingLogin(
            secret=_base64(secret),
            ends_at=self.sessions.clock.now() + timedelta(minutes=PROVIDER_LOGIN_MINUTES),
            next=next_ if len(next_.encode()) <= _NEXT_BYTES_MAX else "/",
        )

    def authorization_url(self, login: PendingLogin) -> str:
        """Return the URL of the provider at which a person continues a login.

        Raises:
            UnavailableError: The provider does not answer.

        """
        scheme, _, rest = self.provider.metadata().authorization_endpoint.partition(":")
        client = WebApplicationClient(self.client.id)
        url = client.prepare_request_uri(  # pyright: ignore[reportUnknownMemberType] **kwargs
            # The library takes HTTPS alone; the metadata was checked, and may name this machine.
            f"https:{rest}",
            redirect_uri=self.client.callback_url,
            scope=self.client.scopes,
            state=login.state,
            nonce=login.nonce,
            code_challenge=client.create_code_challenge(login.verifier, "S256"),
            code_challenge_method="S256",
        )
        return f"{scheme}:{url.removeprefix('https:')}"

    def finish(self, login: PendingLogin | None, *, query: str, address: str | None) -> PageLogin:
        """Open the session of a person who returns from the provider.

        Args:
            login: The login of the person's browser, if it has one.
            query: The query with which the provider sent the person back.
            address: The IP address of the client, if known.

        Raises:
            AuthenticationError: The provider refused the login, or its answer is not valid here.
            RejectedError: The login was begun by another browser, used before, or over; or the
                tenant is suspended.
            LimitExceededError: `rate_limited`, there were too many logins from this address.
            UnavailableError: The provider or the store does not answer.

        """
        sent = dict(parse_qsl(query)).get("state", "")
        if (
            login is None
            or login.ends_at <= self.sessions.clock.now()
            or not hmac.compare_digest(sent.encode(), login.state.encode())
        ):
            raise _over()
        # Only a browser with the cookie counts toward the login limit of its address.
        self.sessions.check_login_rate(address)
        if not self.sessions.rates.claim(f"login-state/{sent}", minutes=PROVIDER_LOGIN_MINUTES):
            raise _over()
        id_token = self._id_token(self._code(query), login)
        try:
            return self.sessions.start(self.tokens.admit_login(id_token, nonce=login.nonce))
        except AuthenticationError as error:
            cause = error.__cause__
            claim = getattr(cause, "claim", "")
            _LOG.warning("the ID token of a login is refused (%s %s)", type(cause).__name__, claim)
            raise self._invalid() from error

    def _code(self, query: str) -> str:
        """Return the code with which the provider sent a person back."""
        client = WebApplicationClient(self.client.id)
        try:
            # The library takes HTTPS alone and reads only the query.
            answer = client.parse_request_uri_response(f"https://?{query}")
        except AccessDeniedError:
            raise AuthenticationError(
                f"The login at {self.host} was cancelled or denied.",
                code="login_denied",
                hint="Log in again, or with an API key.",
            ) from None
        except OAuth2Error as error:
            raise self._refusal(error) from None
        # RFC 9207: an answer of another issuer is not for this one's token endpoint.
        is_sent = self.provider.metadata().authorization_response_iss_parameter_supported
        issuer = answer.get("iss")
        if issuer != self.provider.issuer.name and (is_sent or issuer is not None):
            raise self._invalid()
        return answer["code"]

    def _id_token(self, code: str, login: PendingLogin) -> str:
        """Exchange a code for the ID token."""
        id_, secret = self.client.id, self.client.secret
        is_basic = secret is not None and self.provider.metadata().takes_basic
        client = WebApplicationClient(id_)
        form = client.prepare_request_body(  # pyright: ignore[reportUnknownMemberType] **kwargs
            code=code,
            redirect_uri=self.client.callback_url,
            code_verifier=login.verifier,
            include_client_id=not is_basic,
            client_secret=None if is_basic else secret,
        )
        # RFC 6749, section 2.3.1: both are urlencoded first.
        basic = (quote_plus(id_), quote_plus(secret)) if is_basic and secret else None
        body = self.provider.redeem(form, basic=basic)
        try:
            tokens = client.parse_request_body_response(body)  # pyright: ignore[reportUnknownMemberType] **kwargs
        except OAuth2Error as error:
            raise self._refusal(error) from None
        except (ValueError, TypeError, AttributeError, OverflowError):
            raise self._invalid() from None
        id_token = tokens.get("id_token")
        if not isinstance(id_token, str):
            raise self._invalid()
        return id_token

    def _refusal(self, error: OAuth2Error) -> AuthenticationError:
        """Return the error for one of the provider, whose own text could contain anything."""
        _LOG.warning("the identity provider refused a login (%s)", type(error).__name__)
        is_setting = isinstance(error, InvalidClientError | UnauthorizedClientError)
        return AuthenticationError(
            f"{self.host} does not accept this server as its client."
            if is_setting
            else f"{self.host} refused the login.",
            code="login_refused",
            hint="Ask who runs the server to check COMMONBRAIN_OIDC_CLIENT_ID and its secret."
            if is_setting
            else "Log in again. If that fails too, ask who runs the server.",
        )

    def _invalid(self) -> AuthenticationError:
        return AuthenticationError(
            f"The answer of {self.host} is not valid here.",
            hint="Log in again. If that fails too, ask who runs the server whether your account "
            "has a tenant and may log in.",
        )


def _over() -> RejectedError:
    minutes = PROVIDER_LOGIN_MINUTES
    return RejectedError(
        f"This login began in another browser, was used before, or took over {minutes} minutes.",
        code=LOGIN_OVER,
        hint="Log in again.",
    )


def _is_json_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _base64(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")
