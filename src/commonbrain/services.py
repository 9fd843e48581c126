"""The services of one open store, as `runtime` builds them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from threading import RLock
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from commonbrain.model import limits
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.limits import BriefingLimits, ImportLimits
from commonbrain.model.model_card import ModelCard, ModelRole
from commonbrain.model.parameters import DEFAULTS, Parameters
from commonbrain.model.sessions import IDLE_AFTER, SILENCE_MAX
from commonbrain.model.values import dataclass, field, replace
from commonbrain.observability.hook_runs import HookRuns
from commonbrain.observability.interface import SILENT
from commonbrain.threads import DetachedExecutor

if TYPE_CHECKING:
    from pathlib import Path

    from commonbrain.clock import Clock, Deadline, RandomSource
    from commonbrain.coordination.processes import Processes
    from commonbrain.embeddings.interface import Embedder, EmbeddingSpace, Extractor, Reflector
    from commonbrain.ingestion.preparation import PreparedDraft
    from commonbrain.model.jobs import Queue
    from commonbrain.model.query import RecallTrace
    from commonbrain.model.scope import Caller
    from commonbrain.observability.health import Dependency
    from commonbrain.observability.interface import Telemetry
    from commonbrain.observability.tool_events import EarlyEventFile
    from commonbrain.retrieval.plan import QueryPlan
    from commonbrain.retrieval.table import Table
    from commonbrain.retrieval.write_behind import WriteBehindQueue
    from commonbrain.security.guard import Guard
    from commonbrain.security.secrets import SecretScanner
    from commonbrain.storage.blobs import Blobs
    from commonbrain.storage.store import Store
    from commonbrain.storage.uploads import UploadStore
    from commonbrain.transfer.importer import Importer

_LOG: Final = logging.getLogger(__name__)
ReplyT = TypeVar("ReplyT")


_SPEAKERS_MAX: Final = 10_000
"""Names of speakers that are known at a time; past it, they are learnt again."""


class KnownSpeakers:
    """Names of speakers of each tenant that recalls have met; safe to use from several threads.

    A recall plans with them, and looks into the store, in the transaction that it reads anyway,
    whether they still are all that its query names.
    """

    def __init__(self) -> None:
        self._known: set[tuple[str, str]] = set()

    def among(self, tenant: str, names: Iterable[str]) -> frozenset[str]:
        """Return the names that are known."""
        return frozenset(name for name in names if (tenant, name) in self._known)

    def learn(self, tenant: str, speakers: Iterable[str], *, among: Iterable[str]) -> None:
        """Note which of some names are those of speakers, and that the others are not."""
        known = self._known.difference((tenant, name) for name in among)
        self._known = {
            *(known if len(known) < _SPEAKERS_MAX else ()),
            *((tenant, name) for name in speakers),
        }


SERVING_CACHE_MS: Final = 2000.0
"""Cache lifetime of the serving models: every process sees a change within it."""
EMPTY_CACHE_MS: Final = 10_000.0
"""The same without a model in service.

