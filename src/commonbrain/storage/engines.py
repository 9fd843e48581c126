"""The engines of stores: SQLite in the core, others in packages under `commonbrain.engines`."""

from __future__ import annotations

from typing import Protocol

from commonbrain.clock import Clock
from commonbrain.config import Settings
from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.setting_types import StoreLocation
from commonbrain.storage.interface import DistributeResult, UpgradeResult
from commonbrain.storage.store import Store


class StoreEngine(Protocol):
    """What opens and upgrades the stores of one engine.

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

    def upgrade(
        self,
        at: StoreLocation,
        settings: Settings,
        *,
        space: EmbeddingSpace,
        clock: Clock,
        role: str | None,
    ) -> UpgradeResult:
        """Bring a store to the current schema, and let a further role open it.

        Raises:
            InvalidInputError: this engine upgrades its stores when it opens them.
            UnavailableError: the store cannot be reached, or a lock was not free in time.
            StoreCorruptError: it is not a store, or newer; it is unchanged.

        """
        ...

    def preview_distribution(self, at: StoreLocation, settings: Settings) -> DistributeResult:
        """Return what would distribute a store over several servers; change nothing.

        Raises:
            InvalidInputError: this engine does not distribute its stores.
            UnavailableError: the store cannot be reached, or its schema is older.
            StoreCorruptError: it is not a store, or newer.

        """
        ...

    def distribute(self, at: StoreLocation, settings: Settings) -> DistributeResult:
        """Distribute an idle store over several servers.

        Raises:
            InvalidInputError: this engine does not distribute its stores.
            RejectedError: the server lacks what distributes; nothing changed.
            UnavailableError: the store cannot be reached, or its schema is older; repeat to
                continue.
            StoreCorruptError: it is not a store, or newer.

        """
        ...
