"""How much each tenant has, and how common its words are: what decides how it is searched.

Both are counted now and then. A large tenant tells its words by a sample: what is common in it is
common in the tenant, and what is not in it is rare.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from typing import Final

from sqlalchemy import String, bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY

from commonbrain.storage.sql.context import SqlContext

SCORED_MAX: Final = 2000
"""How many matches of words that a sample knows are scored, about: a microsecond or two each."""
_USUAL: Final = 0.4
"""What so large a share of the memories has ranks none before another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedTerms:
    """What is searched for, and what every word that ranks weighs."""

    words: list[str]
    """Those that are searched for first, then those that only rank."""
    sought: int
    """How many of the words are searched for."""
    weights: list[float | None]
    """None where the search counts what has the word: it meets all of it."""
    newest: int | None = None
    """How many of the newest memories are looked at; None looks at all."""


def select_rare_terms(
    shares: Mapping[str, float], *, memories: int, rare: float = 0.0
) -> SelectedTerms:
    """Choose among words that such shares of the memories have, about.

    The weight is BM25's inverse document frequency, above 0 even for what nearly all have.

    Args:
        shares: of each word, in the order of the question, which decides between equals.
        memories: how many there are.
        rare: the share that is said of whatever the sample does not know, most of which is rarer.

    """
    chosen = [word for word, share in shares.items() if share < _USUAL] or list(shares)
    rarest = sorted(chosen, key=lambda word: shares[word])
    sought = sum(shares[word] <= rare for word in rarest)
    matches = 0.0
    for word in rarest[sought:]:
        matches += shares[word] * memories
        if matches > SCORED_MAX < memories:
            break
        sought += 1
    if sought or not rarest:
        weights = [None] * sought + [_weight(shares[word]) for word in rarest[sought:]]
        return SelectedTerms(words=rarest, sought=sought, weights=weights)
    return SelectedTerms(
        words=rarest,
        sought=len(rarest),
        weights=[_weight(shares[word]) for word in rarest],
        newest=int(SCORED_MAX / min(sum(shares[word] for word in rarest), 1.0)),
    )


def _weight(share: float) -> float:
    """Weigh a word as if at least one memory more had none, so that none counts against one."""
    return max(log((1 - share) / share), 1e-6) if share < 1 else 1e-6


# How much there is, and how much where it lies with that of others; -1 where that is not known.
_COUNT: Final = text(
    "SELECT count(*), (SELECT c.reltuples FROM pg_class c WHERE c.oid = "
    "(SELECT v.tableoid FROM vectors v WHERE v.tenant_id = :tenant LIMIT 1)) "
    "FROM memory_text WHERE tenant_id = :tenant"
)
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
_SOON: Final = 100
"""Not counted anew, whatever was met, before a hundredth of those searches are over."""
_GROWN: Final = text(
    "SELECT count(*) FROM (SELECT 1 FROM memory_text WHERE tenant_id = :tenant LIMIT :most) AS few"
)
_LOOKED_EACH: Final = 16
"""After so many searches a smaller tenant is looked at for what others put into it since."""
_TIMES: Final = 2
"""How often as many as were counted are too many to go on with what was counted."""
_SAMPLE: Final = 3000
# Measured on a million vectors of 384 dimensions in 20 tenants.
_VECTOR_MS: Final = 0.0005
_INDEX_MS: Final = 2.5
_FOREIGN_MS: Final = 1.0
_EXACT_MIN: Final = 10_000
"""Below it every vector is looked at, for none is overlooked then."""
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
    common_terms: float = 0.0
    """How many vectors of other tenants lie in the same index, about."""

    @property
    def is_large(self) -> bool:
        """Whether vectors are found sooner by the index than by looking at every one of them.

        The index gives what lies near of every tenant in it.
        """
        by_index = _INDEX_MS + _FOREIGN_MS * self.common_terms / max(self.memories, 1)
        return self.memories > _EXACT_MIN and self.memories * _VECTOR_MS > by_index

    @property
    def lasts(self) -> int:
        """For how many searches it holds."""
        return self.memories // _SHARE

    def is_outgrown(self, count_now: int) -> bool:
        """Say whether more was found than can have been there when it was counted."""
        return count_now > _TIMES * self.memories


