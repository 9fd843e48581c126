"""The index in SQLite: full text by FTS5, vectors by in-memory codes and rows of the file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Final

import numpy as np
from sqlalchemy import (
    BigInteger,
    Exists,
    Float,
    TextualSelect,
    bindparam,
    column,
    func,
    insert,
    select,
    table,
    text,
    update,
)

from commonbrain.embeddings.interface import Matrix
from commonbrain.model.kinds import CausalField, Kind, fields_of
from commonbrain.model.memory import Memory
from commonbrain.model.values import dataclass, replace
from commonbrain.storage.index import SqlIndex
from commonbrain.storage.interface import Hit, QueryScope
from commonbrain.storage.repositories.embedding_spaces import MissingEmbeddings, without_words
from commonbrain.storage.schema.memories import field_vectors, memories, vectors
from commonbrain.storage.sql.context import SqlContext
from commonbrain.storage.sql.statements import rows_of
from commonbrain.storage.sqlite.vectors import (
    LOOKED_AT,
    AllowedIds,
    BinaryVectorIndex,
    SqliteVectors,
    drop_unsound,
)
from commonbrain.text.search_words import indexed_text

_SCORED_MAX: Final = 5000
"""Matches that are scored if all words of a search are common: the newest."""


@cache
def _ranking(name: str, *, is_every: bool) -> TextualSelect:
    """Build the search of one full-text table.

    All its limits are literals: with parameters in their place, SQLite takes twice as long.

    FTS5 scores every match before it gives the best, so that a word which half of the store has
    costs half of the store; and such a word tells little. So one in more than 4% of the rows is
    dropped from a search, but not below 2,000 matches: among 5,183 papers a bound of 500 cost 1.5
    points of nDCG@10. No word is in more rows than there are, so that few rows are not counted word
    by word. If all words are common, all of them count, and only the newest matches are scored,
    unless it `is_every`.
    """
    matching = f"SELECT rowid FROM {name} WHERE {name} MATCH"  # noqa: S608 constants
    # Ids are times, so the highest is no count. FTS5's sizes are the smallest rows to count.
    size = f"SELECT count(*) AS rows FROM {name}_docsize"  # noqa: S608
    bound = "(SELECT max(2000, rows / 25) FROM size)"
    newest = f"{matching} match ORDER BY rowid DESC LIMIT 1 OFFSET {_SCORED_MAX}"
    since = (
        f"AND rowid >= (SELECT CASE WHEN matches <= {_SCORED_MAX} THEN 0 "  # noqa: S608
        f"ELSE coalesce(({newest}), 0) END FROM search)"
    )
    limit = -1 if is_every else LOOKED_AT
    counted = f"SELECT count(*) FROM ({matching} value LIMIT {bound})"  # noqa: S608
    statement = (
        f"WITH size AS MATERIALIZED ({size}), "  # noqa: S608
        f"words AS MATERIALIZED (SELECT value, {bound} AS bound, "
        f"CASE WHEN (SELECT rows FROM size) < 2000 THEN 0 ELSE ({counted}) END AS count "
        "FROM json_each(:words)), "
        "search AS MATERIALIZED (SELECT coalesce(group_concat(value, ' OR ') "
        "FILTER (WHERE count < bound), group_concat(value, ' OR ')) AS match, "
        f"coalesce(sum(count) FILTER (WHERE count < bound), {_SCORED_MAX} + 1) AS matches "
        f"FROM words) SELECT rowid, bm25({name}) AS rank FROM {name} "
        f"WHERE {name} MATCH (SELECT match FROM search) "
        f"{'' if is_every else since} ORDER BY rank LIMIT {limit}"
    )
    return text(statement).columns(column("rowid", BigInteger), column("rank", Float))


_PUT: Final = insert(table("memory_text", *map(column, ("rowid", "text", "keywords"))))
_PUT_ATOM: Final = insert(table("atom_text", column("rowid"), *map(column, CausalField)))
_COUNT: Final = text("SELECT count(*) FROM memory_text_docsize")
_COUNT_ATOMS: Final = text("SELECT count(*) FROM atom_text_docsize")
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
        text, keywords = indexed_text(memory.text), indexed_text(memory.keywords)
        self.work.change(_PUT, {"rowid": memory.id, "text": text, "keywords": keywords})
        if memory.kind is Kind.ATOM:
            texts = dict.fromkeys(CausalField, "") | fields_of(memory.detail)
            fields = {str(name): indexed_text(text) for name, text in texts.items()}
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
        words = [_quoted(term, field) for term in terms]
        best = self._ranked(words, field=field)
        hits = self.permits.best(best, scope, limit=limit)
        if len(hits) < limit and len(best) == LOOKED_AT:
            # The scope is narrow: most of the best results were not allowed. Check every match.
            ranked = self._ranked(words, field=field, is_every=True)
            permitted = self.permits.among_many(list(ranked), scope)
            best_first = (Hit(id=id_, score=ranked[id_]) for id_ in ranked if id_ in permitted)
            hits = list(islice(best_first, limit))
        return hits

    def count(self, field: CausalField | None) -> int:
        """Count the rows of FTS5's sizes, the smallest that there are."""
        question = _COUNT if field is None else _COUNT_ATOMS
        return self.work.connection.execute(question).scalar_one()

    def _ranked(
        self, words: Sequence[str], *, field: CausalField | None, is_every: bool = False
    ) -> dict[int, float]:
        """Score the best matches, best first; lower values of FTS5's bm25() are better."""
        name = "memory_text" if field is None else "atom_text"
        question = _ranking(name, is_every=is_every)
        given = {"words": json.dumps(words)}
        scored = rows_of(self.work.connection, question, given=given)
        return {id_: -rank for id_, rank in scored}


