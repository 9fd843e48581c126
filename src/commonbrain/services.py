"""The services of one open store, as `runtime` builds them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from threading import Lock, RLock
from typing import TYPE_CHECKING, Final

from commonbrain.executors import DetachedExecutor
from commonbrain.model.briefing_limits import BriefingLimits
from commonbrain.model.import_limits import ImportLimits
from commonbrain.model.limits import EMBEDDINGS_AT_ONCE_MAX, HTTP_SESSION_IDLE_MINUTES
from commonbrain.model.parameters import DEFAULTS, Parameters
from commonbrain.model.sessions import IDLE_AFTER, SILENCE_MAX
from commonbrain.model.values import dataclass, field, replace
from commonbrain.observability.hook_runs import HookRuns
from commonbrain.observability.interface import SILENT

if TYPE_CHECKING:
    from commonbrain.clock import Clock, RandomSource
    from commonbrain.coordination.processes import Processes
    from commonbrain.embeddings.interface import Embedder, EmbeddingSpace, Extractor, Reflector
    from commonbrain.model.scope import Caller
    from commonbrain.observability.health import Dependency
    from commonbrain.observability.interface import Telemetry
    from commonbrain.observability.tool_events import EarlyEventFile
    from commonbrain.retrieval.cross_encoding import CrossEncoding
    from commonbrain.retrieval.write_behind import WriteBehindQueue
    from commonbrain.security.guard import Guard
    from commonbrain.security.secrets import SecretScanner
    from commonbrain.storage.blobs import Blobs
    from commonbrain.storage.job_queue import Queue
    from commonbrain.storage.store import Store
    from commonbrain.storage.uploads import UploadStore
    from commonbrain.trained_models import TrainedModels
    from commonbrain.transfer.importer import Importer


class TenantSet:
    """Names of tenants; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._names: set[str] = set()

    def __contains__(self, tenant: str) -> bool:
        """Return whether a tenant is in it."""
        with self._lock:
            return tenant in self._names

    def add(self, tenant: str) -> None:
        """Add a tenant, once."""
        with self._lock:
            self._names.add(tenant)

    def remove(self, tenant: str) -> bool:
        """Remove a tenant; return whether it was there, which is true for one thread only."""
        with self._lock:
            is_there = tenant in self._names
            self._names.discard(tenant)
            return is_there


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """One open store with its models and clocks, shared by all callers."""

    store: Store
    embedder: Embedder
    extractor: Extractor
    reflector: Reflector
    clock: Clock
    random_source: RandomSource
    journal: WriteBehindQueue
    importers: Callable[[], Mapping[str, Importer]]
    """The readers of foreign formats by name; imported on demand."""
    screen: SecretScanner
    processes: Processes
    trained: TrainedModels
    """The models that were trained from use, if any serves."""
    blobs: Callable[[], Blobs]
    """Created on demand, because only uploads and trained models use them."""
    staging: UploadStore
    """Files that wait for a job, stored as blobs."""
    import_limits: ImportLimits = field(default_factory=ImportLimits)
    """The limits of files that clients send."""
    queue: Queue
    """Notifies workers of jobs; the rows in the store are authoritative."""
    guard: Guard | None = None
    """Limits and audits callers, on a server; None for the store of one person."""
    embedders: Callable[[str], Embedder] | None = None
    """Creates the embedder of a space by name, if the store can be moved to another."""
    cross_encoding: CrossEncoding | None = None
    """Orders the best candidates by a cross-encoder, if one is set."""
    next_space: str | None = None
    """The space that the settings want the store to move to."""
    parameters: Parameters = DEFAULTS
    """The parameters of this process; `parameters_for` adds the policy of a tenant."""
    reflector_tokens: int = 0
    """Token limit of one reflection with a language model; the default reflector uses none."""
    session_idle: timedelta = IDLE_AFTER
    """Time without a call after which a session is shown as idle."""
    session_silence_max: timedelta = SILENCE_MAX
    """Time without a call after which a session ends whose process cannot be checked."""
    http_session_idle: timedelta = timedelta(minutes=HTTP_SESSION_IDLE_MINUTES)
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
    unembedded: TenantSet = field(default_factory=TenantSet)
    """Tenants with memories that this process stored without vectors; they may be pending still."""
    queued_embedder: Callable[[Caller, bool], Embedder] | None = None
    """Makes the embedder of a caller, or of a job, who take turns at a local model on a server."""
    embed_later: Callable[[Caller], None] | None = None
    """Starts to embed what a tenant stored without vectors, on a shared server."""
    is_background: bool = False
    """Whether these are the services of a job, whose result nobody waits for."""
    close_lock: RLock = field(default_factory=RLock)
    """Held while they are being closed, so that the store is closed after all writes."""
    embedding_executor: DetachedExecutor = field(
        default_factory=lambda: DetachedExecutor(EMBEDDINGS_AT_ONCE_MAX, name="embedder")
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