@dataclass(slots=True)
class TenantSizes:
    """What this process last counted, shared by its threads."""

    _known: dict[str, tuple[Size, int]] = field(default_factory=dict["str", "tuple[Size, int]"])
    _lexemes: dict[str, Sequence[str]] = field(default_factory=dict["str", "Sequence[str]"])
    _counting: set[str] = field(default_factory=set[str])
    """Tenants that a thread is counting anew; others go on meanwhile with what is known."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, work: SqlContext) -> Size:
        """Give the size of a transaction's tenant, counted not long ago."""
        with self._lock:
            known, left = self._known.get(work.tenant, (None, 0))
            if known is not None:
                self._known[work.tenant] = (known, max(left - 1, 0))
        if known is None or not known.lasts:
            return self._count(work)
        if left <= 0 or (left % _LOOKED_EACH == 0 and _has_grown(work, known)):
            return self._count_alone(work, known)
        return known

    def anew(self, work: SqlContext, *, than: Size) -> Size:
        """Give another size than one that what was found belies; the same if there is none yet."""
        with self._lock:
            known, left = self._known.get(work.tenant, (than, 0))
            if known is not than or left > than.lasts - than.lasts // _SOON:
                return known
        return self._count_alone(work, than)

    def _count_alone(self, work: SqlContext, known: Size) -> Size:
        """Count, unless another thread does."""
        with self._lock:
            if work.tenant in self._counting:
                return known
            self._counting.add(work.tenant)
        try:
            return self._count(work)
        finally:
            with self._lock:
                self._counting.discard(work.tenant)

    def _count(self, work: SqlContext) -> Size:
        counted = _counted(work)
        with self._lock:
            self._known[work.tenant] = (counted, counted.lasts)
        return counted

    def shares(self, work: SqlContext, words: Sequence[str], *, size: Size) -> dict[str, float]:
        """Give about the share of the memories that has each word; what is no word is absent."""
        lexemes_by_word = self._find_lexemes(work, words)
        return {
            word: min(size.common.get(one, size.rare) for one in lexemes)
            for word in words
            if (lexemes := lexemes_by_word.get(word))
        }

    def _find_lexemes(self, work: SqlContext, words: Sequence[str]) -> dict[str, Sequence[str]]:
        """Give the lexemes of words, which mean the same in every tenant and tell of none."""
        known = {word: self._lexemes[word] for word in words if word in self._lexemes}
        unknown = [word for word in words if word not in known]
        if not unknown:
            return known
        rows = work.connection.execute(_LEXEMES, {"words": unknown})
        lexemes_by_word: dict[str, Sequence[str]] = {word: tuple(lexemes) for word, lexemes in rows}
        with self._lock:
            if len(self._lexemes) + len(lexemes_by_word) > _WORDS_MAX:
                self._lexemes = {}
            self._lexemes.update(lexemes_by_word)
        return known | lexemes_by_word


@dataclass(slots=True, kw_only=True)
class OneSize:
    """One size for a whole transaction, so that the same terms score the same in it."""

    work: SqlContext
    sizes: TenantSizes
    _known: Size | None = None

    def now(self) -> Size:
        """Give the size that the transaction goes by."""
        if self._known is None:
            self._known = self.sizes.of(self.work)
        return self._known

    def anew(self) -> Size:
        """Go by another, if there is one, for what was found belies this one."""
        self._known = self.sizes.anew(self.work, than=self.now())
        return self._known


def _has_grown(work: SqlContext, known: Size) -> bool:
    """Say whether others put much into a tenant that is searched vector by vector."""
    if known.memories > _TIMES * _EXACT_MIN:
        return False
    most = _TIMES * known.memories + 1
    count = work.connection.execute(_GROWN, {"tenant": work.tenant, "most": most}).scalar_one()
    return known.is_outgrown(count)


def _counted(work: SqlContext) -> Size:
    parameters: dict[str, object] = {"tenant": work.tenant}
    run = work.connection.execute
    count, together = run(_COUNT, parameters).one()
    common_terms = max((together or 0) - count, 0.0)
    if count <= SCORED_MAX:
        average = run(_AVERAGE, parameters).scalar_one()
        return Size(
            memories=count, average_words=max(float(average or 1), 1.0), common_terms=common_terms
        )
    parameters["each"] = max(1, min(count // _SAMPLE, SCORED_MAX // (2 * _SEEN)))
    sampled, average = run(_SAMPLED, parameters).one()
    common = run(_COMMON, parameters | {"seen": _SEEN})
    return Size(
        memories=count,
        average_words=max(float(average or 1), 1.0),
        common={word: min(seen / sampled, 1.0) for word, seen in common},
        rare=_SEEN / 2 / max(sampled, 1),
        common_terms=common_terms,
    )
