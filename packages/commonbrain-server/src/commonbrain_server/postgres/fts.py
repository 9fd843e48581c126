"""Full text in Postgres: words of memories and fields in a tsvector, ranked by BM25.

Rows are read under row-level security, but searches are not: `@@` is not leakproof, so Postgres
would evaluate it for every row of every tenant before the index. Instead a function with the
owner's rights searches; it takes the tenant from the transaction, and its results are joined to
rows under row-level security.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Exists,
    Float,
    Integer,
    Select,
    String,
    bindparam,
    column,
    func,
    select,
    table,
    text,
    true,
)
from sqlalchemy.dialects.postgresql import ARRAY

from commonbrain.model.kinds import CausalField, Kind, fields_of
from commonbrain.model.memory import Memory
from commonbrain.model.query import Filter
from commonbrain.storage.interface import Hit, QueryScope
from commonbrain.storage.repositories.embedding_spaces import without_words
from commonbrain.storage.schema.memories import memories
from commonbrain.storage.sql.context import SqlContext
from commonbrain.storage.sql.filters import given, within
from commonbrain.text.search_words import indexed_text
from commonbrain_server.postgres.statistics import OneSize, SelectedTerms, Size, select_rare_terms

_LOOKED_AT: Final = 2
"""Factor by which more results than requested are checked against a scope, before all are."""
_ALL: Final = 2**31 - 1
"""No limit."""
_SCORED_MAX: Final = 20_000
"""Matches that are scored before checking whether the words are as rare as counted."""
_BUILT_MAX: Final = 256
_WORDS_MAX: Final = 100_000
"""Indexed words of one text; a tsvector is limited to one megabyte."""
_WORD: Final = re.compile(r"[^\W_]+")
_MARKS: Final = re.compile("[\u0300-\u036f]")
"""Combining accents, after decomposition."""
_PUT: Final = text(
    "INSERT INTO memory_text (tenant_id, memory_id, length, words) "
    "VALUES (:tenant, :id, :length, to_tsvector('commonbrain', :words)) "
    "ON CONFLICT (tenant_id, memory_id) DO UPDATE "
    "SET length = excluded.length, words = excluded.words"
)
_PUT_FIELD: Final = text(
    "INSERT INTO atom_text (tenant_id, memory_id, field, length, words) "
    "VALUES (:tenant, :id, :field, :length, to_tsvector('commonbrain', :words)) "
    "ON CONFLICT (tenant_id, memory_id, field) DO UPDATE "
    "SET length = excluded.length, words = excluded.words"
)
_DROP: Final = (
    text("DELETE FROM memory_text WHERE tenant_id = :tenant AND memory_id = :id"),
    text("DELETE FROM atom_text WHERE tenant_id = :tenant AND memory_id = :id"),
)


def _is_indexed_in(name: str) -> Exists:
    """Return whether a memory is in a full-text table."""
    there = table(name, column("tenant_id"), column("memory_id")).c
    same = (there.tenant_id == memories.c.tenant_id) & (there.memory_id == memories.c.id)
    return select(1).where(same).exists()


_WORDLESS: Final = without_words(
    _is_indexed_in("memory_text"), has_fields=_is_indexed_in("atom_text")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _SearchLimits:
    """How much a search reads."""

    newest: int | None = None
    most: int = _ALL
    scored: int | None = None


_EVERYTHING: Final = _SearchLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """The result of a search: what the scope allows, and the number of matches."""

    hits: list[Hit]
    matches: int
    is_cut: bool
    """Whether there may be more matches, none of which was scored."""
    is_all: bool
    """Whether every match was checked against the scope."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresFullText:
    """The full text of one tenant in one transaction."""

    work: SqlContext
    size: OneSize

    def put(self, memory: Memory) -> None:
        """Index a memory, and each field of an atom."""
        run = self.work.connection.execute
        here = {"tenant": self.work.tenant, "id": memory.id}
        run(_PUT, here | _given(f"{memory.text}\n{memory.keywords}"))
        if memory.kind is Kind.ATOM:
            texts = dict.fromkeys(CausalField, "") | fields_of(memory.detail)
            rows = [here | {"field": str(name)} | _given(text) for name, text in texts.items()]
            run(_PUT_FIELD, rows)

    def drop(self, memory_id: int) -> None:
        """Remove a memory, whatever its kind."""
        for statement in _DROP:
            self.work.connection.execute(statement, {"tenant": self.work.tenant, "id": memory_id})

    def missing(self, *, limit: int, after: int) -> list[int]:
        """List searchable memories above an id that are missing from the full text, ascending."""
        return [id_ for (id_,) in self.work.rows(_WORDLESS, {"after": after, "most": limit})]

    def search(self, terms: Sequence[str], scope: QueryScope, *, limit: int) -> list[Hit]:
        """Rank by BM25 over stemmed words, best first; any term may match."""
        query_words = [words for words in (" ".join(words_of(term)) for term in terms) if words]
        size = self.size.now()
        chosen = self._chosen(query_words, size)
        if not chosen.words:
            return []
        step = _SearchLimits(newest=chosen.newest, most=_LOOKED_AT * limit, scored=_SCORED_MAX)
        result = self._run_search(chosen, scope, step=step, limit=limit)
        if result.is_cut or size.is_outgrown(result.matches):
            # So much was added since the count that other words are now the rare ones.
            anew = self.size.anew()
            if anew is not size:
                chosen = self._chosen(query_words, anew)
                step = replace(step, newest=chosen.newest)
                result = self._run_search(chosen, scope, step=step, limit=limit)
        if not result.matches and chosen.sought < len(chosen.words):
            # A word that no text contains hides none of the others.
            return self.search(chosen.words[chosen.sought :], scope, limit=limit)
        if not result.is_cut and (len(result.hits) >= limit or result.is_all):
            return result.hits
        # The scope is narrow, and most of the best results were not allowed: check every match.
        return self._run_search(chosen, scope, step=_EVERYTHING, limit=limit).hits

    def count(self, field: CausalField | None) -> int:
        """Return how many memories the tenant had when they were counted last, for any field."""
        del field
        return self.size.now().memories

    def _chosen(self, query_words: Sequence[str], size: Size) -> SelectedTerms:
        shares = self.size.sizes.shares(self.work, query_words, size=size)
        chosen = select_rare_terms(shares, memories=size.memories, rare=size.rare)
        return _repeated(chosen, Counter(query_words))

    def _run_search(
        self, chosen: SelectedTerms, scope: QueryScope, *, step: _SearchLimits, limit: int
    ) -> _Found:
        size = self.size.now()
        parameters = given(scope, self.work.tenant) | {
            "asked": chosen.words,
            "sought": chosen.sought,
            "weights": chosen.weights,
            "field": None if scope.filter.field is None else str(scope.filter.field),
            "memories": size.memories,
            "average": size.average_words,
            "newest": step.newest,
            "most": step.most,
            "scored": step.scored,
            "limit": limit,
        }
        rows = self.work.rows(_best(scope.filter), parameters)
        *_, count, matches = rows[0]
        return _Found(
            hits=[Hit(id=id_, score=score) for id_, score, *_ in rows if id_ is not None],
            matches=matches,
            is_cut=step.scored is not None and matches >= step.scored,
            is_all=step.newest is None and count < step.most,
        )


