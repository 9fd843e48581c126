"""Backup and repair."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from commonbrain.ingestion.embedding import EmbedPending, EmbedProgress
from commonbrain.model.errors import UnavailableError
from commonbrain.model.limits import MAINTAINED_AT_ONCE
from commonbrain.model.scope import Caller
from commonbrain.security.guard import Guard
from commonbrain.services import Capability
from commonbrain.storage.interface import Backup, Progress, ignore_progress


class CreateBackup(Capability):
    """Creates backups for one caller."""

    def __call__(
        self,
        destination: str | Path,
        *,
        replace: bool = False,
        on_progress: Progress = ignore_progress,
    ) -> Backup:
        """Write a consistent, verified copy of the store into a file, while others write.

        It holds every tenant: each whose policy audits reads has a line in its audit first.

        Args:
            destination: the file to write.
            replace: replace an existing file.
            on_progress: called with the progress, 0..1.

        Raises:
            InvalidInputError: the destination exists and may not be replaced, or is the store
                itself.
            UnavailableError: the destination or a line of the audit cannot be written; the
                destination is unchanged.
            StoreCorruptError: the store is damaged; the destination is unchanged.

        """
        path = Path(destination).expanduser()
        if self.services.guard is not None:
            for tenant in self.services.store.tenants():
                caller = dataclasses.replace(self.caller, tenant=tenant)
                self._record(caller, path, guard=self.services.guard)
        return self.services.store.backup(path, replace=replace, on_progress=on_progress)

    def _record(self, caller: Caller, path: Path, *, guard: Guard) -> None:
        if not guard.policy(caller).are_reads_audited:
            return
        with self.services.store.snapshot(caller.tenant) as tx:
            memories = sum(tx.memories.counts().values())
        guard.note_copy(caller, action="backup", subject=path.name, memories=memories)


_WORDS: Final = 0.2
"""Progress when full text is rewritten; embedding takes the longest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """What a repair has rewritten."""

    words: int
    """Memories whose full text was rewritten."""
    vectors_dropped: int
    vectors_made: int
    """Memories that were embedded."""
    vectors_pending: int
    """Memories still without a vector: the embedder is unavailable, or they are new."""


class Repair(Capability):
    """Repairs a store for one caller."""

    def __call__(self, on_progress: Progress = ignore_progress) -> Repaired:
        """Rewrite full text and readings, delete invalid vectors and compute missing ones.

        Each step is a short transaction, so others can read and write meanwhile and search stays
        complete. After an interruption, run it again.

        Raises:
            UnavailableError: the store stayed locked, is full or read-only.

        """
        store = self.services.store
        words = store.rebuild_text(lambda part: on_progress(part * _WORDS))
        self._read_again()
        with store.begin(self.caller.tenant) as tx:
            dropped = tx.index.drop_unsound_vectors()
        made = self._embed(on_progress)
        with store.snapshot(self.caller.tenant) as tx:
            pending = tx.missing_embeddings.pending()
        on_progress(1.0)
        return Repaired(
            words=words, vectors_dropped=dropped, vectors_made=made, vectors_pending=pending
        )

    def _read_again(self) -> None:
        """Read every text again, in batches."""
        after = 0
        while True:
            with self.services.store.begin(self.caller.tenant) as tx:
                page = tx.memories.page(after=after, limit=MAINTAINED_AT_ONCE)
                tx.memories.read_again(page)
            if not page:
                return
            after = page[-1]

    def _embed(self, on_progress: Progress) -> int:
        """Embed memories without vectors batch by batch, until nothing is left or nothing works."""
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
    """Embed one more batch; None if that failed."""
    try:
        done = embed()
    except UnavailableError:
        return None
    return done if done.count else None
