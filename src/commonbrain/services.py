"""What every flow stands on: the ports, filled by wiring."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from threading import Event
from typing import TYPE_CHECKING

from commonbrain.executors import DetachedExecutor
from commonbrain.model.limits import EMBEDDINGS_AT_ONCE_MAX
from commonbrain.observability.health import no_probes
from commonbrain.observability.interface import SILENT
from commonbrain.observability.tool_events import NoEarlyEvents
from commonbrain.text.redaction import OnSecret

if TYPE_CHECKING:
    from commonbrain.clock import Clock, RandomSource
    from commonbrain.coordination.processes import Processes
    from commonbrain.embeddings.interface import Embedder, Extractor, Reflector
    from commonbrain.ingestion.salience import SalienceModels
    from commonbrain.learning.interface import SalienceTrainer, Trainer
    from commonbrain.learning.monitor import CanaryMonitor
    from commonbrain.learning.serving import RerankerRegistry
    from commonbrain.observability.health import Probe
    from commonbrain.observability.interface import Telemetry
    from commonbrain.observability.tool_events import EarlyEvents
    from commonbrain.retrieval.write_behind import WriteBehindQueue
    from commonbrain.security.quotas import Quotas
    from commonbrain.security.secrets import SecretScanner
    from commonbrain.storage.administration import AccessDenials, PasswordHasher
    from commonbrain.storage.blobs import Blobs
    from commonbrain.storage.interface import Store
    from commonbrain.storage.job_queue import Queue
    from commonbrain.storage.uploads import UploadStore
    from commonbrain.transfer.interface import Archive, Importer


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """One open store with the models and clocks that serve it; shared by all its callers."""

    store: Store
    embedder: Embedder
    extractor: Extractor
    reflector: Reflector
    clock: Clock
    random_source: RandomSource
    journal: WriteBehindQueue
    importers: Mapping[str, Importer]
    screen: SecretScanner
    archive: Archive
    processes: Processes
    quotas: Quotas
    refusals: AccessDenials
    rerankers: RerankerRegistry
    """The models that order what recalls find."""
    guards: CanaryMonitor
    """Who judges them by what came of it."""
    password_hasher: Callable[[], PasswordHasher]
    """Made when they are needed: what a local door never asks for need not be installed."""
    trainer: Callable[[], Trainer]
    """The same: what learns loads what it takes when it is asked."""
    blobs: Callable[[], Blobs]
    """Made when they are needed: only who trains or serves a model asks for them."""
    saliences: SalienceModels
    """The models that say how much new memories matter."""
    salience_trainer: Callable[[], SalienceTrainer]
    """Made when it is needed."""
    staging: UploadStore
    """Where files wait for a job, among the blobs."""
    queue: Queue
    """Whom to tell of jobs; the store's rows are the truth about them."""
    embedders: Callable[[str], Embedder] | None = None
    """Makes the embedder of a space by its name, where the store may be moved to another."""
    next_space: str | None = None
    """The space that settings say the store is to be moved to."""
    on_secret: OnSecret = OnSecret.REJECT
    """What becomes of a text that holds a secret."""
    reflector_tokens: int = 0
    """What one reflection may spend of a language model's tokens; the default one spends none."""
    has_embedded_worker: bool = False
    """Whether a server of one client works on jobs itself: there may be nobody else who does."""
    telemetry: Telemetry = SILENT
    """Who listens to pipelines and doors."""
    probe: Probe = no_probes
    """Knocks at the doors of what all this depends on."""
    started_at: datetime | None = None
    """When this process opened it, where somebody wants to know."""
    early: EarlyEvents = field(default_factory=NoEarlyEvents)
    """What was called before its session was known."""
    has_unembedded: Event = field(default_factory=Event)
    """Set while memories that this process stored without vectors may still wait for them."""
    embedding_executor: DetachedExecutor = field(
        default_factory=lambda: DetachedExecutor(EMBEDDINGS_AT_ONCE_MAX, name="embedder")
    )
    """Where an embedder works that may take longer than a reader has time."""
