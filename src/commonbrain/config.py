"""Every setting once: its name, unit, default, bounds and environment variable."""

from pathlib import Path
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from platformdirs import user_data_path, user_state_path
from pydantic import AfterValidator, BeforeValidator, Field, IPvAnyNetwork, SecretStr
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from commonbrain.model.limits import (
    HOOK_PROMPT_TIMEOUT_S,
    HOOK_PROMPT_TOKENS,
    HOOK_START_TIMEOUT_S,
    HOOK_WRITE_TIMEOUT_S,
    KEY_CALLS_PER_MINUTE,
    LOCK_TIMEOUT_S,
    TENANT_CALLS_PER_MINUTE,
)
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.text.locations import is_url

ASYMMETRIC: Final = frozenset(
    "RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 ES256K EdDSA".split()
)
"""Signatures by a key pair, as RFC 7518 and RFC 8037 name them."""


def _default_store() -> Path:
    return user_data_path("commonbrain", appauthor=False) / "brain.db"


def _default_state() -> Path:
    return user_state_path("commonbrain", appauthor=False)


def _safe_key(key: SecretStr | None) -> SecretStr | None:
    """Take off the line end that a key read from a file brings along."""
    if key is None:
        return None
    stripped = key.get_secret_value().strip()
    if not (stripped.isascii() and stripped.isprintable()):
        raise ValueError("no key has spaces within, control characters or accents")
    return SecretStr(stripped)


Key = Annotated[SecretStr | None, AfterValidator(_safe_key)]
StoreLocation = Path | SecretStr
"""Where memories live: a file, or the URL of a Postgres, which may hold a password."""


def parse_store(value: object) -> object:
    """Take what names a store for a URL or for a file."""
    if isinstance(value, str):
        return SecretStr(value) if is_url(value) else Path(value)
    return value


def parse_urls(value: object) -> object:
    """Take one text for several URLs, none of which has a space in it."""
    if not isinstance(value, str):
        return value
    urls = value.split()
    if not all(is_url(one) for one in urls):
        raise ValueError("each is postgresql://ROLE:PASSWORD@HOST/DATABASE")
    return tuple(SecretStr(one) for one in urls)


def _safe_url(url: str | None) -> str | None:
    """Take no address that others on the way could answer for."""
    parts = urlsplit(url or "")
    is_here = parts.scheme == "http" and parts.hostname in {"localhost", "127.0.0.1", "::1"}
    if url is not None and not ((parts.scheme == "https" and parts.hostname) or is_here):
        raise ValueError("it must be https, or http on this machine")
    return url


def _valid_blobs_location(location: str | None) -> str | None:
    """Take a folder, or a bucket without a secret in its name."""
    parts = urlsplit(location or "")
    is_bucket = parts.scheme == "s3" and parts.netloc and "@" not in parts.netloc
    if location is not None and "://" in location and not is_bucket:
        raise ValueError("it is a folder, or s3://BUCKET/PREFIX")
    return location


def _asymmetric(names: str) -> str:
    """Take signatures that only the issuer can make."""
    wrong = {one.strip() for one in names.split(",")} - ASYMMETRIC
    if wrong:
        raise ValueError(f"it may name {', '.join(sorted(ASYMMETRIC))}")
    return names


Cosine = Annotated[float, Field(gt=-1, lt=1)]
Url = Annotated[str | None, Field(max_length=2000)]
Model = Annotated[str | None, Field(min_length=1, max_length=100)]
_OF_MODEL: Final = "Which of an endpoint's models."
_OF_URL: Final = "The base of the endpoint's API, without name and password."
_OF_RETRIES: Final = "Further attempts after a failure that may pass."
_OF_KEY: Final = "The key for the endpoint; it is never shown."


