"""Full text in SQLite: all that memories say, or what atoms say in one field, in FTS5."""

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
"""The limit that is none."""
_SCORED_MAX: Final = 5000
"""How many matches are scored when all words of a search are common: the newest."""


@dataclass(frozen=True, slots=True)
class _Statements:
    """What is asked of one full text; FTS5's names stand for the table in what it does."""

    ranked: Select[int, float]
    counts: TextualSelect
    newest: Select[int]


def _statements(name: str, *, rows: str) -> _Statements:
    """Write the statements for one full text; `rows` is the table that it stands for."""
    rowid = table(name, column("rowid")).c.rowid
    matches = literal_column(name).op("MATCH")(bindparam("match"))
    rank = literal_column(f"bm25({name})", Float).label("rank")
    # A word that more than 4% of the rows have is left out of a search for several words, but not
    # below 2,000 matches: among 5,183 papers a bound of 500 cost 1.5 points of nDCG@10. The newest
    # row's number stands for the count of rows, which would take longer the more there are.
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


def _stands_in(name: str) -> Exists:
    """Say of a row of memories whether a full text has it: FTS5 keeps a size of each document."""
    sized = table(f"{name}_docsize", column("id"))
    return select(1).where(sized.c.id == memories.c.id).exists()


_WORDLESS: Final = without_words(_stands_in("memory_text"), has_fields=_stands_in("atom_text"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SqliteFullText:
    """The words of one tenant's memories in one transaction."""

    work: SqlContext
    permits: AllowedIds

    def put(self, memory: Memory) -> None:
        """Index what a memory says, and what an atom says in each field."""
        words = {"rowid": memory.id, "text": memory.text, "keywords": memory.keywords}
        self.work.change(_PUT, words)
        if memory.kind is Kind.ATOM:
            told = dict.fromkeys(CausalField, "") | fields_of(memory.detail)
            fields = {str(name): said for name, said in told.items()}
            self.work.change(_PUT_ATOM, {"rowid": memory.id, **fields})

    def drop(self, memory_id: int) -> None:
        """Take a memory out, whatever its kind."""
        for statement in (_DROP, _DROP_ATOM):
            self.work.connection.execute(statement, {"id": memory_id})

    def lacking(self, *, limit: int, after: int) -> list[int]:
        """List findable memories above an id that do not stand in the full text, ascending."""
        return [id_ for (id_,) in self.work.rows(_WORDLESS, {"after": after, "most": limit})]

    def search(self, terms: Sequence[str], scope: QueryScope, *, limit: int) -> list[Hit]:
        """Rank by BM25 over stemmed words, best first; any of the terms may match."""
        if not terms:
            return []
        field = scope.filter.field
        asked = _Search(work=self.work, of=_OF_MEMORIES if field is None else _OF_ATOMS)
        words, matches_max = asked.telling([_quoted(term, field) for term in terms])
        match = " OR ".join(words)
        since = asked.newest(match) if matches_max > _SCORED_MAX else 0
        ranked = asked.ranked(match, since=since, limit=LOOKED_AT)
        hits = self.permits.best(ranked, scope, limit=limit)
        if len(hits) < limit and len(ranked) == LOOKED_AT:
            # The look is narrow: most of the best were not allowed. Look at every match.
            ranked = asked.ranked(match, since=0, limit=_ALL)
            permitted = self.permits.among_many(list(ranked), scope)
            best_first = (Hit(id=id_, score=ranked[id_]) for id_ in ranked if id_ in permitted)
            hits = list(islice(best_first, limit))
        return hits


@dataclass(frozen=True, slots=True, kw_only=True)
class _Search:
    """One full text, asked in one transaction."""

    work: SqlContext
    of: _Statements

    def ranked(self, match: str, *, since: int, limit: int) -> dict[int, float]:
        """Score the best matches, best first; FTS5's bm25() is better the lower it is."""
        given = {"match": match, "since": since, "limit": limit}
        return {
            id_: -rank for id_, rank in rows_of(self.work.connection, self.of.ranked, given=given)
        }

    def newest(self, match: str) -> int:
        """Give the id from which on there are no more matches than are scored."""
        rows = rows_of(self.work.connection, self.of.newest, given={"match": match})
        return rows[0][0] if rows else 0

    def telling(self, quoted: Sequence[str]) -> tuple[Sequence[str], int]:
        """Leave out the words that too many memories have, unless all are such.

        FTS5 scores every match before it gives the best, so that a word which half of the store
        has costs half of the store; and such a word tells little. Counting stops at the bound.

        Returns:
            The words, and how many memories they match at most.

        """
        given = {"words": json.dumps(quoted)}
        counted = rows_of(self.work.connection, self.of.counts, given=given)
        telling = [(word, count) for word, count, bound in counted if count < bound]
        if telling:
            return [word for word, _ in telling], sum(count for _, count in telling)
        return quoted, _SCORED_MAX + 1


def _quoted(term: str, field: CausalField | None) -> str:
    """Make a word a string to FTS5, in which nothing is an operator; NUL would end it early."""
    word = '"' + term.replace("\x00", "").replace('"', '""') + '"'
    return word if field is None else f"{field} : {word}"
