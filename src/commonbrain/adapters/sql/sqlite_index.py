"""Finding in SQLite: full text in FTS5, vectors by codes in the process and rows in the file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Final

import numpy as np
from sqlalchemy import (
    ColumnElement,
    Float,
    Select,
    bindparam,
    case,
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
from commonbrain.adapters.sql.looks import allowed, within
from commonbrain.adapters.sql.sqlite_mending import drop_unsound
from commonbrain.adapters.sql.tables import memories, vectors
from commonbrain.adapters.sql.work import Work
from commonbrain.domain.memory import FINDABLE_STATES, Memory
from commonbrain.domain.query import Filter
from commonbrain.domain.scope import Caller
from commonbrain.ports.models import Matrix
from commonbrain.ports.store import Hit, Look

_FINDABLE: Final = sorted(FINDABLE_STATES)
_RESCORED: Final = 500
"""How many of the nearest codes are scored exactly."""
_LOOKED_AT: Final = 200
"""How many of the best are held against a look before a narrow one is searched for itself."""
_SPARE: Final = 4
"""One in so many is held against a look beyond the limit, before all that is looked at are."""
_ALL: Final = -1
"""The limit that is none."""
_BITE: Final = 2000
"""How many of the nearest codes are held against a narrow look before all that it allows are."""
_BUILT_MAX: Final = 256
"""Statements kept for the looks that were asked with last."""
_BITE_HOLDS: Final = 2
"""Times the limit that a bite must bring: the nearest by code are not quite the nearest."""
_FOLLOWED_AT_ONCE: Final = 1000
"""Vectors read at a time when the codes follow the rows: less than a megabyte."""
_SCORED_MAX: Final = 5000
"""How many matches are scored when all words of a search are common: the newest."""
# A word that more than 4% of the memories have is left out of a search for several words. Below
# 500 matches a word is cheap to score, however common it is. The newest row's number stands for
# the count of rows, which would take longer the more there are.
_BOUND: Final = "(SELECT max(500, coalesce(max(rowid), 0) / 25) FROM memories)"

_text = table("memory_text", column("rowid"), column("text"), column("keywords"))
_MATCHES: Final = literal_column("memory_text").op("MATCH")(bindparam("match"))
_RANK: Final = literal_column("bm25(memory_text)", Float).label("rank")
_RANKED: Final = (
    select(_text.c.rowid, _RANK)
    .where(_MATCHES, _text.c.rowid >= bindparam("since"))
    .order_by("rank")
    .limit(bindparam("limit"))
)
_COUNTS: Final = text(
    "SELECT value, (SELECT count(*) FROM (SELECT rowid FROM memory_text"  # noqa: S608 constants
    f" WHERE memory_text MATCH value LIMIT {_BOUND})), {_BOUND} FROM json_each(:words)"
)
_NEWEST_MATCHES: Final = (
    select(_text.c.rowid)
    .where(_MATCHES)
    .order_by(_text.c.rowid.desc())
    .limit(1)
    .offset(_SCORED_MAX)
)
_PUT_TEXT: Final = insert(_text)
_DROP_TEXT: Final = text("DELETE FROM memory_text WHERE rowid = :id")
# The row of a vector that was dropped may still be there, without its value.
_PUT_VECTOR: Final = insert(vectors).prefix_with("OR REPLACE")
_LAST_SEQ: Final = select(func.coalesce(func.max(vectors.c.seq), 0)).where(
    vectors.c.tenant_id == bindparam("tenant"), vectors.c.space_id == bindparam("space")
)
# A vector of another size can be compared with none: it is as good as dropped.
_IS_WHOLE: Final = func.length(vectors.c.vector) == bindparam("size")
_CHANGES: Final = (
    select(
        vectors.c.seq,
        vectors.c.memory_id,
        case((_IS_WHOLE, vectors.c.vector)).label("vector"),
    )
    .where(
        vectors.c.tenant_id == bindparam("tenant"),
        vectors.c.space_id == bindparam("space"),
        vectors.c.seq > bindparam("seq"),
    )
    .order_by(vectors.c.seq)
)
_LISTED: Final = text("SELECT value FROM json_each(:listed)").columns(column("value"))
"""The members of a JSON list."""
_BLOBS: Final[Select[int, bytes]] = select(vectors.c.memory_id, vectors.c.vector).where(
    vectors.c.tenant_id == bindparam("tenant"),
    vectors.c.space_id == bindparam("space"),
    _IS_WHOLE,
    vectors.c.memory_id.in_(_LISTED),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SqliteIndex:
    """Full text and vectors of one tenant in one transaction."""

    work: Work
    space_id: int
    codes: Codes
    allowed: dict[Look, list[int]] = field(default_factory=dict["Look", "list[int]"])
    """What narrow looks of this transaction allow: several arms ask with the same one."""

    def put(self, memory: Memory, given: Matrix | None) -> None:
        """Make a memory findable by its words, and by its meaning where `(windows, d)` is given."""
        self._put_text(memory)
        if given is not None:
            self._put_vectors(memory.id, given)

    def embed(self, memory_id: int, given: Matrix) -> bool:
        """Give a memory its vectors, if it is findable and has none yet."""
        waits = self._unembedded(memories.c.id).where(memories.c.id == memory_id)
        if self.work.connection.execute(waits).first() is None:
            return False
        self._put_vectors(memory_id, given)
        return True

    def drop_unsound_vectors(self) -> int:
        """Take away vectors of another size or of memories that cannot be found; count them."""
        dropped = drop_unsound(
            self.work.connection,
            tenant=self.work.tenant,
            space_id=self.space_id,
            size=self._vector_bytes,
            seq=self._last_seq() + 1,
        )
        # What is kept in the process follows after the commit, like every other reader.
        self.work.is_followed = True
        return dropped

    @property
    def _here(self) -> dict[str, object]:
        return {"tenant": self.work.tenant, "space": self.space_id}

    @property
    def _vector_bytes(self) -> int:
        return self.codes.dimensions * np.dtype(np.float16).itemsize

    def _put_text(self, memory: Memory) -> None:
        words = {"rowid": memory.id, "text": memory.text, "keywords": memory.keywords}
        self.work.connection.execute(_PUT_TEXT, words)

    def _put_vectors(self, memory_id: int, given: Matrix) -> None:
        seq = self._last_seq()
        key = {
            "tenant_id": self.work.tenant,
            "memory_id": memory_id,
            "space_id": self.space_id,
        }
        halves = given.astype(np.float16)
        self.work.connection.execute(
            _PUT_VECTOR,
            [
                key | {"part": part, "seq": seq + part + 1, "vector": half.tobytes()}
                for part, half in enumerate(halves)
            ],
        )
        self.work.changed.add(memory_id)

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
        self.work.changed.add(memory_id)

    def lexical(self, terms: Sequence[str], look: Look, *, limit: int) -> list[Hit]:
        """Rank by BM25 over stemmed words, best first; any of the terms may match."""
        words, matches_max = self._telling([_quoted(term) for term in terms])
        match = " OR ".join(words)
        run = self.work.connection.execute
        since = 0
        if matches_max > _SCORED_MAX:
            since = run(_NEWEST_MATCHES, {"match": match}).scalar() or 0
        # FTS5's bm25() is better the lower it is.
        ranked = self._ranked(match, since=since, limit=_LOOKED_AT)
        hits = self._best_allowed(ranked, look, limit=limit)
        if len(hits) < limit and len(ranked) == _LOOKED_AT:
            # The look is narrow: most of the best were not allowed. Look at every match.
            ranked = self._ranked(match, since=0, limit=_ALL)
            permitted = self._allowed_of_many(list(ranked), look)
            best_first = (Hit(id=id_, score=ranked[id_]) for id_ in ranked if id_ in permitted)
            hits = list(islice(best_first, limit))
        return hits[:limit]

    def nearest(
        self, query: Matrix, look: Look, *, limit: int, at_least: float = -1.0
    ) -> list[Hit]:
        """Rank by cosine to a unit vector, the best window of each memory, best first."""
        self.follow()
        near = self.codes.nearest(query, limit=_RESCORED).tolist()
        scores = self._scored(query, near, at_least=at_least)
        hits = self._best_allowed(scores, look, limit=limit)
        # Every vector was scored, or all that were not are farther than is asked for.
        is_all_scored = len(self.codes) <= _RESCORED or len(scores) < len(set(near))
        if len(hits) < limit and not (is_all_scored and len(scores) <= _LOOKED_AT):
            # The look is narrow: most of the nearest were not allowed. Look among the allowed.
            among = self.codes.nearest(
                query, limit=_RESCORED, among=self._among(query, look, limit=limit)
            ).tolist()
            scores = self._scored(query, among, at_least=at_least)
            hits = self._best_allowed(scores, look, limit=limit)
        return hits[:limit]

    def _scored(self, query: Matrix, near: Sequence[int], *, at_least: float) -> dict[int, float]:
        """Score exactly what is near by code, and what this transaction changed itself."""
        cosines = self.similarities(query, [*self.work.changed, *near])
        return {id_: cosine for id_, cosine in cosines.items() if cosine >= at_least}

    def similarities(self, query: Matrix, ids: Sequence[int]) -> dict[int, float]:
        """Give the cosine of each memory to a unit vector; memories without one are absent."""
        self.follow()
        settled = [id_ for id_ in ids if id_ not in self.work.changed]
        cosines, unkept = self.codes.cosines(query, settled)
        changed = [id_ for id_ in ids if id_ in self.work.changed]
        return cosines | self._read_cosines(query, [*unkept, *changed])

    def _read_cosines(self, query: Matrix, ids: Sequence[int]) -> dict[int, float]:
        """Score by the rows what is not kept in the process."""
        if not ids:
            return {}
        given = self._here | {"listed": json.dumps(ids), "size": self._vector_bytes}
        rows = self.work.connection.execute(_BLOBS, given).all()
        if not rows:
            return {}
        matrix = np.frombuffer(b"".join([blob for _, blob in rows]), dtype=np.float16)
        cosines = matrix.reshape(len(rows), -1).astype(np.float32) @ query
        best: dict[int, float] = {}
        for (id_, _), cosine in zip(rows, cosines.tolist(), strict=True):
            best[id_] = max(cosine, best.get(id_, -1.0))
        return best

    def follow(self) -> None:
        """Bring what is kept up to the rows, once for a transaction: it sees no later ones.

        What this transaction wrote itself may yet be rolled back, so it is never kept here.
        """
        if self.work.is_followed:
            return
        since = self._here | {"size": self._vector_bytes}
        with self.codes.lock:
            rows = self.work.connection.execute(_CHANGES, since | {"seq": self.codes.seq})
            for batch in rows.partitions(_FOLLOWED_AT_ONCE):
                if len(batch) == _FOLLOWED_AT_ONCE:
                    self.codes.expect(self._last_seq() - self.codes.seq)
                settled = [
                    (seq, id_, blob) for seq, id_, blob in batch if id_ not in self.work.changed
                ]
                self.codes.apply(settled)
        self.work.is_followed = True

    def pending(self) -> int:
        """Count the findable memories that have no vector yet."""
        return self.work.connection.execute(self._unembedded(func.count())).scalar_one()

    def unembedded(self, *, limit: int) -> list[int]:
        """List findable memories that have no vector yet, oldest first."""
        waiting = self._unembedded(memories.c.id).order_by(memories.c.id).limit(limit)
        return list(self.work.connection.execute(waiting).scalars())

    def _unembedded(self, what: ColumnElement[int]) -> Select[int]:
        """Select from the findable memories without a vector; superseded ones answer `as_of`."""
        of_memory = select(1).where(
            vectors.c.tenant_id == memories.c.tenant_id,
            vectors.c.memory_id == memories.c.id,
            vectors.c.space_id == self.space_id,
            vectors.c.vector.is_not(None),
        )
        return select(what).where(
            memories.c.tenant_id == self.work.tenant,
            memories.c.state.in_(_FINDABLE),
            ~of_memory.exists(),
        )

    def _ranked(self, match: str, *, since: int, limit: int) -> dict[int, float]:
        """Score the best matches, best first; FTS5's bm25() is better the lower it is."""
        given = {"match": match, "since": since, "limit": limit}
        rows = self.work.connection.execute(_RANKED, given).all()
        return {id_: -float(rank) for id_, rank in rows}

    def _among(self, query: Matrix, look: Look, *, limit: int) -> Ids:
        """Give what a narrow look allows: all of it, or enough of the nearest by code."""
        if look.filter.project is None and len(self.codes) > _BITE:
            near = self._allowed_among(self.codes.nearest(query, limit=_BITE).tolist(), look)
            if len(near) >= _BITE_HOLDS * limit:
                return np.array(sorted(near), dtype=np.int64)
        return np.array(self._allowed(look), dtype=np.int64)

    def _allowed_of_many(self, ids: Sequence[int], look: Look) -> set[int]:
        """Say which of many a look allows: asked of each, or of all where an index finds all."""
        if look.filter.project is None:
            return self._allowed_among(ids, look)
        return set(self._allowed(look))

    def _allowed(self, look: Look) -> list[int]:
        """Give all that a look allows; a project is found by its index, other looks read all."""
        known = self.allowed.get(look)
        if known is None or self.work.changed:
            statement = _all_allowed(look.caller, look.filter, tenant=self.work.tenant)
            listed = self.work.connection.execute(statement, {"now": look.now}).scalar_one()
            known = self.allowed[look] = json.loads(listed)
        return known

    def _best_allowed(self, scores: Mapping[int, float], look: Look, *, limit: int) -> list[Hit]:
        """Keep what a look allows of the best scores, best first, newest on a tie."""
        best = sorted(zip(scores.values(), scores, strict=True), reverse=True)[:_LOOKED_AT]
        hits: list[Hit] = []
        enough = limit + limit // _SPARE
        for some in (best[:enough], best[enough:]):
            if some and len(hits) < limit:
                permitted = self._allowed_among([id_ for _, id_ in some], look)
                hits += (Hit(id=id_, score=score) for score, id_ in some if id_ in permitted)
        return hits

    def _allowed_among(self, ids: Sequence[int], look: Look) -> set[int]:
        statement = _allowed_of(look.caller, look.filter, tenant=self.work.tenant)
        given = {"now": look.now, "listed": json.dumps(ids)}
        return set(json.loads(self.work.connection.execute(statement, given).scalar_one()))

    def _telling(self, quoted: Sequence[str]) -> tuple[Sequence[str], int]:
        """Leave out the words that too many memories have, unless all are such.

        FTS5 scores every match before it gives the best, so that a word which half of the store
        has costs half of the store; and such a word tells little. Counting stops at the bound.

        Returns:
            The words, and how many memories they match at most.

        """
        given = {"words": json.dumps(quoted)}
        counted = self.work.connection.execute(_COUNTS, given).all()
        telling = [(word, count) for word, count, bound in counted if count < bound]
        if telling:
            return [word for word, _ in telling], sum(count for _, count in telling)
        return quoted, _SCORED_MAX + 1

    def _last_seq(self) -> int:
        return self.work.connection.execute(_LAST_SEQ, self._here).scalar_one()


def _quoted(term: str) -> str:
    """Make a word a string to FTS5, in which nothing is an operator; NUL would end it early."""
    return '"' + term.replace("\x00", "").replace('"', '""') + '"'


# One row that lists the ids is read several times as fast as a row for each.
@lru_cache(_BUILT_MAX)
def _allowed_of(caller: Caller, wanted: Filter, *, tenant: str) -> Select[str]:
    """List what a look allows of the ids `listed`, a JSON list too."""
    ids = func.json_group_array(memories.c.id)
    return select(ids).where(within(caller, wanted, tenant=tenant), memories.c.id.in_(_LISTED))


@lru_cache(_BUILT_MAX)
def _all_allowed(caller: Caller, wanted: Filter, *, tenant: str) -> Select[str]:
    """List all that a look allows."""
    return select(func.json_group_array(allowed(caller, wanted, tenant=tenant).subquery().c.id))
