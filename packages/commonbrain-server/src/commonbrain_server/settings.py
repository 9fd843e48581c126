"""The settings of a shared server, and of the tokens and logins that it accepts."""

from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, IPvAnyNetwork

from commonbrain.config import EnvironmentSettings, Url
from commonbrain.runtime.settings_loading import load
from commonbrain.setting_types import Key

ASYMMETRIC: Final = frozenset(
    "RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 ES256K EdDSA".split()
)
"""Signatures by a key pair, as RFC 7518 and RFC 8037 name them."""


def safe_url(url: str | None) -> str | None:
    """Reject URLs whose answer could be forged on the network, or that contain a password."""
    parts = urlsplit(url or "")
    if "@" in parts.netloc:
        raise ValueError("it must not contain a name or password")
    is_local_host = parts.scheme == "http" and parts.hostname in {"localhost", "127.0.0.1", "::1"}
    if url is not None and not ((parts.scheme == "https" and parts.hostname) or is_local_host):
        raise ValueError("it must be https, or http on this machine")
    return url


def asymmetric(names: str) -> str:
    """Reject algorithms with a shared secret."""
    wrong = {one.strip() for one in names.split(",")} - ASYMMETRIC
    if wrong:
        raise ValueError(f"it may name {', '.join(sorted(ASYMMETRIC))}")
    return names


class TokenSettings(EnvironmentSettings, frozen=True):
    """Settings of the issuer whose tokens are accepted, and of logins to the page there."""

    prefix = "COMMONBRAIN_"
    hidden = frozenset({"jwt_audience", "jwt_issuer", "jwt_jwks_url", "oidc_client_secret"})

    jwt_issuer: Url = Field(default=None, description="Accepted token issuer; unset: no tokens.")
    jwt_audience: Url = Field(
        default=None, description="Audience that tokens must name: this server."
    )
    jwt_jwks_url: Annotated[str | None, AfterValidator(safe_url)] = Field(
        default=None,
        max_length=2000,
        description="URL of the issuer's keys: https, or http on this machine.",
    )
    jwt_algorithms: Annotated[str, AfterValidator(asymmetric)] = Field(
        default="RS256,ES256,EdDSA",
        max_length=200,
        description="Accepted signature algorithms, separated by commas; asymmetric only.",
    )
    jwt_tenant_claim: str = Field(
        default="tenant",
        min_length=1,
        max_length=200,
        description="Claim that holds the tenant.",
    )
    jwt_agent_claim: str = Field(
        default="sub", min_length=1, max_length=200, description="Claim that holds the agent."
    )
    jwt_role_claim: str | None = Field(
        default="role",
        max_length=200,
        description="Claim that holds reader, writer or admin; default: the agent's own role.",
    )
    jwt_leeway_s: float = Field(
        default=30, ge=0, le=300, description="Tolerated clock difference, in seconds."
    )
    jwt_timeout_s: float = Field(
        default=5, gt=0, le=60, description="Timeout of one request to the issuer, in seconds."
    )
    oidc_client_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=500,
        description="Client of the web page at the token issuer; unset: no login there.",
    )
    oidc_client_secret: Key = Field(
        default=None,
        description="Secret of that client; unset for a public client; never shown.",
    )
    oidc_scopes: str = Field(
        default="openid",
        max_length=500,
        pattern=r"^([!#-\[\]-~]+ )*openid( [!#-\[\]-~]+)*$",
        description="Scopes that a login requests, separated by spaces: openid, and those whose "
        "claims name the tenant, the agent and the role.",
    )


ANY_ADDRESS: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 compared with, not listened on
"""Hosts that mean all addresses of a machine, which nobody calls."""


class ServerSettings(EnvironmentSettings, frozen=True):
    """Settings of the shared server, which its worker processes read too."""

    prefix = "COMMONBRAIN_SERVE_"
    hidden = frozenset({"url"})

    host: str = Field(default="127.0.0.1", max_length=253, description="Address to listen on.")
    port: int = Field(default=8377, ge=1, le=65_535, description="Port to listen on.")
    workers: int = Field(default=1, ge=1, le=64, description="Number of server processes.")
    open: bool = Field(
        default=False,
        description="Accept every call from this machine as its user, without a credential.",
    )
    url: str | None = Field(
        default=None,
        max_length=2000,
        pattern=r"^https?://[^/\s]+(/[^\s]*[^/\s])?$",
        description="Public URL, under which others reach the server; its host is accepted.",
    )
    allow_hosts: list[str] = Field(
        default=[],
        max_length=100,
        description="Further accepted host names, as a JSON list.",
    )
    proxies: list[IPvAnyNetwork] = Field(
        default=[],
        max_length=100,
        description="Addresses or networks of proxies whose X-Forwarded-For is trusted, as a JSON "
        "list.",
    )
    body_bytes_max: int = Field(
        default=1024 * 1024,
        ge=1024,
        le=64 * 1024 * 1024,
        description="Maximum size of a request, in bytes.",
    )
    request_s: float = Field(
        default=30, gt=0, le=600, description="Timeout of a call, including its wait, in seconds."
    )
    calls_at_once: int = Field(
        default=16,
        ge=1,
        le=256,
        description="Concurrent calls of one process; others wait, for a third of "
        "`request_s` at most. One caller has at most a "
        "quarter of them, or two.",
    )
    connections_max: int = Field(
        default=1000,
        ge=1,
        le=100_000,
        description="Maximum connections of one process; further ones are refused. One address has "
        "at most a quarter of them, unless it is a proxy that `proxies` names.",
    )
    page_idle_minutes: int = Field(
        default=30, ge=5, le=1440, description="Minutes without use that end a login to the page."
    )
    page_session_hours: int = Field(
        default=12, ge=1, le=168, description="Hours after which a login to the page ends."
    )
    drain_s: int = Field(
        default=30,
        ge=0,
        le=600,
        description="Seconds that running calls have to finish at shutdown.",
    )

    @property
    def public_url(self) -> str:
        """The server's URL for its callers, without a trailing slash."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.url or f"http://{host}:{self.port}"

    @property
    def has_no_name(self) -> bool:
        """Whether it listens on all addresses, and no name is set by which others call it."""
        return self.host in ANY_ADDRESS and not (self.url or self.allow_hosts)


def load_token_settings() -> TokenSettings:
    """Load the settings of tokens and logins.

    Raises:
        InvalidInputError: A setting is invalid.

    """
    return load(TokenSettings)


def load_server_settings(**overrides: Any) -> ServerSettings:  # noqa: ANN401 settings of any type
    """Load the settings of the server; arguments take precedence.

    Raises:
        InvalidInputError: A setting is invalid.

    """
    return load(ServerSettings, **overrides)
