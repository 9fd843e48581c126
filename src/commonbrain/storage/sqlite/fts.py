"""Full text in SQLite (FTS5): of memories, and of each field of atoms."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from sqlalchemy import (
    Exists,
    Float,
    Select,
    TextualSelect,
    bindparam,
    column,
    insert,
    literal_column,
    select,
    table,
    text,
)

from commonbrain.model.kinds import CausalField, Kind, fields_of
from commonbrain.model.memory import Memory
from commonbrain.storage.interface import Hit, QueryScope
from commonbrain.storage.repositories.embedding_spaces import without_words
from commonbrain.storage.schema.memories import memories
from commonbrain.storage.sql.context import SqlContext
from commonbrain.storage.sql.fast_queries import rows_of
from commonbrain.storage.sqlite.filters import LOOKED_AT, AllowedIds

_ALL: Final = -1
"""No limit."""
_SCORED_MAX: Final = 5000
"""Matches that are scored if all words of a search are common: the newest."""


@dataclass(frozen=True, slots=True)
class _Statements:
    """Statements of one full-text table."""

    ranked: Select[int, float]
    counts: TextualSelect
    newest: Select[int]


def _statements(name: str, *, rows: str) -> _Statements:
    """Build the statements of one full-text table; `rows` is its content table."""
    rowid = table(name, column("rowid")).c.rowid
    matches = literal_column(name).op("MATCH")(bindparam("match"))
    rank = literal_column(f"bm25({name})", Float).label("rank")
    # A word in more than 4% of the rows is dropped from a search for several words, but not below
    # 2,000 matches: among 5,183 papers a bound of 500 cost 1.5 points of nDCG@10. The newest row id
    # stands for the number of rows, which would take longer to count.
    bound = f"(SELECT max(2000, coalesce(max(rowid), 0) / 25) FROM {rows})"  # noqa: S608 constants
    return _Statements(
        ranked=select(rowid, rank)
        .where(matches, rowid >= bindparam("since"))
        .order_by("rank")
        .limit(bindparam("limit")),
        counts=text(
            f"SELECT value, (SELECT count(*) FROM (SELECT rowid FROM {name}"  # noqa: S608 constants
            f" WHERE {name} MATCH value LIMIT {bound})), {bound} FROM json_each(:words)"
        ).columns(column("value"), column("count"), column("bound")),
        newest=select(rowid).where(matches).order_by(rowid.desc()).limit(1).offset(_SCORED_MAX),
    )


_OF_MEMORIES: Final = _statements("memory_text", rows="memories")
_OF_ATOMS: Final = _statements("atom_text", rows="atoms")
_PUT: Final = insert(table("memory_text", *map(column, ("rowid", "text", "keywords"))))
_PUT_ATOM: Final = insert(table("atom_text", column("rowid"), *map(column, CausalField)))
_DROP: Final = text("DELETE FROM memory_text WHERE rowid = :id")
_DROP_ATOM: Final = text("DELETE FROM atom_text WHERE rowid = :id")


def _is_indexed_in(name: str) -> Exists:
    """Return whether a memory is in a full-text table: FTS5 stores the size of each document."""
    sized = table(f"{name}_docsize", column("id"))
    return select(1).where(sized.c.id == memories.c.id).exists()


_WORDLESS: Final = without_words(
    _is_indexed_in("memory_text"), has_fields=_is_indexed_in("atom_text")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SqliteFullText:
    """The full text of one tenant in one transaction."""

    work: SqlContext
    permits: AllowedIds

    def put(self, memory: Memory) -> None:
        """Index a memory, and each field of an atom."""
        words = {"rowid": memory.id, "text": memory.text, "keywords": memory.keywords}
        self.work.change(_PUT, words)
        if memory.kind is Kind.ATOM:
            texts = dict.fromkeys(CausalField, "") | fields_of(memory.detail)
            fields = {str(name): text for name, text in texts.items()}
            self.work.change(_PUT_ATOM, {"rowid": memory.id, **fields})

    def drop(self, memory_id: int) -> None:
        """Remove a memory, whatever its kind."""
        for statement in (_DROP, _DROP_ATOM):
            self.work.connection.execute(statement, {"id": memory_id})

    def missing(self, *, limit: int, after: int) -> list[int]:
        """List searchable memories above an id that are missing from the full text, ascending."""
        return [id_ for (id_,) in self.work.rows(_WORDLESS, {"after": after, "most": limit})]

    def search(self, terms: Sequence[str], scope: QueryScope, *, limit: int) -> list[Hit]:
        """Rank by BM25 over stemmed words, best first; any term may match."""
        if not terms:
            return []
        field = scope.filter.field
        search = _Search(work=self.work, of=_OF_MEMORIES if field is None else _OF_ATOMS)
        words, matches_max = search.rare_terms([_quoted(term, field) for term in terms])
        match = " OR ".join(words)
        since = search.newest(match) if matches_max > _SCORED_MAX else 0
        ranked = search.ranked(match, since=since, limit=LOOKED_AT)
        hits = self.permits.best(ranked, scope, limit=limit)
        if len(hits) < limit and len(ranked) == LOOKED_AT:
            # The scope is narrow: most of the best results were not allowed. Check every match.
            ranked = search.ranked(match, since=0, limit=_ALL)
            permitted = self.permits.among_many(list(ranked), scope)
            best_first = (Hit(id=id_, score=ranked[id_]) for id_ in ranked if id_ in permitted)
            hits = list(islice(best_first, limit))
        return hits


@dataclass(frozen=True, slots=True, kw_only=True)
class _Search:
    """One full-text table in one transaction."""

    work: SqlContext
    of: _Statements

    def ranked(self, match: str, *, since: int, limit: int) -> dict[int, float]:
        """Score the best matches, best first; lower values of FTS5's bm25() are better."""
        given = {"match": match, "since": since, "limit": limit}
        return {
            id_: -rank for id_, rank in rows_of(self.work.connection, self.of.ranked, given=given)
        }

    def newest(self, match: str) -> int:
        """Return the id from which on no more matches exist than are scored."""
        rows = rows_of(self.work.connection, self.of.newest, given={"match": match})
        return rows[0][0] if rows else 0

    def rare_terms(self, quoted: Sequence[str]) -> tuple[Sequence[str], int]:
        """Leave out the words that too many memories have, unless all are such.

        FTS5 scores every match before it gives the best, so that a word which half of the store
        has costs half of the store; and such a word tells little. Counting stops at the bound.

        Returns:
            The words, and how many memories they match at most.

        """
        given = {"words": json.dumps(quoted)}
        counted = rows_of(self.work.connection, self.of.counts, given=given)
        rare_terms = [(word, count) for word, count, bound in counted if count < bound]
        if rare_terms:
            return [word for word, _ in rare_terms], sum(count for _, count in rare_terms)
        return quoted, _SCORED_MAX + 1


def _quoted(term: str, field: CausalField | None) -> str:
    """Make a word a string to FTS5, in which nothing is an operator; NUL would end it early."""
    word = '"' + term.replace("\x00", "").replace('"', '""') + '"'
    return word if field is None else f"{field} : {word}"