def _repeated(chosen: SelectedTerms, counts: Mapping[str, int]) -> SelectedTerms:
    """Repeat a word as often as it was given; each time it counts again."""
    places = [at for at, word in enumerate(chosen.words) for _ in range(counts[word])]
    return replace(
        chosen,
        words=[chosen.words[at] for at in places],
        weights=[chosen.weights[at] for at in places],
        sought=sum(at < chosen.sought for at in places),
    )


def words_of(text: str) -> list[str]:
    """Return the words of a text: runs of letters and digits, without accents."""
    apart = unicodedata.normalize("NFD", text)
    return _WORD.findall(unicodedata.normalize("NFC", _MARKS.sub("", apart)))


def _given(text: str) -> dict[str, Any]:
    words = words_of(indexed_text(text))[:_WORDS_MAX]
    return {"length": len(words), "words": " ".join(words)}


@lru_cache(_BUILT_MAX)
def _best(criteria: Filter) -> Select[*tuple[Any, ...]]:
    """Select the best allowed results, with the numbers of checked and matching rows."""
    search = func.words_found(
        bindparam("asked", type_=ARRAY(String)),
        bindparam("sought", type_=Integer),
        bindparam("weights", type_=ARRAY(Float)),
        bindparam("field", type_=String),
        bindparam("memories", type_=Float),
        bindparam("average", type_=Float),
        bindparam("newest", type_=BigInteger),
        bindparam("most", type_=Integer),
        bindparam("scored", type_=BigInteger),
    ).table_valued(
        column("memory_id", BigInteger), column("score", Float), column("matches", BigInteger)
    )
    every = select(search.c.memory_id, search.c.score, search.c.matches)
    scored = every.cte("found").prefix_with("MATERIALIZED")
    best = (
        select(memories.c.id, scored.c.score)
        .join_from(scored, memories, memories.c.id == scored.c.memory_id)
        .where(within(criteria))
        .order_by(scored.c.score.desc(), memories.c.id.desc())
        .limit(bindparam("limit", type_=Integer))
        .subquery("best")
    )
    matches = func.coalesce(func.max(scored.c.matches), 0).label("matches")
    count = select(func.count().label("found"), matches).select_from(scored).subquery("counted")
    return (
        select(best.c.id, best.c.score, count.c.found, count.c.matches)
        .select_from(count.outerjoin(best, true()))
        .order_by(best.c.score.desc(), best.c.id.desc())
    )
