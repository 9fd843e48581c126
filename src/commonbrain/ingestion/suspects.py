"""Duplicate suspects: pairs of rules that may say the same in other words.

They are found when they are listed, so that rules which were stored while the embedder was
unavailable are compared as soon as they have vectors.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.model.kinds import Kind
from commonbrain.model.limits import SUSPECT_PAIRS_MAX, SUSPECT_RULES_MAX
from commonbrain.model.links import DISTINCT_LINKS
from commonbrain.model.memory import Memory
from commonbrain.model.scope import isolates
from commonbrain.storage.interface import QueryScope
from commonbrain.text.repetition import fixed_parts, may_repeat

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from commonbrain.storage.store import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """Two rules that may say the same; `similarity` is their cosine."""

    newer: Memory
    older: Memory
    similarity: float


def duplicate_suspects(
    tx: Transaction, query_scope: QueryScope, *, space: EmbeddingSpace
) -> Iterator[Suspect]:
    """Compare the newest `SUSPECT_RULES_MAX` rules in scope with each other, latest pair first.

    Of rules of unlike authority the higher one comes first anyway: there is nothing to decide.
    """
    criteria = replace(query_scope.filter, kinds=(Kind.RULE,))
    rules = replace(query_scope, filter=criteria)
    newest = [hit.id for hit in tx.memories.newest(rules, limit=SUSPECT_RULES_MAX)]
    near, known = _near(tx, newest, at_least=space.similar_threshold)
    # One string for all pairs of a rule, so that it is hashed once.
    texts = {id_: one.text for id_, one in known.items()}
    return (
        Suspect(newer=known[newer], older=known[older], similarity=near[newer, older])
        for newer, older in sorted(near, reverse=True)
        if not isolates(known[newer].project, known[older].project)
        and known[newer].authority is known[older].authority
        and may_repeat(texts[newer], known=texts[older])
    )


def may_say_the_same(one: Memory, other: Memory) -> bool:
    """Return whether two similar rules apply to one project and differ in no value or condition."""
    is_shared = not isolates(one.project, other.project)
    return is_shared and may_repeat(one.text, known=other.text)


def is_suspected(tx: Transaction, one: Memory, *, other: Memory, space: EmbeddingSpace) -> bool:
    """Return whether two memories are rules that are listed as duplicate suspects."""
    near, _ = _near(tx, (one.id, other.id), at_least=space.similar_threshold)
    return one.kind is other.kind is Kind.RULE and bool(near) and may_say_the_same(one, other)


def _near(
    tx: Transaction, ids: Sequence[int], *, at_least: float
) -> tuple[Mapping[tuple[int, int], float], Mapping[int, Memory]]:
    """Return the cosines of similar pairs, the newer id first, and the memories in them.

    At most the nearest pairs are returned. Those that differ in project, number or exception, and
    those that were compared before, are left out before that bound.
    """
    vectors = tx.index.first_windows(ids)
    if len(vectors) < 2:  # noqa: PLR2004 a pair
        return {}, {}
    matrix = np.stack(list(vectors.values())).astype(np.float32)
    cosines = np.triu(matrix @ matrix.T, k=1)
    is_near = cosines >= at_least
    # Few of the rules are near another, and only these are read.
    places = np.flatnonzero(is_near.any(axis=0) | is_near.any(axis=1))
    near_ids = np.array(list(vectors))[places]
    rules = tx.memories.get(near_ids.tolist())
    cosines, is_open = cosines[np.ix_(places, places)], is_near[np.ix_(places, places)]
    is_open &= _may_match([rules[id_] for id_ in near_ids.tolist()])
    is_open &= ~_are_settled(tx, near_ids, among=is_open)
    rows, columns = np.nonzero(is_open)
    values = cosines[rows, columns]
    order = np.argsort(-values, kind="stable")[:SUSPECT_PAIRS_MAX]
    ends_of_pairs = near_ids[rows[order]], near_ids[columns[order]]
    newer, older = np.maximum(*ends_of_pairs).tolist(), np.minimum(*ends_of_pairs).tolist()
    rounded = values[order].astype(np.float64).round(3).tolist()
    return dict(zip(zip(newer, older, strict=True), rounded, strict=True)), rules


def _are_settled(
    tx: Transaction, ids: NDArray[np.int_], *, among: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return which of some pairs were compared before."""
    ends = ids[among.any(axis=0) | among.any(axis=1)].tolist()
    places = {id_: place for place, id_ in enumerate(ids.tolist())}
    are_settled = np.zeros_like(among)
    for link in tx.links.touching(ends, types=DISTINCT_LINKS):
        if link.from_id in places and link.to_id in places:
            are_settled[tuple(sorted((places[link.from_id], places[link.to_id])))] = True
    return are_settled


def _may_match(rules: Sequence[Memory]) -> NDArray[np.bool_]:
    """Return for each pair whether it shares a project, and all that texts must share."""
    projects = _numbered([one.project for one in rules])
    is_shared = np.array([one.project is None for one in rules], dtype=bool)
    parts = _numbered([fixed_parts(one.text) for one in rules])
    is_same_project = (projects[:, None] == projects) | is_shared[:, None] | is_shared
    return is_same_project & (parts[:, None] == parts)


def _numbered(values: Sequence[Hashable]) -> NDArray[np.int_]:
    """Number values, so that the numbers are equal where the values are."""
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
    return np.array([numbers[value] for value in values], dtype=np.int_)
