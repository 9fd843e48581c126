"""Backup: everything in one file that can be carried away, written while others write."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from commonbrain.ingestion.embedding import EmbedPending, EmbedProgress
from commonbrain.model.errors import UnavailableError
from commonbrain.model.scope import Caller
from commonbrain.services import Services
from commonbrain.storage.maintenance import Backup, Progress, ignore_progress


@dataclass(frozen=True, slots=True)
class CreateBackup:
    """Backing up for one caller."""

    services: Services
    caller: Caller

    def __call__(
        self,
        destination: str | Path,
        *,
        replace: bool = False,
        on_progress: Progress = ignore_progress,
    ) -> Backup:
        """Write everything, as of one moment, into a file that is verified before it appears.

        Args:
            destination: the file to write.
            replace: put it in the place of a file that is there.
            on_progress: told how far it has come, 0..1.

        Raises:
            InvalidInputError: the destination exists and is not to be replaced, or is the store
                itself.
            UnavailableError: the destination cannot be written; it is as it was.
            StoreCorruptError: the store is damaged; the destination is as it was.

        """
        return self.services.store.backup(
            Path(destination).expanduser(), replace=replace, on_progress=on_progress
        )


_WORDS: Final = 0.2
"""How much of the work is done when the words are written; embedding takes the longest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """What was written anew."""

    words: int
    """Memories whose words were."""
    vectors_dropped: int
    vectors_made: int
    """Memories that were embedded."""
    vectors_pending: int
    """Memories still without a vector: the embedder is down, or they were written just now."""


@dataclass(frozen=True, slots=True)
class Repair:
    """Repairing for one caller."""

    services: Services
    caller: Caller

    def __call__(self, on_progress: Progress = ignore_progress) -> Repaired:
        """Write the words anew, drop unsound vectors and make the missing ones.

        Each step is a short transaction, so that others read and write meanwhile; what was found
        before stays found. When it is interrupted, running it again finishes it.

        Raises:
            UnavailableError: the store stayed locked, is full or read-only.

        """
        store = self.services.store
        words = store.rebuild_text(lambda part: on_progress(part * _WORDS))
        with store.begin(self.caller.tenant) as tx:
            dropped = tx.index.drop_unsound_vectors()
        made = self._embed(on_progress)
        with store.snapshot(self.caller.tenant) as tx:
            pending = tx.index.pending()
        on_progress(1.0)
        return Repaired(
            words=words, vectors_dropped=dropped, vectors_made=made, vectors_pending=pending
        )

    def _embed(self, on_progress: Progress) -> int:
        """Embed what has no vector, batch by batch; stop where nothing more can be done."""
        embed = EmbedPending(self.services, self.caller)
        made = 0
        while done := _embedded(embed):
            made += done.count
            share = made / (made + done.left)
            on_progress(_WORDS + (1 - _WORDS) * share)
            if not done.left:
                break
        return made


def _embedded(embed: EmbedPending) -> EmbedProgress | None:
    """Embed one more batch; None when none of it could be."""
    try:
        done = embed()
    except UnavailableError:
        return None
    return done if done.count else None
