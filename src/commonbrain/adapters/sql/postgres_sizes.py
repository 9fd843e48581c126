"""How much each tenant has, and how common its words are: what decides how it is searched.

Both are counted now and then. A large tenant tells its words by a sample: what is common in it is
common in the tenant, and what is not in it is rare.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import String, bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY

from commonbrain.adapters.sql.postgres_telling import SCORED_MAX
from commonbrain.adapters.sql.work import Work

_COUNT: Final = text("SELECT count(*) FROM memory_text WHERE tenant_id = :tenant")
_AVERAGE: Final = text("SELECT avg(length) FROM memory_text WHERE tenant_id = :tenant")
# Every so many memories, chosen by the key alone, before their words are read.
_EACH: Final = (
    "FROM memory_text WHERE tenant_id = {tenant} AND memory_id = ANY (ARRAY("
    "SELECT memory_id FROM memory_text WHERE tenant_id = {tenant} "
    "AND mod(hashint8(memory_id), {each}) = 0))"
)
_SAMPLED: Final = text(
    f"SELECT count(*), avg(length) {_EACH.format(tenant=':tenant', each=':each')}"
)
_COMMON: Final = text(
    "SELECT word, ndoc FROM ts_stat(format("  # noqa: S608 our own
    f"'SELECT words {_EACH.format(tenant='%1$L', each='%2$s')}', "
    "CAST(:tenant AS text), CAST(:each AS integer))) WHERE ndoc >= :seen"
)
_LEXEMES: Final = text(
    "SELECT word, tsvector_to_array(to_tsvector('commonbrain', word)) FROM unnest(:words) AS word"
).bindparams(bindparam("words", type_=ARRAY(String)))
_SHARE: Final = 20
"""Counted anew after so many searches as a twentieth of what there was: it costs little then."""
_SAMPLE: Final = 3000
_SEEN: Final = 4
"""In how many memories of a sample a word must be to be called common."""
_WORDS_MAX: Final = 50_000
"""Words whose lexemes are kept: about ten megabytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How many memories a tenant has that can be found, and how many words one has on average."""

    memories: int
    average_words: float
    common: Mapping[str, float] = field(default_factory=dict["str", "float"])
    """The share of the memories that have a lexeme, of those that are common."""
    rare: float = 0.0
    """About the share that has any other."""


@dataclass(slots=True)
class Sizes:
    """What this process last counted, shared by its threads."""

    _known: dict[str, tuple[Size, int]] = field(default_factory=dict["str", "tuple[Size, int]"])
    _lexemes: dict[str, Sequence[str]] = field(default_factory=dict["str", "Sequence[str]"])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, work: Work) -> Size:
        """Give the size of a transaction's tenant, counted not long ago."""
        with self._lock:
            known, left = self._known.get(work.tenant, (None, 0))
            if known is not None and left > 0:
                self._known[work.tenant] = (known, left - 1)
                return known
        counted = _counted(work)
        with self._lock:
            self._known[work.tenant] = (counted, counted.memories // _SHARE)
        return counted

    def shares(self, work: Work, words: Sequence[str], *, size: Size) -> dict[str, float]:
        """Give about the share of the memories that has each word; what is no word is absent."""
        told = self._told(work, words)
        return {
            word: min(size.common.get(one, size.rare) for one in lexemes)
            for word, lexemes in told.items()
            if lexemes
        }

    def _told(self, work: Work, words: Sequence[str]) -> dict[str, Sequence[str]]:
        """Give the lexemes of words, which mean the same in every tenant and tell of none."""
        known = {word: self._lexemes[word] for word in words if word in self._lexemes}
        unknown = [word for word in words if word not in known]
        if not unknown:
            return known
        rows = work.connection.execute(_LEXEMES, {"words": unknown})
        asked: dict[str, Sequence[str]] = {word: tuple(lexemes) for word, lexemes in rows}
        with self._lock:
            if len(self._lexemes) + len(asked) > _WORDS_MAX:
                self._lexemes = {}
            self._lexemes.update(asked)
        return known | asked


def _counted(work: Work) -> Size:
    told: dict[str, object] = {"tenant": work.tenant}
    run = work.connection.execute
    count: int = run(_COUNT, told).scalar_one()
    if count <= SCORED_MAX:
        average = run(_AVERAGE, told).scalar_one()
        return Size(memories=count, average_words=max(float(average or 1), 1.0))
    told["each"] = max(1, min(count // _SAMPLE, SCORED_MAX // (2 * _SEEN)))
    sampled, average = run(_SAMPLED, told).one()
    common = run(_COMMON, told | {"seen": _SEEN})
    return Size(
        memories=count,
        average_words=max(float(average or 1), 1.0),
        common={word: min(seen / sampled, 1.0) for word, seen in common},
        rare=_SEEN / 2 / max(sampled, 1),
    )