class Settings(BaseSettings):
    """Read once at start; an argument beats the environment, the environment the default."""

    model_config = SettingsConfigDict(env_prefix="COMMONBRAIN_", frozen=True, extra="ignore")

    store: Annotated[StoreLocation, BeforeValidator(parse_store)] = Field(
        default_factory=_default_store,
        description="Where memories live: a file, or postgresql://ROLE:PASSWORD@HOST/DATABASE.",
    )
    store_replicas: Annotated[
        tuple[SecretStr, ...], NoDecode, BeforeValidator(parse_urls), Field(max_length=16)
    ] = Field(
        default=(),
        description="Streaming replicas of a store in Postgres that recalls are answered from "
        "while they keep up: URLs like that of the store, with spaces between them.",
    )
    state: Path = Field(
        default_factory=_default_state,
        description="The folder of logs, and of what was called before its session was known.",
    )
    agent: str | None = Field(
        default=None,
        max_length=128,
        description="Who acts; doors have their own default.",
    )
    session: str | None = Field(default=None, max_length=128, description="Which session acts.")
    project: str | None = Field(
        default=None,
        max_length=128,
        description="Where new memories belong unless they say.",
    )
    tenant: str = Field(
        default=LOCAL_TENANT,
        max_length=63,
        description="Whose memories local doors show; networked ones go by the credential.",
    )
    redis_url: Key = Field(
        default=None,
        description="A Redis, as redis://HOST:6379/0: there several servers count rates together, "
        "and workers are told of jobs, which else they look for in the store.",
    )
    key_calls_per_minute: int = Field(
        default=KEY_CALLS_PER_MINUTE,
        ge=1,
        le=1_000_000,
        description="Calls of one credential, where the tenant's policy says nothing.",
    )
    tenant_calls_per_minute: int = Field(
        default=TENANT_CALLS_PER_MINUTE,
        ge=1,
        le=1_000_000,
        description="Calls of a whole tenant, where its policy says nothing.",
    )
    mcp_profile: Literal["lite", "core", "operator"] = Field(
        default="core",
        description="Which tools MCP shows: lite (five), core, operator (also admin).",
    )
    jwt_issuer: Url = Field(default=None, description="Whose tokens are taken; unset: none are.")
    jwt_audience: Url = Field(default=None, description="Whom a token is made for: this server.")
    jwt_jwks_url: Annotated[str | None, AfterValidator(_safe_url)] = Field(
        default=None,
        max_length=2000,
        description="Where the issuer's keys are: https, or http on this machine.",
    )
    jwt_algorithms: Annotated[str, AfterValidator(_asymmetric)] = Field(
        default="RS256,ES256,EdDSA",
        max_length=200,
        description="Signatures that are taken, by commas; none and shared secrets never are.",
    )
    jwt_tenant_claim: str = Field(
        default="tenant",
        min_length=1,
        max_length=200,
        description="The claim that says the tenant.",
    )
    jwt_agent_claim: str = Field(
        default="sub", min_length=1, max_length=200, description="The claim that says the agent."
    )
    jwt_role_claim: str | None = Field(
        default="role",
        max_length=200,
        description="The claim that says reader, writer or admin; without it the agent's own.",
    )
    jwt_leeway_s: float = Field(
        default=30, ge=0, le=300, description="Seconds by which clocks may disagree."
    )
    jwt_timeout_s: float = Field(
        default=5, gt=0, le=60, description="Seconds that the issuer may take to give its keys."
    )
    embedder: str = Field(
        default="minilm",
        description="Which embedding model to use: minilm (in this process), ollama, or openai.",
    )
    embedder_model: Model = Field(default=None, description=_OF_MODEL)
    embedder_url: Url = Field(default=None, description=_OF_URL)
    embedder_api_key: Key = Field(default=None, description=_OF_KEY)
    embedder_dimensions: int | None = Field(
        default=None,
        ge=2,
        le=16_384,
        description="How many numbers a vector has, where the model's name does not tell.",
    )
    embedder_timeout_s: float = Field(
        default=20, gt=0, le=600, description="Seconds an endpoint may take for one request."
    )
    embedder_retries: int = Field(default=2, ge=0, le=10, description=_OF_RETRIES)
    embedder_next: str | None = Field(
        default=None, description="The space to move the store to, as ollama/MODEL/DIMENSIONS."
    )
    embedder_next_url: Url = Field(default=None, description="Base of its endpoint's API.")
    embedder_next_api_key: Key = Field(default=None, description="The key; it is never shown.")
    extractor: str = Field(
        default="patterns",
        description="What finds causes for atomize: patterns (no model), ollama or openai.",
    )
    extractor_model: Model = Field(default=None, description=_OF_MODEL)
    extractor_url: Url = Field(default=None, description=_OF_URL)
    extractor_api_key: Key = Field(default=None, description=_OF_KEY)
    extractor_timeout_s: float = Field(
        default=60, gt=0, le=600, description="Seconds an endpoint may take for one text."
    )
    extractor_retries: int = Field(default=2, ge=0, le=10, description=_OF_RETRIES)
    extractor_tokens_max: int = Field(
        default=1000, ge=50, le=16_000, description="Tokens that one answer may have."
    )
    reflector: str = Field(
        default="extractive",
        description="What sums up for reflect: extractive (no model), ollama or openai.",
    )
    reflector_model: Model = Field(default=None, description=_OF_MODEL)
    reflector_url: Url = Field(default=None, description=_OF_URL)
    reflector_api_key: Key = Field(default=None, description=_OF_KEY)
    reflector_timeout_s: float = Field(
        default=60, gt=0, le=600, description="Seconds an endpoint may take for one episode."
    )
    reflector_retries: int = Field(default=2, ge=0, le=10, description=_OF_RETRIES)
    reflector_tokens_max: int = Field(
        default=1000, ge=50, le=16_000, description="Tokens that one answer may have."
    )
    reflector_run_tokens_max: int = Field(
        default=100_000,
        ge=0,
        le=100_000_000,
        description="Tokens that one reflection may spend, in and out; past it no model is asked.",
    )
    duplicate_threshold: Cosine | None = Field(
        default=None,
        description="Cosine at which two texts say the same; the vector space's own unless set.",
    )
    similar_threshold: Cosine | None = Field(
        default=None, description="Cosine at which a neighbour is worth a hint."
    )
    relevance_threshold: Cosine | None = Field(
        default=None,
        description="Cosine below which a memory without a word in common is no answer.",
    )
    answer_threshold: float | None = Field(
        default=None,
        ge=0,
        le=1.5,
        description="What cosine and shared words of an answer come to; 0 takes all for answers.",
    )
    embedder_threads: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Processor cores to embed texts on; a question takes one.",
    )
    durability: Literal["full", "normal"] = Field(
        default="full",
        description=(
            "full: an acknowledged write is on disk; normal: the last ones may be lost when the "
            "power fails, never when a process dies."
        ),
    )
    secrets: Literal["reject", "redact"] = Field(
        default="reject",
        description="reject: a text that holds a secret is refused; redact: it is stored without.",
    )
    hooks: bool = Field(
        default=True, description="Whether hooks of clients do anything; a folder can say no too."
    )
    capture: Literal["off", "tags", "turns"] = Field(
        default="turns",
        description=(
            "What hooks keep of an agent's last message: nothing; what it marks (@remember, "
            "@decision); turns: also the passages that tell a decision, a cause, a fix, a lesson."
        ),
    )
    hook_start_timeout_s: float = Field(
        default=HOOK_START_TIMEOUT_S,
        gt=0,
        le=60,
        description="Seconds for what a new session is told.",
    )
    hook_prompt_timeout_s: float = Field(
        default=HOOK_PROMPT_TIMEOUT_S,
        gt=0,
        le=60,
        description="Seconds for what is known about a prompt; then the agent goes on without.",
    )
    hook_prompt_tokens: int = Field(
        default=HOOK_PROMPT_TOKENS,
        ge=100,
        le=4000,
        description="Tokens that a hook may put beside a prompt.",
    )
    hook_write_timeout_s: float = Field(
        default=HOOK_WRITE_TIMEOUT_S, gt=0, le=60, description="Seconds for what a hook stores."
    )
    lock_timeout_s: float = Field(
        default=LOCK_TIMEOUT_S,
        gt=0,
        le=600,
        description="Seconds a writer waits for the others.",
    )
    trace_sample_rate: float = Field(
        default=1.0, ge=0, le=1, description="Share of recalls whose traces are kept."
    )
    blobs: Annotated[str | None, AfterValidator(_valid_blobs_location)] = Field(
        default=None,
        max_length=2000,
        description="Where trained models lie: a folder, or s3://BUCKET/PREFIX; unset: beside the "
        "store's file, or in the folder of the state.",
    )
    blobs_key_id: Key = Field(
        default=None, description="Of the key for the bucket; unset: what AWS_ACCESS_KEY_ID says."
    )
    blobs_key: Key = Field(
        default=None, description="The key for the bucket itself; it is never shown."
    )
    log: bool = Field(
        default=True, description="Whether servers write a log into the folder of their state."
    )
    metrics_host: str = Field(
        default="127.0.0.1", max_length=253, description="The address that shows the figures."
    )
    metrics_port: int | None = Field(
        default=None,
        ge=1,
        le=65_535,
        description="The port at which Prometheus finds the metrics of serve and worker.",
    )
    desktop_notifications: bool = Field(
        default=False,
        description="Whether servers tell of errors on the desktop; needs the extra notifications.",
    )
    otlp_endpoint: Url = Field(
        default=None,
        description="Where spans go by OTLP over HTTP; OTEL_EXPORTER_OTLP_ENDPOINT does as well.",
    )
    event_retention_days: int = Field(
        default=30,
        ge=0,
        le=3650,
        description="Days for which it is kept who called what; 0 keeps nothing of it.",
    )
    trace_retention_days: int = Field(
        default=90, ge=1, le=3650, description="Days for which recall traces are kept."
    )


