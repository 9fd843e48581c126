"""The settings: name, unit, default, bounds and environment variable; packages have more."""

from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, SecretStr

from commonbrain.folders import default_state, default_store
from commonbrain.model import limits
from commonbrain.model.kinds import Kind
from commonbrain.model.parameters import BOUNDS, DEFAULTS, KIND_DAYS, PARAMETERS, Parameters
from commonbrain.model.scope import LOCAL_TENANT, OnSecret
from commonbrain.setting_types import (
    Key,
    StoreLocation,
    parse_store,
    parse_urls,
    valid_blobs_location,
)


def _cap(section: str) -> int:
    return Field(
        default=limits.BOOT_CAPS[section],
        description=f"Maximum {section.replace('_', ' ')} in a briefing.",
    )


Cap = Annotated[int, Field(ge=0, le=50)]
Cosine = Annotated[float, Field(gt=-1, lt=1)]
Timeout = Annotated[float, Field(gt=0, le=600)]
AnswerTokens = Annotated[int, Field(ge=50, le=16_000)]
HookTimeout = Annotated[float, Field(gt=0, le=60)]
HookTokens = Annotated[int, Field(ge=100, le=4000)]
CallsPerMinute = Annotated[int, Field(ge=1, le=1_000_000)]
Name = Annotated[str | None, Field(max_length=128)]
Url = Annotated[str | None, Field(max_length=2000)]
Model = Annotated[str | None, Field(min_length=1, max_length=100)]
_OF_MODEL: Final = "Name of the endpoint's model."
_OF_URL: Final = "Base URL of the endpoint's API, without user name and password."
_OF_RETRIES: Final = "Retries after a transient failure."
_OF_KEY: Final = "API key of the endpoint; never shown."
KindDays = dict[Kind, Annotated[float, Field(ge=KIND_DAYS.low, le=KIND_DAYS.high)]]


def _parameter(name: str, description: str) -> Any:  # noqa: ANN401 the field of any number
    """Define the setting of a parameter, with the default and bounds of `Parameters`."""
    low, high = BOUNDS[name]
    return Field(default=getattr(DEFAULTS, name), ge=low, le=high, description=description)


def _import_limit(name: str, description: str) -> Any:  # noqa: ANN401 as above
    """Define the setting of a limit of `ImportLimits`."""
    low, high = 1, getattr(limits.LOCAL_IMPORT, name)
    return Field(
        default=getattr(limits.ImportLimits(), name), ge=low, le=high, description=description
    )


class EnvironmentSettings(
    BaseModel, frozen=True, extra="ignore", validate_default=True, defer_build=True
):
    """Settings that are read from variables of one prefix."""

    prefix: ClassVar[str]
    hidden: ClassVar[frozenset[str]] = frozenset()
    """Settings that may hold a secret: errors do not repeat their values."""


