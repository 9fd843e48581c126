"""Repair: full text and vectors written anew from the rows, which are the only truth."""

from dataclasses import dataclass
from typing import Final

from commonbrain.domain.errors import Unavailable
from commonbrain.domain.scope import Caller
from commonbrain.flows.embedding import Embedded, EmbedPending
from commonbrain.flows.house import House
from commonbrain.ports.keeping import Progress, unwatched

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

    house: House
    caller: Caller

    def __call__(self, on_progress: Progress = unwatched) -> Repaired:
        """Write the words anew, drop unsound vectors and make the missing ones.

        Each step is a short transaction, so that others read and write meanwhile; what was found
        before stays found. When it is interrupted, running it again finishes it.

        Raises:
            Unavailable: the store stayed locked, is full or read-only.

        """
        store = self.house.store
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
        embed = EmbedPending(self.house, self.caller)
        made = 0
        while done := _embedded(embed):
            made += done.count
            share = made / (made + done.left)
            on_progress(_WORDS + (1 - _WORDS) * share)
            if not done.left:
                break
        return made


def _embedded(embed: EmbedPending) -> Embedded | None:
    """Embed one more batch; None when none of it could be."""
    try:
        done = embed()
    except Unavailable:
        return None
    return done if done.count else None
