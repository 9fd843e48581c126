"""Finding in SQLite: full text in FTS5, vectors by codes in the process and rows in the file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from sqlalchemy import (
    Float,
    Select,
    bindparam,
    column,
    func,
    insert,
    literal_column,
    select,
    table,
    text,
    update,
)

from commonbrain.adapters.sql.codes import Codes, Ids
from commonbrain.adapters.sql.looks import confine
from commonbrain.adapters.sql.tables import memories, vectors
from commonbrain.adapters.sql.work import Work
from commonbrain.domain.memory import CURRENT_STATES, Memory
from commonbrain.ports.models import Matrix
from commonbrain.ports.store import Hit, Look

_RESCORED: Final = 500
"""How many of the nearest codes are scored exactly."""
_LOOKED_AT: Final = 200
"""How many of the best are held against a look before a narrow one is searched for itself."""
_FOLLOWED_AT_ONCE: Final = 1000
"""Vectors read at a time when the codes follow the rows: less than a megabyte."""
_COMMON_SHARE: Final = 0.04
"""A word that more than 4% of the memories have is left out of a search for several words."""
_COMMON_AT_LEAST: Final = 500
"""Below so many matches a word is cheap to score, however common it is."""

_text = table("memory_text", column("rowid"), column("text"), column("keywords"))
_MATCHES: Final = literal_column("memory_text").op("MATCH")(bindparam("match"))
_RANK: Final = literal_column("bm25(memory_text)", Float).label("rank")
_RANKED: Final = (
    select(_text.c.rowid, _RANK).where(_MATCHES).order_by("rank").limit(bindparam("limit"))
)
_COUNT: Final = select(func.count()).select_from(
    select(_text.c.rowid).where(_MATCHES).limit(bindparam("bound")).subquery()
)
# The newest row's number: counting the rows would take longer the more there are.
_ROWS: Final = text("SELECT coalesce(max(rowid), 0) FROM memories")
_PUT_TEXT: Final = insert(_text)
_DROP_TEXT: Final = text("DELETE FROM memory_text WHERE rowid = :id")
# The row of a vector that was dropped may still be there, without its value.
_PUT_VECTOR: Final = insert(vectors).prefix_with("OR REPLACE")
_LAST_SEQ: Final = select(func.coalesce(func.max(vectors.c.seq), 0)).where(
    vectors.c.tenant_id == bindparam("tenant"), vectors.c.space_id == bindparam("space")
)
_CHANGES: Final = (
    select(vectors.c.seq, vectors.c.memory_id, vectors.c.vector)
    .where(
        vectors.c.tenant_id == bindparam("tenant"),
        vectors.c.space_id == bindparam("space"),
        vectors.c.seq > bindparam("seq"),
    )
    .order_by(vectors.c.seq)
)
_LISTED: Final = text("SELECT value FROM json_each(:listed)").columns(column("value"))
_BLOBS: Final[Select[int, bytes]] = select(vectors.c.memory_id, vectors.c.vector).where(
    vectors.c.tenant_id == bindparam("tenant"),
    vectors.c.space_id == bindparam("space"),
    vectors.c.vector.is_not(None),
    vectors.c.memory_id.in_(_LISTED),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SqliteIndex:
    """Full text and vectors of one tenant in one transaction."""

    work: Work
    space_id: int
    codes: Codes
    allowed: dict[Look, Select[int]] = field(default_factory=dict["Look", "Select[int]"])
    """Statements for the looks of this transaction: several arms ask with the same one."""

    def put(self, memory: Memory, given: Matrix | None) -> None:
        """Make a memory findable by its words, and by its meaning where `(windows, d)` is given."""
        run = self.work.connection.execute
        self._put_text(memory)
        if given is None:
            return
        seq = self._last_seq()
        key = {
            "tenant_id": self.work.tenant,
            "memory_id": memory.id,
            "space_id": self.space_id,
        }
        halves = given.astype(np.float16)
        run(
            _PUT_VECTOR,
            [
                key | {"part": part, "seq": seq + part + 1, "vector": half.tobytes()}
                for part, half in enumerate(halves)
            ],
        )
        self.work.has_new_vectors = True

    def reword(self, memory: Memory) -> None:
        """Index the words of a memory anew, whose tags or people changed; its vectors stay."""
        self.work.connection.execute(_DROP_TEXT, {"id": memory.id})
        self._put_text(memory)

    def drop(self, memory_id: int) -> None:
        """Make a memory unfindable; readers learn it from the new sequence numbers."""
        self.work.connection.execute(_DROP_TEXT, {"id": memory_id})
        row = vectors.c
        own = (row.tenant_id == self.work.tenant) & (row.memory_id == memory_id)
        emptied = (
            update(vectors).where(own).values(vector=None, seq=self._last_seq() + 1 + row.part)
        )
        self.work.connection.execute(emptied)
        self.work.has_new_vectors = True

    def lexical(self, terms: Sequence[str], look: Look, *, limit: int) -> list[Hit]:
        """Rank by BM25 over stemmed words, best first; any of the terms may match."""
        match = " OR ".join(self._telling([_quoted(term) for term in terms]))
        run = self.work.connection.execute
        # FTS5's bm25() is better the lower it is.
        ranked = {
            id_: -float(rank) for id_, rank in run(_RANKED, {"match": match, "limit": _LOOKED_AT})
        }
        hits = self._allowed_of(ranked, look)
        if len(hits) < limit and len(ranked) == _LOOKED_AT:
            # The look is narrow: most of the best were not allowed. Rank only what is.
            narrow = _RANKED.join(memories, memories.c.id == _text.c.rowid)
            statement = narrow.where(confine(look, self.work.tenant))
            rows = run(statement, {"match": match, "limit": limit})
            hits = [Hit(id=id_, score=-float(rank)) for id_, rank in rows]
        return hits[:limit]

    def nearest(self, query: Matrix, look: Look, *, limit: int) -> list[Hit]:
        """Rank by cosine to a unit vector, the best window of each memory, best first."""
        fresh = self._follow()
        near = [*fresh, *self.codes.nearest(query, limit=_RESCORED).tolist()]
        hits = self._allowed_of(self.similarities(query, near), look)
        if len(hits) < limit and len(self.codes) > _RESCORED:
            # The look is narrow: most of the nearest were not allowed. Look among the allowed.
            among = self.codes.nearest(query, limit=_RESCORED, among=self._allowed(look)).tolist()
            hits = self._allowed_of(self.similarities(query, [*fresh, *among]), look)
        return hits[:limit]

    def similarities(self, query: Matrix, ids: Sequence[int]) -> dict[int, float]:
        """Give the cosine of each memory to a unit vector; memories without one are absent."""
        given = {
            "tenant": self.work.tenant,
            "space": self.space_id,
            "listed": json.dumps(list(ids)),
        }
        rows = self.work.connection.execute(_BLOBS, given).all()
        if not rows:
            return {}
        matrix = np.frombuffer(b"".join([blob for _, blob in rows]), dtype=np.float16)
        cosines = matrix.reshape(len(rows), -1).astype(np.float32) @ query
        best: dict[int, float] = {}
        for (id_, _), cosine in zip(rows, cosines.tolist(), strict=True):
            best[id_] = max(cosine, best.get(id_, -1.0))
        return best

    def pending(self) -> int:
        """Count the findable memories that have no vector yet."""
        of_memory = select(1).where(
            vectors.c.tenant_id == memories.c.tenant_id,
            vectors.c.memory_id == memories.c.id,
            vectors.c.space_id == self.space_id,
            vectors.c.vector.is_not(None),
        )
        missing = select(func.count()).where(
            memories.c.tenant_id == self.work.tenant,
            memories.c.state.in_(sorted(CURRENT_STATES)),
            ~of_memory.exists(),
        )
        return self.work.connection.execute(missing).scalar_one()

    def _put_text(self, memory: Memory) -> None:
        row = {"rowid": memory.id, "text": memory.text, "keywords": memory.keywords}
        self.work.connection.execute(_PUT_TEXT, row)

    def _follow(self) -> list[int]:
        """Bring the codes up to the rows; give what only this transaction may see so far.

        What this transaction wrote itself may yet be rolled back, so it never enters the codes.
        """
        since = {"tenant": self.work.tenant, "space": self.space_id}
        with self.codes.lock:
            rows = self.work.connection.execute(_CHANGES, since | {"seq": self.codes.seq})
            if self.work.has_new_vectors:
                return [memory_id for _, memory_id, vector in rows if vector is not None]
            for batch in rows.partitions(_FOLLOWED_AT_ONCE):
                self.codes.apply([(seq, id_, blob) for seq, id_, blob in batch])
        return []

    def _allowed(self, look: Look) -> Ids:
        statement = select(memories.c.id).where(confine(look, self.work.tenant))
        return np.array(self.work.connection.execute(statement).scalars().all(), dtype=np.int64)

    def _allowed_of(self, scores: Mapping[int, float], look: Look) -> list[Hit]:
        """Keep what a look allows of the best scores, best first, newest on a tie."""
        best = sorted(scores, key=lambda id_: (-scores[id_], -id_))[:_LOOKED_AT]
        statement = self.allowed.get(look)
        if statement is None:
            listed = memories.c.id.in_(_LISTED)
            statement = select(memories.c.id).where(confine(look, self.work.tenant), listed)
            self.allowed[look] = statement
        rows = self.work.connection.execute(statement, {"listed": json.dumps(best)})
        allowed = set(rows.scalars())
        return [Hit(id=id_, score=scores[id_]) for id_ in best if id_ in allowed]

    def _telling(self, quoted: Sequence[str]) -> Sequence[str]:
        """Leave out the words that too many memories have, unless all are such.

        FTS5 scores every match before it gives the best, so that a word which half of the store
        has costs half of the store; and such a word tells little. Counting stops at the bound.
        """
        run = self.work.connection.execute
        total = run(_ROWS).scalar_one()
        bound = max(int(total * _COMMON_SHARE), _COMMON_AT_LEAST)
        if total <= bound:
            return quoted
        counts = {
            word: run(_COUNT, {"match": word, "bound": bound}).scalar_one() for word in quoted
        }
        return [word for word in quoted if counts[word] < bound] or quoted

    def _last_seq(self) -> int:
        given = {"tenant": self.work.tenant, "space": self.space_id}
        return self.work.connection.execute(_LAST_SEQ, given).scalar_one()


def _quoted(term: str) -> str:
    """Make a word a string to FTS5, in which nothing is an operator; NUL would end it early."""
    return '"' + term.replace("\x00", "").replace('"', '""') + '"'