class Settings(EnvironmentSettings, frozen=True):
    """Settings, read once at startup; arguments override the environment."""

    prefix = "COMMONBRAIN_"
    hidden = frozenset(
        {
            *("blobs_key", "blobs_key_id"),
            *("embedder_api_key", "embedder_next_api_key", "embedder_next_url", "embedder_url"),
            *("extractor_api_key", "extractor_url", "otlp_endpoint", "redis_url"),
            *("reflector_api_key", "reflector_url", "store", "store_replicas"),
        }
    )

    store: Annotated[StoreLocation, BeforeValidator(parse_store)] = Field(
        default_factory=default_store,
        description="The store: a file, or postgresql://ROLE:PASSWORD@HOST/DATABASE.",
    )
    store_replicas: Annotated[
        tuple[SecretStr, ...], BeforeValidator(parse_urls), Field(max_length=16)
    ] = Field(
        default=(),
        description="Streaming replicas of a Postgres store that answer recalls while they are "
        "up to date: URLs like that of the store, separated by spaces.",
    )
    key_file: Path | None = Field(
        default=None,
        description="File with the key of a sealed store; a new store is sealed with it.",
    )
    state: Path = Field(
        default_factory=default_state,
        description="Folder of logs and of events that precede their session.",
    )
    agent: Name = Field(
        default=None, description="Name of the acting agent; each transport has its own default."
    )
    session: Name = Field(default=None, description="Session of the acting agent.")
    project: Name = Field(default=None, description="Default project of new memories.")
    session_idle_minutes: int = Field(
        default=limits.SESSION_IDLE_MINUTES,
        ge=1,
        le=1440,
        description="Minutes without a call after which a session is shown as idle.",
    )
    session_silent_hours: int = Field(
        default=limits.SESSION_SILENT_HOURS,
        ge=1,
        le=720,
        description="Hours without a call after which a session ends whose process cannot be "
        "checked.",
    )
    http_session_idle_minutes: int = Field(
        default=limits.HTTP_SESSION_IDLE_MINUTES,
        ge=5,
        le=43_200,
        description="Minutes without a call after which a session over HTTP ends, unless its "
        "client named it.",
    )
    tenant: str = Field(
        default=LOCAL_TENANT,
        max_length=63,
        description="Tenant of local transports; networked ones take it from the credential.",
    )
    redis_url: Key = Field(
        default=None,
        description="Redis URL, as redis://HOST:6379/0: servers share rate limits there and "
        "notify workers of jobs; without it workers poll the store.",
    )
    key_calls_per_minute: CallsPerMinute = Field(
        default=limits.KEY_CALLS_PER_MINUTE,
        description="Calls per minute of one credential, unless the tenant's policy sets a limit.",
    )
    tenant_calls_per_minute: CallsPerMinute = Field(
        default=limits.TENANT_CALLS_PER_MINUTE,
        description="Calls per minute of one tenant, unless its policy sets a limit.",
    )
    as_owner: bool = Field(
        default=False,
        description="Whether commands and MCP over stdio act for the owner of the store, as a "
        "person at a terminal does: for scripts, and for agents that may erase and overrule what "
        "people wrote.",
    )
    mcp_profile: Literal["lite", "core", "operator"] = Field(
        default="core",
        description="Tools that MCP offers: lite (five), core, or operator (core and admin).",
    )
    mcp_shared: bool = Field(
        default=True,
        description="Whether `brain mcp` shares the model and caches with others of the same user, "
        "store and settings on this machine, and hooks start a process that they share.",
    )
    embedder: str = Field(
        default="minilm",
        description="Embedding model: minilm, multilingual or onnx:FOLDER (in this process), "
        "ollama, or openai. Unset, it is the store's own, if that is minilm or multilingual; that "
        "of a new store is multilingual where its package is installed.",
    )
    embedder_model: Model = Field(default=None, description=_OF_MODEL)
    embedder_url: Url = Field(default=None, description=_OF_URL)
    embedder_api_key: Key = Field(default=None, description=_OF_KEY)
    embedder_dimensions: int | None = Field(
        default=None,
        ge=2,
        le=16_384,
        description="Dimensions of a vector, if the model's name does not determine them.",
    )
    embedder_timeout_s: Timeout = Field(
        default=20, description="Timeout of one request, in seconds."
    )
    embedder_retries: int = Field(default=2, ge=0, le=10, description=_OF_RETRIES)
    embedder_next: str | None = Field(
        default=None,
        description="Embedding space to migrate the store to, as ollama/MODEL/DIMENSIONS or "
        "onnx:FOLDER.",
    )
    embedder_next_url: Url = Field(
        default=None, description="Base URL of the API of the next embedder."
    )
    embedder_next_api_key: Key = Field(
        default=None, description="API key of the next embedder; never shown."
    )
    reranker: str | None = Field(
        default=None,
        max_length=2000,
        description="Cross-encoder that orders the best candidates of a recall: onnx:FOLDER (in "
        "this process); unset: none.",
    )
    reranker_candidates: int = Field(
        default=20,
        ge=2,
        le=100,
        description="Candidates of a recall that the cross-encoder scores.",
    )
    reranker_timeout_s: float = Field(
        default=1,
        gt=0,
        le=60,
        description="Timeout of the cross-encoder for one recall, in seconds; after it the order "
        "stays as it is.",
    )
    extractor: str = Field(
        default="patterns",
        description="Extractor of causes for atomize: patterns (no model), ollama or openai.",
    )
    extractor_model: Model = Field(default=None, description=_OF_MODEL)
    extractor_url: Url = Field(default=None, description=_OF_URL)
    extractor_api_key: Key = Field(default=None, description=_OF_KEY)
    extractor_timeout_s: Timeout = Field(default=60, description="Timeout of one text, in seconds.")
    extractor_retries: int = Field(default=2, ge=0, le=10, description=_OF_RETRIES)
    extractor_tokens_max: AnswerTokens = Field(
        default=1000, description="Maximum tokens of one answer."
    )
    reflector: str | None = Field(
        default=None,
        description="Summarizer of events by schedule and for reflect: extractive (no model),"
        " ollama or openai; unset: extractive, and only when you ask.",
    )
    reflector_model: Model = Field(default=None, description=_OF_MODEL)
    reflector_url: Url = Field(default=None, description=_OF_URL)
    reflector_api_key: Key = Field(default=None, description=_OF_KEY)
    reflector_timeout_s: Timeout = Field(
        default=60, description="Timeout of one episode, in seconds."
    )
    reflector_retries: int = Field(default=2, ge=0, le=10, description=_OF_RETRIES)
    reflector_tokens_max: AnswerTokens = Field(
        default=1000, description="Maximum tokens of one answer."
    )
    reflector_run_tokens_max: int = Field(
        default=100_000,
        ge=0,
        le=100_000_000,
        description="Token limit of one reflection, in and out; past it no model is called.",
    )
    similar_threshold: Cosine | None = Field(
        default=None,
        description="Cosine from which a similar memory is reported; default: the space's own.",
    )
    relevance_threshold: Cosine | None = Field(
        default=None,
        description="Cosine below which a memory without shared words is not relevant.",
    )
    answer_threshold: float | None = Field(
        default=None,
        ge=0,
        le=1.5,
        description="Minimum sum of cosine and word overlap of an answer; 0 accepts every memory.",
    )
    trust_min: float = _parameter(
        "trust_min", "Trust below which recall skips memories; untrusted web content has 0.35."
    )
    recall_items: int = _parameter("recall_items", "Memories in one result, unless the call says.")
    recall_tokens: int = _parameter("recall_tokens", "Tokens of one result, unless the call says.")
    lexical_candidates: int = _parameter(
        "lexical_candidates", "Candidates that a search by words brings."
    )
    vector_candidates: int = _parameter(
        "vector_candidates", "Candidates that a search by meaning brings."
    )
    skills_max: int = _parameter("skills_max", "Skills above the other results of one recall.")
    half_life_days: KindDays = Field(
        default={},
        description="Days in which the strength of a kind halves, as a JSON object such as "
        '{"fact": 14}; kinds that are not named keep their own.',
    )
    archive_days: KindDays = Field(
        default={},
        description="Days without access after which a kind is archived, as a JSON object such as "
        '{"incident": 180}; kinds that are not named keep their own.',
    )
    dormant_below: float = _parameter(
        "dormant_below", "Strength below which a memory is dormant and ranks last."
    )
    salience_min: float = _parameter(
        "salience_min", "Salience below which a new memory starts archived."
    )
    unsourced_confidence_max: float | None = _parameter(
        "unsourced_confidence_max",
        "Highest confidence of a fact without a source; default: the kind's own, 0.6.",
    )
    given_confidence_max: float | None = _parameter(
        "given_confidence_max",
        "Highest confidence that an author may give a fact without a source; default: no limit.",
    )
    embedder_threads: int | None = Field(
        default=None,
        ge=1,
        le=64,
        description="Processor cores for embedding several texts; one text uses one. Default: all, "
        "at most 8.",
    )
    durability: Literal["full", "normal"] = Field(
        default="full",
        description=(
            "full: an acknowledged write to a file is on disk; normal: the last ones may be lost "
            "when the power fails, never when a process dies. Postgres has synchronous_commit."
        ),
    )
    share_discussions: str = Field(
        default=DEFAULTS.share_discussions,
        max_length=2000,
        description="Projects, separated by commas, whose direct messages the team can recall.",
    )
    secrets: Literal["reject", "redact"] = Field(
        default="reject",
        description="reject: refuse a text that holds a secret; redact: store it without.",
    )
    hooks: bool = Field(
        default=True, description="Whether client hooks are active; a folder can disable them too."
    )
    capture: Annotated[
        Literal["off", "propose", "auto"],
        BeforeValidator(lambda given: {"tags": "propose", "turns": "auto"}.get(given, given)),
    ] = Field(
        default="auto",
        description=(
            "What hooks store. off: nothing; propose: passages of an agent tagged @remember or "
            "@decision, and proposals of what the user says; auto: also an agent's decisions, "
            "causes, fixes and lessons, and at once what the user surely said."
        ),
    )
    hook_start_timeout_s: HookTimeout = Field(
        default=limits.HOOK_START_TIMEOUT_S,
        description="Timeout of the briefing of a new session, in seconds.",
    )
    hook_prompt_timeout_s: HookTimeout = Field(
        default=limits.HOOK_PROMPT_TIMEOUT_S,
        description="Timeout of the recall for a prompt, in seconds.",
    )
    hook_prompt_tokens: HookTokens = Field(
        default=limits.HOOK_PROMPT_TOKENS,
        description="Maximum tokens that a hook adds to a prompt.",
    )
    hook_edit_timeout_s: HookTimeout = Field(
        default=limits.HOOK_EDIT_TIMEOUT_S,
        description="Timeout of the recall for an edit or a command, in seconds.",
    )
    hook_edit_tokens: HookTokens = Field(
        default=limits.HOOK_EDIT_TOKENS,
        description="Maximum tokens that a hook adds to an edit or a command.",
    )
    hook_write_timeout_s: HookTimeout = Field(
        default=limits.HOOK_WRITE_TIMEOUT_S, description="Timeout of a write by a hook, in seconds."
    )
    lock_timeout_s: Timeout = Field(
        default=limits.LOCK_TIMEOUT_S, description="Seconds that a writer waits for other writers."
    )
    trace_sample_rate: float = Field(
        default=1.0, ge=0, le=1, description="Share of recalls whose traces are stored."
    )
    blobs: Annotated[str | None, AfterValidator(valid_blobs_location)] = Field(
        default=None,
        max_length=2000,
        description="Location of trained models: a folder, or s3://BUCKET/PREFIX; unset: next to "
        "the store's file, or in the state folder for a Postgres store.",
    )
    blobs_key_id: Key = Field(
        default=None, description="Access key id of the bucket; unset: AWS_ACCESS_KEY_ID."
    )
    blobs_key: Key = Field(
        default=None, description="Secret access key of the bucket; never shown."
    )
    import_unpacked_bytes_max: int = _import_limit(
        "unpacked_bytes_max", "Bytes to which a zip that a client sends may unpack."
    )
    import_files_max: int = _import_limit(
        "files_max", "Maximum files and folders in a zip that a client sends."
    )
    import_pieces_max: int = _import_limit(
        "pieces_max", "Pieces, as messages, that the import of a file from a client reads at most."
    )
    log: bool = Field(default=True, description="Whether servers write a log to the state folder.")
    metrics_host: str = Field(
        default="127.0.0.1", max_length=253, description="Address that serves the metrics."
    )
    metrics_port: int | None = Field(
        default=None,
        ge=1,
        le=65_535,
        description="Port that serves the Prometheus metrics of serve and worker.",
    )
    desktop_notifications: bool = Field(
        default=False,
        description="Whether servers show errors on the desktop; requires the extra notifications.",
    )
    otlp_endpoint: Url = Field(
        default=None,
        description="OTLP endpoint for spans, over HTTP; OTEL_EXPORTER_OTLP_ENDPOINT works too.",
    )
    event_retention_days: int = Field(
        default=limits.EVENT_RETENTION_DAYS_DEFAULT,
        ge=0,
        le=3650,
        description="Days for which tool events are kept; 0 stores none.",
    )
    trace_retention_days: int = Field(
        default=limits.TRACE_RETENTION_DAYS_DEFAULT,
        ge=1,
        le=3650,
        description="Days for which recall traces are kept.",
    )
    boot_tokens: int = Field(
        default=limits.BOOT_TOKENS, ge=1500, le=16_000, description="Maximum tokens of a briefing."
    )
    boot_blockers: Cap = _cap("blockers")
    boot_skills: Cap = _cap("skills")
    boot_notes: Cap = _cap("notes")
    boot_action_items: Cap = _cap("action_items")
    boot_unconfirmed: Cap = _cap("unconfirmed")
    boot_urgent: Cap = _cap("urgent")
    boot_siblings: Cap = _cap("siblings")
    boot_pinned: Cap = Field(
        default=limits.BOOT_CAPS["pinned"], description="Maximum pinned memories in a briefing."
    )
    boot_patterns: Cap = _cap("patterns")
    boot_tasks: Cap = _cap("tasks")
    boot_changes: Cap = _cap("changes")
    boot_handoff_chars: int = Field(
        default=limits.HANDOFF_CHARS_MAX,
        ge=0,
        le=limits.HANDOFF_CHARS_MAX,
        description="Maximum characters of the handoff in a briefing.",
    )
    boot_note_chars: int = Field(
        default=limits.BOOT_NOTE_CHARS,
        ge=20,
        le=2000,
        description="Maximum characters of a pinned note in a briefing.",
    )

    @property
    def parameters(self) -> Parameters:
        """The parameters of recall, decay and writing; a tenant's policy may change some.

        Raises:
            InvalidInputError: a kind that never fades has a half-life.

        """
        values: dict[str, Any] = {name: getattr(self, name) for name in PARAMETERS}
        values["secrets"] = OnSecret(self.secrets)
        return Parameters(**values)