class ServerSettings(BaseSettings):
    """How the shared server listens, and how much it takes on; its workers read the same."""

    model_config = SettingsConfigDict(env_prefix="COMMONBRAIN_SERVE_", frozen=True, extra="ignore")

    host: str = Field(default="127.0.0.1", max_length=253, description="The address to listen at.")
    port: int = Field(default=8377, ge=1, le=65_535, description="The port to listen at.")
    workers: int = Field(default=1, ge=1, le=64, description="Processes that answer.")
    open: bool = Field(
        default=False,
        description="Take every call from this machine for its user's, without a credential.",
    )
    url: str | None = Field(
        default=None,
        max_length=2000,
        pattern=r"^https?://[^/\s]+(/[^\s]*[^/\s])?$",
        description="Under which URL callers know the server, where a proxy stands before it.",
    )
    allow_hosts: list[str] = Field(
        default=[],
        max_length=100,
        description="Further names that requests may be meant for, as a JSON list.",
    )
    proxies: list[IPvAnyNetwork] = Field(
        default=[],
        max_length=100,
        description="Addresses or networks of proxies whose X-Forwarded-For tells who calls, as a "
        "JSON list.",
    )
    body_bytes_max: int = Field(
        default=1024 * 1024, ge=1024, le=64 * 1024 * 1024, description="The largest request."
    )
    request_s: float = Field(
        default=30, gt=0, le=600, description="Seconds that a call may take, its wait counted."
    )
    calls_at_once: int = Field(
        default=16, ge=1, le=256, description="Calls that one process works on; the rest wait."
    )
    connections_max: int = Field(
        default=1000, ge=1, le=100_000, description="Connections of one process; more are refused."
    )
    drain_s: int = Field(
        default=30, ge=0, le=600, description="Seconds that calls under way have when it stops."
    )