There is nothing to roll back, and a first model may wait.
"""
_TENANTS_MAX: Final = 10_000
"""Tenants in the cache; past it the cache is cleared."""


class Reranker(Protocol):
    """Orders the best candidates by reading each with the query; used from several threads.

    If it fails, the order stays, and `degraded` says so.
    """

    @property
    def name(self) -> str:
        """Its name, shown to all callers."""
        ...

    def reranker(self, plan: QueryPlan, *, deadline: Deadline) -> Callable[[Table], None]:
        """Load the model if need be, and return what orders candidates by it."""
        ...

    def check(self) -> None:
        """Load the model, and score one pair.

        Raises:
            CommonbrainError: It does not work.

        """
        ...

    def close(self) -> None:
        """Release the model without waiting."""
        ...


class ModelRunner(Protocol):
    """Runs the models of a store; the extra `learn` brings it. Safe to use from several threads.

    A model that fails or is slow never fails a call: fixed weights and rules answer, and say so.
    """

    def reranker(
        self, cards: Sequence[ModelCard], plan: QueryPlan, *, deadline: Deadline
    ) -> Callable[[Table], None] | None:
        """Load the model that serves a caller, and return what orders candidates by it."""
        ...

    def rate(
        self, cards: Sequence[ModelCard], drafts: Sequence[PreparedDraft], *, caller: Caller
    ) -> Sequence[PreparedDraft]:
        """Return drafts with the salience that the active model predicts."""
        ...

    def on_traces_written(self, tenant: str, traces: Sequence[RecallTrace]) -> None:
        """Judge the models by the traces of recalls that they ranked, after these were stored."""
        ...

    def close(self) -> None:
        """Release all models without waiting."""
        ...


class TrainedModels:
    """Knows which models serve which callers; safe to use from several threads."""

    def __init__(
        self,
        make_runner: Callable[[], ModelRunner],
        *,
        store: Store,
        clock: Clock,
        artifacts: Path | None = None,
    ) -> None:
        """Create it; nothing is read or loaded yet.

        Args:
            make_runner: loads the package; raises `extra_missing` without it.
            store: the store with the cards.
            clock: ages what is cached.
            artifacts: the folder of artifacts, which training makes: without it no model serves.
                None if they are in a bucket.

        """
        self._make_runner = make_runner
        self._store = store
        self._clock = clock
        self._artifacts = artifacts
        self._known: dict[str, tuple[float, Sequence[ModelCard]]] = {}
        self._runner: ModelRunner | None = None
        self.missing: InvalidInputError | None = None
        """Why no model is run, though one serves."""

    def serving(self, tenant: str, role: ModelRole) -> Sequence[ModelCard]:
        """Return the models of a role that serve a tenant, cached for some seconds."""
        if self._artifacts is not None and not self._artifacts.exists():
            return ()
        now_ms = self._clock.elapsed_ms()
        known = self._known.get(tenant)
        if known is None or now_ms >= known[0]:
            cards = self._store.read(tenant, lambda tx: tx.models.serving())
            known = (now_ms + (SERVING_CACHE_MS if cards else EMPTY_CACHE_MS), cards)
            if len(self._known) >= _TENANTS_MAX:
                self._known.clear()
            self._known[tenant] = known
        return [card for card in known[1] if card.role is role]

    def forget(self, tenant: str) -> None:
        """Read the models of a tenant again before their next use, after a transition."""
        self._known.pop(tenant, None)

    def runner(self) -> ModelRunner | None:
        """Return what runs models; None if the package is not installed, which is logged once."""
        if self._runner is None and self.missing is None:
            try:
                self._runner = self._make_runner()
            except InvalidInputError as error:
                self.missing = error
                _LOG.warning("A trained model is in service, but is not used: %s", error)
        return self._runner

    def reranker(self, plan: QueryPlan, *, deadline: Deadline) -> Callable[[Table], None] | None:
        """Return what orders the candidates of a recall; None if no model serves its caller."""
        cards = self.serving(plan.caller.tenant, ModelRole.RERANKER)
        runner = self.runner() if cards else None
        return None if runner is None else runner.reranker(cards, plan, deadline=deadline)

    def rate(self, drafts: Sequence[PreparedDraft], caller: Caller) -> Sequence[PreparedDraft]:
        """Return drafts with the salience that a model predicts; unchanged if none serves."""
        cards = self.serving(caller.tenant, ModelRole.SALIENCE)
        runner = self.runner() if cards else None
        return drafts if runner is None else runner.rate(cards, drafts, caller=caller)

    def on_traces_written(self, tenant: str, traces: Sequence[RecallTrace]) -> None:
        """Let the models be judged that ranked some of these recalls."""
        if any(trace.ranker is not None for trace in traces) and (runner := self.runner()):
            runner.on_traces_written(tenant, traces)

    def close(self) -> None:
        """Release all models without waiting."""
        if self._runner is not None:
            self._runner.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """One open store with its models and clocks, shared by all callers."""

    store: Store
    embedder: Embedder
    extractor: Callable[[], Extractor]
    """Created on demand; it belongs to a package, and only `atomize` asks it."""
    reflector: Reflector
    clock: Clock
    random_source: RandomSource
    journal: WriteBehindQueue
    importers: Callable[[], Mapping[str, Importer]]
    """The readers of foreign formats by name; imported on demand."""
    secret_scanner: SecretScanner
    processes: Processes
    trained: TrainedModels
    """The models that were trained from use, if any serves."""
    blobs: Callable[[], Blobs]
    """Created on demand, because only uploads and trained models use them."""
    uploads: UploadStore
    """Files that wait for a job, stored as blobs."""
    import_limits: ImportLimits = field(default_factory=ImportLimits)
    """The limits of files that clients send."""
    queue: Queue
    """Notifies workers of jobs; the rows in the store are authoritative."""
    owner: str | None = None
    """The agent as which the owner of the store acts without naming one: the login name."""
    guard: Guard | None = None
    """Limits and audits callers, on a server; None for the store of one person."""
    embedders: Callable[[str], Embedder] | None = None
    """Creates the embedder of a space by name, if the store can be moved to another."""
    reranker: Reranker | None = None
    """Orders the best candidates by a model of the user, if one is set."""
    next_space: str | None = None
    """The space that the settings want the store to move to."""
    parameters: Parameters = DEFAULTS
    """The parameters of this process; `parameters_for` adds the policy of a tenant."""
    schedules_reflection: bool = False
    """Whether events are summarized by schedule and at the end of a session."""
    reflector_tokens: int = 0
    """Token limit of one reflection with a language model; the default reflector uses none."""
    session_idle: timedelta = IDLE_AFTER
    """Time without a call after which a session is shown as idle."""
    session_silence_max: timedelta = SILENCE_MAX
    """Time without a call after which a session ends whose process cannot be checked."""
    http_session_idle: timedelta = timedelta(minutes=limits.HTTP_SESSION_IDLE_MINUTES)
    """Time without a call after which a session over HTTP ends."""
    has_embedded_worker: bool = False
    """Whether the server of a single client works on jobs itself."""
    briefing_limits: BriefingLimits = field(default_factory=BriefingLimits)
    """How much a boot shows."""
    telemetry: Telemetry = SILENT
    """Receives metrics and spans."""
    probe: Callable[[], Sequence[Dependency]] = tuple
    """Checks all dependencies at once, within five seconds; never raises."""
    started_at: datetime | None = None
    """When this process opened the store, if recorded."""
    early: EarlyEventFile | None = None
    """Tool events from before their session was known."""
    hook_runs: HookRuns = field(default_factory=HookRuns)
    """When hooks ran on this machine."""
    speakers: KnownSpeakers = field(default_factory=KnownSpeakers)
    """Who has sent messages, as far as recalls know."""
    unembedded: dict[str, bool] = field(default_factory=dict[str, bool])
    """Tenants with memories that this process stored without vectors; they may be pending still.

    A dictionary, because `pop` gives a tenant to one thread only.
    """
    queued_embedder: Callable[[Caller, bool], Embedder] | None = None
    """Makes the embedder of a caller, or of a job, who take turns at a local model on a server."""
    embed_later: Callable[[Caller], None] | None = None
    """Starts to embed what a tenant stored without vectors, on a shared server."""
    is_background: bool = False
    """Whether these are the services of a job, whose result nobody waits for."""
    close_lock: RLock = field(default_factory=RLock)
    """Held while they are being closed, so that the store is closed after all writes."""
    embedding_executor: DetachedExecutor = field(
        default_factory=lambda: DetachedExecutor(limits.EMBEDDINGS_AT_ONCE_MAX, name="embedder")
    )
    """Runs embedders that may take longer than a reader can wait."""

    def in_background(self) -> Services:
        """Return the services for a job, which embeds everything at once."""
        return replace(self, embed_later=None, is_background=True)

    def start_embedding(self, caller: Caller) -> None:
        """Start to embed what a tenant stored without vectors, if this is a shared server."""
        if self.embed_later is not None:
            self.embed_later(caller)

    def embedder_for(self, caller: Caller) -> Embedder:
        """Return the embedder for stored texts of a caller, which take turns on a server."""
        if self.queued_embedder is None:
            return self.embedder
        return self.queued_embedder(caller, self.is_background)

    def audited(self, caller: Caller, *, action: str, read: Callable[[], ReplyT]) -> ReplyT:
        """Run a call that is none of `Brain`, which is audited on a server."""
        return read() if self.guard is None else self.guard.audit(caller, action=action, read=read)

    def clean_text(self, text: str, *, what: str, caller: Caller) -> str:
        """Return the text of a caller as it may be stored; `what` names it in errors.

        Raises:
            InvalidInputError: it is longer than any stored text.
            RejectedError: `secret_detected`, and the secret cannot or must not be redacted.
            UnavailableError: the store did not answer.

        """
        on_secret = self.parameters_for(caller).secrets
        return self.secret_scanner.clean(text, what=what, on_secret=on_secret)

    def parameters_for(self, caller: Caller) -> Parameters:
        """Return the parameters in force: the settings, on a server with the tenant's policy.

        Raises:
            UnavailableError: the store did not answer.

        """
        if self.guard is None:
            return self.parameters
        return self.parameters.under(self.guard.policy(caller).parameters)

    def space_for(self, caller: Caller) -> EmbeddingSpace:
        """Return the embedding space with the thresholds in force for a caller.

        Raises:
            UnavailableError: the store did not answer.

        """
        return self.store.space.under(self.parameters_for(caller))


@dataclass(frozen=True, slots=True)
class Capability:
    """What one caller can do with the services of an open store; a property of `Brain`."""

    services: Services
    caller: Caller
