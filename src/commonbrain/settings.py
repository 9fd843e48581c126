"""Every setting once: its name, unit, default, bounds and environment variable."""

from pathlib import Path
from typing import Annotated, Literal

from platformdirs import user_data_path
from pydantic import AfterValidator, BeforeValidator, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from commonbrain.domain.limits import (
    HOOK_KEEP_S,
    HOOK_PROMPT_S,
    HOOK_PROMPT_TOKENS,
    HOOK_START_S,
    LOCK_WAIT_S,
)
from commonbrain.domain.locations import is_url


def _default_store() -> Path:
    return user_data_path("commonbrain", appauthor=False) / "brain.db"


def _safe_key(key: SecretStr | None) -> SecretStr | None:
    """Take off the line end that a key read from a file brings along."""
    if key is None:
        return None
    stripped = key.get_secret_value().strip()
    if not (stripped.isascii() and stripped.isprintable()):
        raise ValueError("no key has spaces within, control characters or accents")
    return SecretStr(stripped)


Store = Path | SecretStr
"""Where memories live: a file, or the URL of a Postgres, which may hold a password."""


def store_at(named: object) -> object:
    """Take what names a store for a URL or for a file."""
    if isinstance(named, str):
        return SecretStr(named) if is_url(named) else Path(named)
    return named


Cosine = Annotated[float, Field(gt=-1, lt=1)]


class Settings(BaseSettings):
    """Read once at start; an argument beats the environment, the environment the default."""

    model_config = SettingsConfigDict(env_prefix="COMMONBRAIN_", frozen=True, extra="ignore")

    store: Annotated[Store, BeforeValidator(store_at)] = Field(
        default_factory=_default_store,
        description="Where memories live: a file, or postgresql://ROLE:PASSWORD@HOST/DATABASE.",
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
    embedder: str = Field(
        default="minilm",
        description="Which embedding model to use: minilm (in this process), ollama, or openai.",
    )
    embedder_model: str | None = Field(
        default=None, min_length=1, max_length=100, description="Which of an endpoint's models."
    )
    embedder_url: str | None = Field(
        default=None,
        max_length=2000,
        description="The base of the endpoint's API, without name and password.",
    )
    embedder_api_key: Annotated[SecretStr | None, AfterValidator(_safe_key)] = Field(
        default=None, description="The key for the endpoint; it is never shown."
    )
    embedder_dimensions: int | None = Field(
        default=None,
        ge=2,
        le=16_384,
        description="How many numbers a vector has, where the model's name does not tell.",
    )
    embedder_timeout_s: float = Field(
        default=20, gt=0, le=600, description="Seconds an endpoint may take for one request."
    )
    embedder_retries: int = Field(
        default=2, ge=0, le=10, description="Further attempts after a failure that may pass."
    )
    extractor: str = Field(
        default="patterns",
        description="What finds causes for atomize: patterns (no model), ollama or openai.",
    )
    extractor_model: str | None = Field(
        default=None, min_length=1, max_length=100, description="Which of an endpoint's models."
    )
    extractor_url: str | None = Field(
        default=None,
        max_length=2000,
        description="The base of the endpoint's API, without name and password.",
    )
    extractor_api_key: Annotated[SecretStr | None, AfterValidator(_safe_key)] = Field(
        default=None, description="The key for the endpoint; it is never shown."
    )
    extractor_timeout_s: float = Field(
        default=60, gt=0, le=600, description="Seconds an endpoint may take for one text."
    )
    extractor_retries: int = Field(
        default=2, ge=0, le=10, description="Further attempts after a failure that may pass."
    )
    extractor_tokens_max: int = Field(
        default=1000, ge=50, le=16_000, description="Tokens that one answer may have."
    )
    duplicate_at: Cosine | None = Field(
        default=None,
        description="Cosine at which two texts say the same; the vector space's own unless set.",
    )
    similar_at: Cosine | None = Field(
        default=None, description="Cosine at which a neighbour is worth a hint."
    )
    relevant_at: Cosine | None = Field(
        default=None,
        description="Cosine below which a memory without a word in common is no answer.",
    )
    answers_at: float | None = Field(
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
    capture: Literal["off", "marks", "turns"] = Field(
        default="turns",
        description=(
            "What hooks keep of an agent's last message: nothing; what it marks (@remember, "
            "@decision); turns: also the passages that tell a decision, a cause, a fix, a lesson."
        ),
    )
    hook_start_s: float = Field(
        default=HOOK_START_S, gt=0, le=60, description="Seconds for what a new session is told."
    )
    hook_prompt_s: float = Field(
        default=HOOK_PROMPT_S,
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
    hook_keep_s: float = Field(
        default=HOOK_KEEP_S, gt=0, le=60, description="Seconds for what a hook stores."
    )
    lock_wait_s: float = Field(
        default=LOCK_WAIT_S,
        gt=0,
        le=600,
        description="Seconds a writer waits for the others.",
    )
    trace_share: float = Field(
        default=1.0, ge=0, le=1, description="Share of recalls whose traces are kept."
    )
    trace_days: int = Field(
        default=90, ge=1, le=3650, description="Days for which recall traces are kept."
    )