def _quoted(term: str, field: CausalField | None) -> str:
    """Make a word a string to FTS5, in which nothing is an operator; NUL would end it early."""
    word = '"' + term.replace("\x00", "").replace('"', '""') + '"'
    return word if field is None else f"{field} : {word}"


# The row of a removed vector may remain, without its value.
_PUT_WINDOW: Final = insert(vectors).prefix_with("OR REPLACE")
# Each field of each space numbers its own changes.
_OTHERS: Final = field_vectors.alias()
_NEXT: Final = select(func.coalesce(func.max(_OTHERS.c.seq), 0) + 1).where(
    _OTHERS.c.tenant_id == bindparam("tenant"),
)
_PUT_FIELD: Final = (
    insert(field_vectors)
    .prefix_with("OR REPLACE")
    .values(
        tenant_id=bindparam("tenant"),
        memory_id=bindparam("memory"),
        space_id=bindparam("space"),
        field=bindparam("name"),
        seq=_NEXT.where(
            _OTHERS.c.space_id == bindparam("space"), _OTHERS.c.field == bindparam("name")
        ).scalar_subquery(),
        vector=bindparam("half"),
    )
)
_DROP_FIELDS: Final = (
    update(field_vectors)
    .where(
        field_vectors.c.tenant_id == bindparam("tenant"),
        field_vectors.c.memory_id == bindparam("memory"),
    )
    .values(
        vector=None,
        seq=_NEXT.where(
            _OTHERS.c.space_id == field_vectors.c.space_id,
            _OTHERS.c.field == field_vectors.c.field,
        )
        .correlate(field_vectors)
        .scalar_subquery(),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SqliteIndex(SqlIndex):
    """Full text and vectors of one tenant in one transaction."""

    words: SqliteFullText
    space_id: int
    codes: Callable[[CausalField | None], BinaryVectorIndex]
    """Returns the in-memory vectors of whole memories, or of one field."""
    permits: AllowedIds
    whole: SqliteVectors

    @classmethod
    def of(
        cls,
        work: SqlContext,
        *,
        space_id: int,
        codes: Callable[[CausalField | None], BinaryVectorIndex],
    ) -> SqliteIndex:
        """Set up the index of a transaction."""
        permits = AllowedIds(work=work)
        return cls(
            work=work,
            space_id=space_id,
            codes=codes,
            permits=permits,
            words=SqliteFullText(work=work, permits=permits),
            whole=SqliteVectors(work=work, space_id=space_id, codes=codes(None), permits=permits),
            missing=MissingEmbeddings(work=work, space_id=space_id),
        )

    def drop_unsound_vectors(self) -> int:
        """Remove vectors of the wrong size or of memories that are not searchable.

        Return their number.
        """
        dropped = drop_unsound(
            self.work.connection,
            tenant=self.work.tenant,
            space_id=self.space_id,
            size=self.whole.vector_bytes,
            seq=self.whole.last_seq + 1,
        )
        self.work.highest.pop(vectors, None)
        # In-memory vectors follow after the commit, as for every other reader.
        self.work.followed.update((None, *CausalField))
        return dropped

    def reword(self, memory: Memory) -> None:
        """Index the words of a memory again after its tags or people changed; its vectors stay."""
        self.words.drop(memory.id)
        self.words.put(memory)

    def drop(self, memory_id: int) -> None:
        """Remove a memory from the index; readers learn it from new sequence numbers."""
        self.words.drop(memory_id)
        row = vectors.c
        own = (row.tenant_id == self.work.tenant) & (row.memory_id == memory_id)
        self.work.highest.pop(vectors, None)
        # Each space numbers its own changes.
        known = self.work.connection.execute(select(row.space_id).distinct().where(own)).scalars()
        for space in known.all():
            last = replace(self.whole, space_id=space).last_seq
            emptied = update(vectors).where(own, row.space_id == space)
            self.work.connection.execute(emptied.values(vector=None, seq=last + 1 + row.part))
        given = {"tenant": self.work.tenant, "memory": memory_id}
        self.work.connection.execute(_DROP_FIELDS, given)
        self.work.changed.add(memory_id)

    def nearest(
        self, query: Matrix, scope: QueryScope, *, limit: int, at_least: float = -1.0
    ) -> list[Hit]:
        """Rank by cosine to a unit vector, the best window of each memory, best first."""
        vectors = self.vectors_of(scope.filter.field)
        return vectors.nearest(query, scope, limit=limit, at_least=at_least)

    def follow(self) -> None:
        """Update the in-memory vectors of whole memories.

        A field is updated when it is searched.
        """
        self.whole.follow()

    def vectors_of(self, field: CausalField | None) -> SqliteVectors:
        """Return the vectors of whole memories, or of one field."""
        if field is None:
            return self.whole
        return SqliteVectors(
            work=self.work,
            space_id=self.space_id,
            codes=self.codes(field),
            permits=self.permits,
            field=field,
        )

    def put_windows(self, memory_id: int, windows: Matrix) -> None:
        """Store the vectors of a memory's windows with the next sequence numbers."""
        seq = self.work.highest.get(vectors)
        if seq is None:
            seq = self.whole.last_seq
        key = {"tenant_id": self.work.tenant, "memory_id": memory_id, "space_id": self.space_id}
        rows = [
            key | {"part": part, "seq": seq + part + 1, "vector": half.tobytes()}
            for part, half in enumerate(windows.astype(np.float16))
        ]
        self.work.change_by_each(_PUT_WINDOW, rows)
        self.work.highest[vectors] = seq + len(rows)
        self.work.changed.add(memory_id)

    def put_fields(self, memory_id: int, given: Mapping[CausalField, Matrix]) -> None:
        """Store the vector of each field of an atom."""
        key = self.whole.here | {"memory": memory_id}
        rows = [
            key | {"name": name, "half": vector.astype(np.float16).tobytes()}
            for name, vector in given.items()
        ]
        if rows:
            self.work.change_by_each(_PUT_FIELD, rows)
            self.work.changed.add(memory_id)
