"""Duplicate suspects: pairs of rules that may say the same in other words.

They are found when they are listed, so that rules which were stored while the embedder was
unavailable are compared as soon as they have vectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.model.kinds import Kind
from commonbrain.model.limits import SUSPECT_PAIRS_MAX, SUSPECT_RULES_MAX
from commonbrain.model.links import DISAGREEMENTS, LinkType
from commonbrain.model.memory import Memory
from commonbrain.model.scope import isolates
from commonbrain.storage.interface import QueryScope
from commonbrain.text.repetition import may_repeat

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

DISTINCT_LINKS: Final = (*DISAGREEMENTS, LinkType.RELATES_TO)
"""Links of two memories that were compared: they disagree, or a user declared them different."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """Two rules that may say the same; `similarity` is their cosine."""

    newer: Memory
    older: Memory
    similarity: float


def duplicate_suspects(
    tx: Transaction, query_scope: QueryScope, *, space: EmbeddingSpace
) -> list[Suspect]:
    """Compare the newest `SUSPECT_RULES_MAX` rules in scope with each other, latest pair first."""
    criteria = replace(query_scope.filter, kinds=(Kind.RULE,))
    rules = replace(query_scope, filter=criteria)
    newest = [hit.id for hit in tx.memories.newest(rules, limit=SUSPECT_RULES_MAX)]
    near = _near(tx, newest, at_least=space.similar_threshold)
    known = tx.memories.get(sorted({end for pair in near for end in pair}))
    apart = {
        (max(link.from_id, link.to_id), min(link.from_id, link.to_id))
        for link in tx.links.touching(list(known), types=DISTINCT_LINKS)
    }
    return [
        Suspect(newer=known[newer], older=known[older], similarity=near[newer, older])
        for newer, older in sorted(near, reverse=True)
        if (newer, older) not in apart and may_say_the_same(known[newer], known[older])
    ]


def may_say_the_same(one: Memory, other: Memory) -> bool:
    """Return whether two similar rules apply to one project and differ in no value or condition."""
    is_shared = not isolates(one.project, other.project)
    return is_shared and may_repeat(one.text, known=other.text)


def is_suspected(tx: Transaction, one: Memory, *, other: Memory, space: EmbeddingSpace) -> bool:
    """Return whether two memories are rules that are listed as duplicate suspects."""
    near = _near(tx, [one.id, other.id], at_least=space.similar_threshold)
    return one.kind is other.kind is Kind.RULE and bool(near) and may_say_the_same(one, other)


def _near(
    tx: Transaction, ids: Sequence[int], *, at_least: float
) -> Mapping[tuple[int, int], float]:
    """Return pairs of memories with at least a cosine, the newer first; at most the nearest."""
    vectors = tx.index.first_windows(ids)
    if len(vectors) < 2:  # noqa: PLR2004 a pair
        return {}
    known = np.array(list(vectors))
    matrix = np.stack(list(vectors.values())).astype(np.float32)
    cosines = np.triu(matrix @ matrix.T, k=1)
    rows, columns = np.nonzero(cosines >= at_least)
    values = cosines[rows, columns]
    order = np.argsort(-values, kind="stable")[:SUSPECT_PAIRS_MAX]
    ends = zip(known[rows[order]].tolist(), known[columns[order]].tolist(), strict=True)
    return {
        (max(pair), min(pair)): round(float(cosine), 3)
        for pair, cosine in zip(ends, values[order], strict=True)
    }
