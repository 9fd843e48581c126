"""Change detection: which stored memories does a new one change?"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from commonbrain.ingestion.preparation import PreparedDraft
from commonbrain.model.kinds import KINDS
from commonbrain.model.links import SURE_FROM, Basis, LinkType
from commonbrain.model.memory import AWAITING_STATES, CURRENT_STATES, Memory
from commonbrain.model.query import Filter
from commonbrain.model.scope import is_visible
from commonbrain.model.support import may_dispute
from commonbrain.storage.interface import QueryScope
from commonbrain.text.changes import (
    JUST_SAID,
    PairFeatures,
    change_confidence,
    compare,
    is_no_change,
    repeats,
)

if TYPE_CHECKING:
    from commonbrain.embeddings.interface import Matrix
    from commonbrain.storage.store import Transaction

CHANGES_MAX: Final = 5
"""Memories that one memory changes, at most: a change of more is a summary."""
_CANDIDATES_MAX: Final = 12
_COSINE_MIN: Final = 0.4
"""Texts further apart speak of different things, unless one continues the other."""
_LINKED_FROM: Final = 0.75
"""Confidence from which a change is reported and linked."""
_ECHOES_MAX: Final = 6
_ECHO_COSINE_MIN: Final = 0.7
"""Texts further apart do not repeat each other."""
_CHARS_MAX: Final = 600
"""A longer text states many things and is not changed as a whole."""
_QUOTED_FROM: Final = 0.6
_DISPUTES_MAX: Final = 3
"""Changes of one memory by texts that are trusted less: a flood must not fill the review queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectedChange:
    """An older memory that a new one changes, with the probability and the reason."""

    older: Memory
    confidence: float
    basis: Basis
    is_trusted: bool = True
    """Whether the new memory is at least as trusted; otherwise the change waits for review."""


def detect_changes(
    tx: Transaction,
    memory: Memory,
    *,
    prepared: PreparedDraft,
    query_scope: QueryScope,
    exclude_ids: Collection[int] = (),
) -> tuple[DetectedChange, ...]:
    """Find the memories that a new one changes, most probable first.

    Compared are the nearest memories that state what holds, and what the same session stored just
    before. What a less trusted memory would change is found too, so that someone can decide; what
    one that fewer people see would change is not.
    """
    can_change = KINDS[memory.kind].can_change and memory.state not in AWAITING_STATES
    if not can_change or prepared.vectors is None or len(memory.body) > _CHARS_MAX:
        return ()
    search = _Search(tx, memory, query_scope=query_scope, exclude_ids=exclude_ids)
    before = _just_said(tx, memory, query_scope=query_scope)
    vector = prepared.vectors.windows[0]
    cosines = search.nearest(vector, limit=_CANDIDATES_MAX, at_least=_COSINE_MIN)
    cosines |= tx.index.similarities(vector, [id_ for id_ in before if id_ not in cosines])
    judged = (
        _judge(memory, other, cosine=cosines[other.id], follows=other.id in before)
        for other in search.comparable(cosines)
    )
    changes = [one for one in judged if one is not None]
    detected = sorted([*changes, *search.echoes(changes)], key=lambda one: -one.confidence)
    trusted = [one for one in detected if one.is_trusted]
    disputes = [one for one in detected if not one.is_trusted and _may_wait(tx, one.older)]
    return (*trusted[:CHANGES_MAX], *disputes[:1])


class _Search:
    """Finds the memories that a new one may change."""

    def __init__(
        self,
        tx: Transaction,
        memory: Memory,
        *,
        query_scope: QueryScope,
        exclude_ids: Collection[int],
    ) -> None:
        self.tx = tx
        self.memory = memory
        kinds = tuple(kind for kind, policy in KINDS.items() if policy.can_change)
        self.near_scope = QueryScope(
            caller=query_scope.caller,
            filter=Filter(kinds=kinds, project=memory.project, trust_min=0.0),
            now=query_scope.now,
        )
        self.excluded_ids = {memory.id, *exclude_ids}

    def nearest(self, vector: Matrix, *, limit: int, at_least: float) -> dict[int, float]:
        """Map the memories nearest to a vector to their cosines."""
        hits = self.tx.index.nearest(vector, self.near_scope, limit=limit, at_least=at_least)
        return {hit.id: hit.score for hit in hits if hit.id not in self.excluded_ids}

    def comparable(self, ids: Iterable[int]) -> Iterator[Memory]:
        """Yield those that hold, and that the new memory may change or dispute."""
        others = self.tx.memories.get([id_ for id_ in ids if id_ not in self.excluded_ids])
        for other in others.values():
            if (
                other.state in CURRENT_STATES
                and not other.is_over(self.near_scope.now)
                and is_visible(self.near_scope.caller, other)
                and may_dispute(self.memory, other)
                and len(other.body) <= _CHARS_MAX
                and not is_no_change(other.body, self.memory.body)
            ):
                yield other

    def echoes(self, changes: Sequence[DetectedChange]) -> Iterator[DetectedChange]:
        """Yield what repeats a memory that surely changes: an answer often echoes what was said."""
        known = {one.older.id for one in changes}
        for change in changes:
            if change.confidence < SURE_FROM:
                continue
            vector = self.tx.index.first_windows([change.older.id]).get(change.older.id)
            if vector is None:
                continue
            near = self.nearest(vector, limit=_ECHOES_MAX, at_least=_ECHO_COSINE_MIN)
            for other in self.comparable(near.keys() - known):
                if repeats(other.body, change.older.body):
                    known.add(other.id)
                    is_trusted = _is_trusted(self.memory, other)
                    yield replace(change, older=other, is_trusted=is_trusted)


def _is_trusted(newer: Memory, older: Memory) -> bool:
    return newer.trust.weight >= older.trust.weight


def _may_wait(tx: Transaction, older: Memory) -> bool:
    """Return whether few enough texts that are trusted less wait for a decision on a memory."""
    links = tx.links.touching([older.id], types=[LinkType.CHANGES])
    return sum(link.trust.weight < older.trust.weight for link in links) < _DISPUTES_MAX


def _just_said(tx: Transaction, memory: Memory, *, query_scope: QueryScope) -> frozenset[int]:
    """Return the memories that the same session stored just before."""
    if memory.session is None:
        return frozenset()
    passage = tx.threads.around([memory.id], query_scope, before=2, after=1).get(memory.id)
    earlier = tx.memories.get([id_ for id_ in passage.ids if id_ < memory.id]) if passage else {}
    since = memory.recorded_at - JUST_SAID
    return frozenset(one.id for one in earlier.values() if one.recorded_at >= since)


def _judge(newer: Memory, older: Memory, *, cosine: float, follows: bool) -> DetectedChange | None:
    pair = compare(older.body, newer.body, cosine=cosine, follows=follows)
    confidence = change_confidence(pair)
    if confidence < _LINKED_FROM or (cosine < _COSINE_MIN and not pair.ellipsis):
        return None
    return DetectedChange(
        older=older,
        confidence=round(confidence, 3),
        basis=_basis(pair),
        is_trusted=_is_trusted(newer, older),
    )


def _basis(pair: PairFeatures) -> Basis:
    """Return what shows the change best."""
    if pair.quotation >= _QUOTED_FROM or pair.correction:
        return Basis.CORRECTION
    if pair.negation:
        return Basis.NEGATION
    return Basis.ANNOUNCED if pair.cue >= 1 or pair.end else Basis.VALUE
