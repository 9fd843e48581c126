"""What every flow stands on: the ports, filled by wiring."""

from collections.abc import Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field

from commonbrain.domain.limits import EMBEDDINGS_AT_ONCE_MAX
from commonbrain.flows.journal import Journal
from commonbrain.ports.clock import Chance, Clock
from commonbrain.ports.importing import Importer
from commonbrain.ports.models import Embedder
from commonbrain.ports.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    """One open store with the models and clocks that serve it; shared by all its callers."""

    store: Store
    embedder: Embedder
    clock: Clock
    chance: Chance
    journal: Journal
    importers: Mapping[str, Importer]
    waiting: Executor = field(
        default_factory=lambda: ThreadPoolExecutor(EMBEDDINGS_AT_ONCE_MAX, "waiting")
    )
    """Where what may take longer than a reader's deadline is waited for; idle until then."""
