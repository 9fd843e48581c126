"""Memories that name the same thing, computed when they are read.

A link per pair would have to be written, bounded and undone with every memory, and would show a
reader what others may not see. One search finds them instead, with the visibility of the reader.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from commonbrain.model.query import is_allowed
from commonbrain.text.names import Name, basis_of_names, name_terms, shared_names

if TYPE_CHECKING:
    from commonbrain.model.memory import Memory
    from commonbrain.storage.interface import QueryScope
    from commonbrain.storage.store import Transaction

_HITS_MAX: Final = 30
"""Memories compared; one search finds them."""
_TERMS_MAX: Final = 16
_COMMON_FROM: Final = 20
"""A name in this many of them says little."""
_COMMON_SHARE: Final = 0.5
"""What remains of the confidence of a common name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelatedMemory:
    """A memory that names the same as another."""

    to: int
    """The id of the other."""
    memory: Memory
    basis: str
    confidence: float
    """How surely both speak of the same thing, 0..1."""


def related_by_name(
    tx: Transaction, scope: QueryScope, *, memories: Sequence[Memory], limit: int
) -> list[RelatedMemory]:
    """List what names the same thing as one of some memories, surest first, then newest."""
    known = {one.id for one in memories}
    terms = tuple(dict.fromkeys(term for one in memories for term in name_terms(one.text)))
    if not terms:
        return []
    hits = tx.index.lexical(terms[:_TERMS_MAX], scope, limit=_HITS_MAX + len(known))
    others = [
        other
        for id_, other in tx.memories.get([hit.id for hit in hits]).items()
        if id_ not in known
        and is_allowed(other, scope.caller, criteria=scope.filter, now=scope.now)
    ]
    pairs = [
        (one, other, shared_names(one.text, other.text)) for other in others for one in memories
    ]
    uses = Counter(name.key for _, _, names in pairs for name in names)
    best: dict[int, RelatedMemory] = {}
    for one, other, names in pairs:
        confidence = max((_confidence(name, uses) for name in names), default=0.0)
        earlier = best.get(other.id)
        if confidence > (earlier.confidence if earlier else 0.0):
            best[other.id] = RelatedMemory(
                to=one.id, memory=other, basis=basis_of_names(names), confidence=confidence
            )
    ranked = sorted(best.values(), key=lambda one: (-one.confidence, -one.memory.id))
    return ranked[:limit]


def _confidence(name: Name, uses: Mapping[str, int]) -> float:
    return name.confidence * (_COMMON_SHARE if uses[name.key] >= _COMMON_FROM else 1.0)
