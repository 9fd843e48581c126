"""Full text in Postgres: the words of memories and of fields, in a tsvector, ranked by BM25.

A row tells its words through row-level security, but no search does: `@@` is not leakproof, so that
Postgres would hold it against every row of every tenant before the index. A function that runs with
the owner's rights searches instead; it takes the tenant from the transaction alone, and what it
finds is joined to the rows of that tenant, which stand under row-level security.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
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
from commonbrain.storage.postgres.statistics import OneSize, Size
from commonbrain.storage.postgres.term_selection import SelectedTerms, select_rare_terms
from commonbrain.storage.repositories.embedding_spaces import without_words
from commonbrain.storage.schema.memories import memories
from commonbrain.storage.sql.context import SqlContext
from commonbrain.storage.sql.filters import given, within

_LOOKED_AT: Final = 2
"""How often as many as are wanted are held against a look, before every match is."""
_ALL: Final = 2**31 - 1
"""The limit that is none."""
_SCORED_MAX: Final = 20_000
"""Matches that are scored before it is asked whether the words are as rare as was counted."""
_BUILT_MAX: Final = 256
_WORDS_MAX: Final = 100_000
"""Words of one text that are indexed; a tsvector holds no more than a megabyte."""
_WORD: Final = re.compile(r"[^\W_]+")
_MARKS: Final = re.compile("[\u0300-\u036f]")
"""Accents, as they stand by themselves when a letter is taken apart."""
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


def _stands_in(name: str) -> Exists:
    """Say of a row of memories whether a full text has it."""
    there = table(name, column("tenant_id"), column("memory_id")).c
    same = (there.tenant_id == memories.c.tenant_id) & (there.memory_id == memories.c.id)
    return select(1).where(same).exists()


_WORDLESS: Final = without_words(_stands_in("memory_text"), has_fields=_stands_in("atom_text"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """How much a search looks at."""

    newest: int | None = None
    most: int = _ALL
    scored: int | None = None


_EVERYTHING: Final = _Step()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What a search found: what the look allows, and how many matches there were at all."""

    hits: list[Hit]
    matches: int
    is_cut: bool
    """Whether there may have been more matches, none of which was scored."""
    is_all: bool
    """Whether every match was held against the look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresFullText:
    """The words of one tenant's memories in one transaction."""

    work: SqlContext
    size: OneSize

    def put(self, memory: Memory) -> None:
        """Index what a memory says, and what an atom says in each field."""
        run = self.work.connection.execute
        here = {"tenant": self.work.tenant, "id": memory.id}
        run(_PUT, here | _given(f"{memory.text}\n{memory.keywords}"))
        if memory.kind is Kind.ATOM:
            told = dict.fromkeys(CausalField, "") | fields_of(memory.detail)
            rows = [here | {"field": str(name)} | _given(said) for name, said in told.items()]
            run(_PUT_FIELD, rows)

    def drop(self, memory_id: int) -> None:
        """Take a memory out, whatever its kind."""
        for statement in _DROP:
            self.work.connection.execute(statement, {"tenant": self.work.tenant, "id": memory_id})

    def lacking(self, *, limit: int, after: int) -> list[int]:
        """List findable memories above an id that do not stand in the full text, ascending."""
        return [id_ for (id_,) in self.work.rows(_WORDLESS, {"after": after, "most": limit})]

    def search(self, terms: Sequence[str], scope: QueryScope, *, limit: int) -> list[Hit]:
        """Rank by BM25 over stemmed words, best first; any of the terms may match."""
        asked = [words for words in (" ".join(words_of(term)) for term in terms) if words]
        size = self.size.now()
        chosen = self._chosen(asked, size)
        if not chosen.words:
            return []
        step = _Step(newest=chosen.newest, most=_LOOKED_AT * limit, scored=_SCORED_MAX)
        found = self._found(chosen, scope, step=step, limit=limit)
        if found.is_cut or size.is_outgrown(found.matches):
            # Others put in so much since it was counted that other words are the rare ones now.
            anew = self.size.anew()
            if anew is not size:
                chosen = self._chosen(asked, anew)
                step = replace(step, newest=chosen.newest)
                found = self._found(chosen, scope, step=step, limit=limit)
        if not found.matches and chosen.sought < len(chosen.words):
            # A word that nobody ever said hides none of the others.
            return self.search(chosen.words[chosen.sought :], scope, limit=limit)
        if not found.is_cut and (len(found.hits) >= limit or found.is_all):
            return found.hits
        # The look is narrow, and most of the best were not allowed: every match is looked at.
        return self._found(chosen, scope, step=_EVERYTHING, limit=limit).hits

    def _chosen(self, asked: Sequence[str], size: Size) -> SelectedTerms:
        shares = self.size.sizes.shares(self.work, asked, size=size)
        return select_rare_terms(shares, memories=size.memories, rare=size.rare)

    def _found(
        self, chosen: SelectedTerms, scope: QueryScope, *, step: _Step, limit: int
    ) -> _Found:
        size = self.size.now()
        told = given(scope, self.work.tenant) | {
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
        rows = self.work.rows(_best(scope.filter), told)
        *_, count, matches = rows[0]
        return _Found(
            hits=[Hit(id=id_, score=score) for id_, score, *_ in rows if id_ is not None],
            matches=matches,
            is_cut=step.scored is not None and matches >= step.scored,
            is_all=step.newest is None and count < step.most,
        )


def words_of(said: str) -> list[str]:
    """Give the words of a text: letters and digits in a row, without accents."""
    apart = unicodedata.normalize("NFD", said)
    return _WORD.findall(unicodedata.normalize("NFC", _MARKS.sub("", apart)))


def _given(said: str) -> dict[str, Any]:
    words = words_of(said)[:_WORDS_MAX]
    return {"length": len(words), "words": " ".join(words)}


@lru_cache(_BUILT_MAX)
def _best(wanted: Filter) -> Select[*tuple[Any, ...]]:
    """Select the best that a look allows, how many it was held against, and how many matched."""
    asked = func.words_found(
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
    every = select(asked.c.memory_id, asked.c.score, asked.c.matches)
    found = every.cte("found").prefix_with("MATERIALIZED")
    best = (
        select(memories.c.id, found.c.score)
        .join_from(found, memories, memories.c.id == found.c.memory_id)
        .where(within(wanted))
        .order_by(found.c.score.desc(), memories.c.id.desc())
        .limit(bindparam("limit", type_=Integer))
        .subquery("best")
    )
    matches = func.coalesce(func.max(found.c.matches), 0).label("matches")
    count = select(func.count().label("found"), matches).select_from(found).subquery("counted")
    return (
        select(best.c.id, best.c.score, count.c.found, count.c.matches)
        .select_from(count.outerjoin(best, true()))
        .order_by(best.c.score.desc(), best.c.id.desc())
    )
