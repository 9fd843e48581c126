"""The size of each tenant, and how common its words are, which determines how it is searched.

Both are counted now and then. For a large tenant a sample of its words is counted: words that are
common in it are common in the tenant, others are rare.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from typing import Final

from sqlalchemy import String, bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY

from commonbrain.model.query import Filter
from commonbrain.storage.sql.context import SqlContext

SCORED_MAX: Final = 2000
"""Matches of sampled words to score, at about one or two microseconds each."""
_USUAL: Final = 0.4
"""A word in a larger share of the memories does not affect the ranking."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedTerms:
    """The words to search for, and the weight of every word that affects the ranking."""

    words: list[str]
    """The words to search for first, then those that only affect the ranking."""
    sought: int
    """The number of words to search for."""
    weights: list[float | None]
    """None if the search itself counts the memories with the word, because it finds all of them."""
    newest: int | None = None
    """How many of the newest memories to search; None searches all."""


def select_rare_terms(
    shares: Mapping[str, float], *, memories: int, rare: float = 0.0
) -> SelectedTerms:
    """Choose among words by the approximate share of the memories that contain them.

    The weight is BM25's inverse document frequency, above 0 even for words in nearly all memories.

    Args:
        shares: the share of each word, in the order of the query, which decides ties.
        memories: the number of memories.
        rare: the share assumed for words that are not in the sample, most of which are rarer.

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
    """Compute the weight as if one more memory lacked the word, so that no weight is negative."""
    return max(log((1 - share) / share), 1e-6) if share < 1 else 1e-6


# The tenant's size, and the size of what shares its partition; -1 if unknown.
_COUNT: Final = text(
    "SELECT count(*), (SELECT c.reltuples FROM pg_class c WHERE c.oid = "
    "(SELECT v.tableoid FROM vectors v WHERE v.tenant_id = :tenant LIMIT 1)) "
    "FROM memory_text WHERE tenant_id = :tenant"
)
_AVERAGE: Final = text("SELECT avg(length) FROM memory_text WHERE tenant_id = :tenant")
# Every n-th memory, chosen by its key alone, before its words are read.
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
"""Count again after a twentieth as many searches as there were memories, which costs little."""
_SOON: Final = 100
"""After a mismatch, count again at the earliest after a hundredth of those searches."""
_GROWN: Final = text(
    "SELECT count(*) FROM (SELECT 1 FROM memory_text WHERE tenant_id = :tenant LIMIT :most) AS few"
)
_LOOKED_EACH: Final = 16
"""After this many searches, check a smaller tenant's partition for growth by others."""
_TIMES: Final = 2
"""How many times the counted number is too many to continue with that count."""
_SAMPLE: Final = 3000
# Measured on a million vectors of 384 dimensions in 20 tenants.
VECTOR_MS: Final = 0.0005
_CODE_MS: Final = 0.010
_CODES_MIN: Final = 300
_CODES_EACH: Final = 270
"""A search by the index compares so many vectors, and one more for each so many memories.

These are 370 of 20,000, 670 of 100,000 and 4,000 of a million, which contain 95% of the nearest ten
even if hundreds are equally near to each other: see `benchmarks load neighbours`.
"""
_EXACT_MIN: Final = 10_000
"""Below this, every vector is compared, so that none is missed."""
_REACHES_MAX: Final = 1000
_FEWER: Final = 8
"""So that one search that had to check many does not make all later ones do so."""
_SEEN: Final = 4
"""A word in at least this many memories of a sample is common."""
_WORDS_MAX: Final = 50_000
"""Words whose lexemes are cached: about ten megabytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The number of a tenant's searchable memories, and their average number of words."""

    memories: int
    average_words: float
    common: Mapping[str, float] = field(default_factory=dict["str", "float"])
    """The share of the memories with each common lexeme."""
    rare: float = 0.0
    """The approximate share of any other lexeme."""
    common_terms: float = 0.0
    """The approximate number of other tenants' vectors in the same index."""
    reaches: dict[Filter, int] = field(default_factory=dict["Filter", "int"], compare=False)
    """How many windows a search by a filter checks first: somewhat fewer than the last one did."""

    @property
    def is_large(self) -> bool:
        """Whether the index finds vectors sooner than a comparison with every one of them.

        The index returns near codes of every tenant in it.
        """
        by_index = self.codes * self.passed * _CODE_MS
        return self.memories > _EXACT_MIN and self.memories * VECTOR_MS > by_index

    @property
    def passed(self) -> float:
        """The number of codes that the index returns for each of the tenant's own."""
        return 1 + self.common_terms / max(self.memories, 1)

    @property
    def codes(self) -> int:
        """The number of vectors that a search by the index compares."""
        return _CODES_MIN + self.memories // _CODES_EACH

    @property
    def lasts(self) -> int:
        """The number of searches for which it is valid."""
        return self.memories // _SHARE

    def note_reach(self, criteria: Filter, reach: int) -> None:
        """Remember how many windows a search had to check."""
        if len(self.reaches) >= _REACHES_MAX:
            self.reaches.clear()
        self.reaches[criteria] = reach - reach // _FEWER

    def is_outgrown(self, count_now: int) -> bool:
        """Return whether more was found than the count allows."""
        return count_now > _TIMES * self.memories


@dataclass(slots=True)
class TenantSizes:
    """The latest counts of this process, shared by its threads."""

    _known: dict[str, tuple[Size, int]] = field(default_factory=dict["str", "tuple[Size, int]"])
    _lexemes: dict[str, Sequence[str]] = field(default_factory=dict["str", "Sequence[str]"])
    _counting: set[str] = field(default_factory=set[str])
    """Tenants that a thread is counting again; other threads use the previous count."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, work: SqlContext) -> Size:
        """Return the size of a transaction's tenant, counted not long ago."""
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
        """Return a size other than one that the results disprove.

        The same one if there is no other yet.
        """
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
        """Return the approximate share of the memories with each word; non-words are absent."""
        lexemes_by_word = self._find_lexemes(work, words)
        return {
            word: min(size.common.get(one, size.rare) for one in lexemes)
            for word in words
            if (lexemes := lexemes_by_word.get(word))
        }

    def _find_lexemes(self, work: SqlContext, words: Sequence[str]) -> dict[str, Sequence[str]]:
        """Return the lexemes of words, which are the same in every tenant and reveal nothing."""
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
        """Return the size that the transaction uses."""
        if self._known is None:
            self._known = self.sizes.of(self.work)
        return self._known

    def anew(self) -> Size:
        """Use another size, if there is one, because the results disprove this one."""
        self._known = self.sizes.anew(self.work, than=self.now())
        return self._known


def _has_grown(work: SqlContext, known: Size) -> bool:
    """Return whether other tenants added much to a partition that is searched vector by vector."""
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
