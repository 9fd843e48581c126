"""The engines of stores: SQLite in the core, others in packages under `commonbrain.engines`."""

from __future__ import annotations

from typing import Protocol

from commonbrain.clock import Clock
from commonbrain.config import Settings
from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.setting_types import StoreLocation
from commonbrain.storage.store import Store


class StoreEngine(Protocol):
    """What opens the stores of one engine.

    A package names its engine by the scheme of its URLs: the entry point `postgresql` of the group
    `commonbrain.engines` is the engine of stores at `postgresql://...`.
    """

    def open(
        self, at: StoreLocation, settings: Settings, *, space: EmbeddingSpace, clock: Clock
    ) -> Store:
        """Open a store.

        Raises:
            InvalidInputError: the location is malformed.
            RejectedError: the store cannot be used safely as the settings say.
            UnavailableError: it cannot be opened, or its schema is older (`store_older`); it was
                left as found.
            StoreCorruptError: it is damaged, not a store (`store_foreign`), of a newer version
                (`store_newer`), or its vectors are in another space (`space_mismatch`).

        """
        ...
