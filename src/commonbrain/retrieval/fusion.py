"""Context and fusion: read the memories around matches, then combine all scores into one.

An answer is seldom said in the words of its question; what was said just before it often is. So a
memory of a thread or session is also scored by the passage around it: the mean of its neighbours'
own scores, for which nothing has to be embedded again.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain, filterfalse, islice, pairwise
from math import fsum
from typing import TYPE_CHECKING, Final, TypeVar

from commonbrain.embeddings.interface import Matrix
from commonbrain.model.kinds import Intent
from commonbrain.model.limits import EXPANSION_MAX
from commonbrain.model.links import DISAGREEMENTS, Link, LinkType, is_sure, preferred
from commonbrain.model.memory import Memory
from commonbrain.model.query import is_allowed
from commonbrain.model.scope import isolates
from commonbrain.retrieval.guidance import GUIDANCE
from commonbrain.retrieval.query_plan import CHANGES, NO_OVERRIDES, QueryPlan, RetrievalOverrides
from commonbrain.retrieval.related import RelatedMemory, related_by_name
from commonbrain.retrieval.retrievers import (
    LEXICAL,
    RETRIEVER_WEIGHTS,
    RETRIEVERS,
    VECTOR,
    ScoresById,
    ScoresByRetriever,
)

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction


_Value = TypeVar("_Value")

STAGE: Final = "passages"
_BEFORE: Final = 2
_AFTER: Final = 1
"""Fewer after than before: the next message replies more often than it explains."""
_REACH: Final = max(_BEFORE, _AFTER)
"""Neighbours to read on each side, so that every passage of a match is complete."""

_EMPTY: Final[Mapping[int, float]] = {}
_DEFAULT_CONTEXT_SHARE: Final = 0.5
"""Share of the context in the fused score, before the length of the message is known."""
_SOURCE_TOP_K: Final = 3
"""A thread or session is scored by the mean of this many of its best memories."""


@dataclass(frozen=True, slots=True)
class ThreadContext:
    """The memories around the matches, and how well their passages match."""

    passage_scores: Mapping[str, ScoresById] = field(default_factory=dict[str, ScoresById])
    """By retriever: mean score of the passage around a memory, by the memory's id."""
    matches: ScoresByRetriever = field(default_factory=dict[str, ScoresById])
    """The matches, with the neighbours added."""
    sources: Mapping[int, int | str] = field(default_factory=dict[int, int | str])
    """Thread or session by memory."""
    after: Mapping[int, int] = field(default_factory=dict[int, int])
    """Next message in the thread, by message."""
    before: Mapping[int, int] = field(default_factory=dict[int, int])
    """Previous message in the thread, by message."""


def expand_context(
    tx: Transaction,
    plan: QueryPlan,
    *,
    matches: ScoresByRetriever,
    query_vector: Matrix | None,
    lowest_cosine: float = -1.0,
) -> ThreadContext:
    """Add the memories around those that matched, as far as the caller may see them.

    A session is seldom about one thing only: what it stored next to a match is added from
    `lowest_cosine` on, or without a vector.
    """
    if not plan.query or not plan.overrides.is_enabled(STAGE):
        return ThreadContext(matches=matches)
    ids = list(dict.fromkeys([*matches[LEXICAL], *matches[VECTOR]]))
    around = tx.threads.around(ids, plan.query_scope, before=_REACH, after=_REACH)
    if not around:
        return ThreadContext(matches=matches)
    sources = {id_: passage.source for passage in around.values() for id_ in passage.ids}
    unscored_ids = [id_ for id_ in sources if id_ not in matches[VECTOR]]
    near = {} if query_vector is None else tx.index.similarities(query_vector, unscored_ids)
    cosines = {**matches[VECTOR], **near}
    after = {one: next_ for of in around.values() for one, next_ in pairwise(of.ids)}
    runs = list(_runs(sources, after))
    unrelated = {
        id_
        for id_, source in sources.items()
        if isinstance(source, str)
        and id_ not in matches[LEXICAL]
        and cosines.get(id_, 1.0) < lowest_cosine
    }
    return ThreadContext(
        passage_scores={
            LEXICAL: _mean_by_passage(runs, matches[LEXICAL], missing=0.0),
            VECTOR: _mean_by_passage(runs, cosines, missing=None),
        },
        matches={**matches, VECTOR: _without(unrelated, cosines)},
        sources=_without(unrelated, sources),
        after=after,
        before={next_: one for one, next_ in after.items()},
    )


def _without(dropped: Collection[int], values: Mapping[int, _Value]) -> Mapping[int, _Value]:
    if not dropped:
        return values
    return {id_: one for id_, one in values.items() if id_ not in dropped}


def _runs(ids: Mapping[int, object], after: Mapping[int, int]) -> Iterator[Sequence[int]]:
    """Yield the messages that follow one another, in order."""
    for first in ids.keys() - after.values():
        run = [first]
        while (later := after.get(run[-1])) is not None:
            run.append(later)
        yield run


def _mean_by_passage(
    runs: Iterable[Sequence[int]], scores: Mapping[int, float], *, missing: float | None
) -> ScoresById:
    """Return the mean score of the passage around each message.

    A message without a score counts as `missing`, or not at all if that is None.
    """
    means: dict[int, float] = {}
    for run in runs:
        each = [scores.get(id_, missing) for id_ in run]
        is_complete = None not in each
        if is_complete and not any(each):
            # Few messages match by their words.
            means |= dict.fromkeys(run, 0.0)
            continue
        for place, id_ in enumerate(run):
            near = each[max(0, place - _BEFORE) : place + _AFTER + 1]
            known = [one for one in near if one is not None]
            if known:
                means[id_] = fsum(known) / len(known)
            else:
                # Two runs may end alike, and the last one counts.
                means.pop(id_, None)
    return means


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedScores:
    """The scores of all candidates, scaled to 0..1."""

    normalized: ScoresByRetriever
    self_scores: Mapping[int, float]
    """Quadratic mean of a candidate's own normalized scores."""
    context_scores: Mapping[int, float]
    """Mean of the normalized scores of the passage around a message."""
    fused: Mapping[int, float]
    """A blend of the two."""
    thread: Mapping[int, float]
    """Score of the best memories of the thread or session, relative to the best one."""

    def features_of(self, ids: Iterable[int]) -> dict[int, dict[str, float]]:
        """Return the ranking features of candidates; all 0 for one that no retriever found."""
        matched = {name: scores for name, scores in self.normalized.items() if scores}
        features: dict[int, dict[str, float]] = {}
        for id_ in ids:
            own = self.self_scores.get(id_)
            if own is None:
                features[id_] = {"self_score": 0.0, "context_score": 0.0, "skill": 0.0}
                continue
            features[id_] = each = dict.fromkeys(RETRIEVERS, 0.0)
            for name, scores in matched.items():
                each[name] = scores.get(id_, 0.0)
            each["self_score"] = own
            each["context_score"] = self.context_scores.get(id_, own)
            each["fused"] = self.fused[id_]
            each["thread"] = self.thread[id_]
        return features

    def shortlist(self, *, count: int) -> list[int]:
        """Return the ids with the best fused scores; skills and guidance come first."""
        first = {**self.normalized.get("skill", _EMPTY), **self.normalized.get(GUIDANCE, _EMPTY)}
        best = sorted(self.fused, key=self.fused.__getitem__, reverse=True)
        ahead = [id_ for id_ in best if first.get(id_)] if first else []
        if not ahead:
            return best[:count]
        rest = filterfalse(frozenset(ahead).__contains__, best)
        return list(islice(chain(ahead, rest), count))


def fuse(
    matches: ScoresByRetriever,
    overrides: RetrievalOverrides = NO_OVERRIDES,
    *,
    passage_scores: ScoresByRetriever | None = None,
    sources: Mapping[int, int | str] | None = None,
) -> FusedScores:
    """Scale all scores to 0..1 and combine them, those of passages included."""
    sources = sources or {}
    weights = _active_weights(
        overrides.of(RETRIEVER_WEIGHTS), {name for name, scores in matches.items() if scores}
    )
    normalized = {
        name: _min_max(scores, floor=RETRIEVERS[name].score_of_no_match)
        for name, scores in matches.items()
    }
    self_scores = _quadratic_means(normalized, weights=weights)
    self_scores |= dict.fromkeys(sources.keys() - self_scores.keys(), 0.0)
    context_scores = _weighted_sums(
        _normalize_passages(passage_scores or {}, matches=matches, normalized=normalized),
        weights=weights,
    )
    return FusedScores(
        normalized=normalized,
        self_scores=self_scores,
        context_scores=context_scores,
        fused={
            id_: one + _DEFAULT_CONTEXT_SHARE * (context_scores.get(id_, one) - one)
            for id_, one in self_scores.items()
        },
        thread=_score_sources(self_scores, sources),
    )


def _active_weights(table: Mapping[str, float], names: Collection[str]) -> Mapping[str, float]:
    """Return the weights of the retrievers that found something, scaled to a sum of 1."""
    active = {name: weight for name, weight in table.items() if weight and name in names}
    total = sum(active.values())
    return {name: weight / total for name, weight in active.items()}


def _quadratic_means(
    normalized: ScoresByRetriever, *, weights: Mapping[str, float]
) -> dict[int, float]:
    """Return the root of the weighted mean of squares: one strong match outranks two weak ones."""
    squares = dict.fromkeys(chain.from_iterable(normalized.values()), 0.0)
    for name, weight in weights.items():
        for id_, score in normalized[name].items():
            squares[id_] += weight * score**2
    return {id_: math.sqrt(square) for id_, square in squares.items()}


def _normalize_passages(
    passage_scores: ScoresByRetriever, *, matches: ScoresByRetriever, normalized: ScoresByRetriever
) -> ScoresByRetriever:
    """Scale passage scores between the lowest match and the best message's own score.

    With the lowest passage as zero, the second best of a few passages would count as no match. With
    the best passage always as 1, passages that miss would outrank memories without a thread.
    """
    scaled_passages: dict[str, dict[int, float]] = {}
    for name, scores in passage_scores.items():
        own = normalized[name]
        top = max((score for id_, score in own.items() if id_ in scores), default=0.0)
        floor = RETRIEVERS[name].score_of_no_match
        if floor is None:
            floor = min(matches[name].values(), default=0.0)
        scaled_passages[name] = _min_max(scores, floor=floor, top=top)
    return scaled_passages


def _weighted_sums(
    normalized: ScoresByRetriever, *, weights: Mapping[str, float]
) -> Mapping[int, float]:
    sums: defaultdict[int, float] = defaultdict(float)
    for name, scores in normalized.items():
        weight = weights.get(name, 0.0)
        for id_, score in scores.items():
            sums[id_] += weight * score
    return sums


def _score_sources(
    self_scores: Mapping[int, float], sources: Mapping[int, int | str]
) -> dict[int, float]:
    """Score each candidate by its source's best memories, or by itself without a source.

    Sources are divided by the best source, other candidates by the best candidate.
    """
    by_source: defaultdict[int | str, list[float]] = defaultdict(list)
    for id_, source in sources.items():
        by_source[source].append(self_scores[id_])
    best = {source: _mean_of_best(scores) for source, scores in by_source.items()}
    best_source = max(best.values(), default=0.0) or 1.0
    best_score = max(self_scores.values(), default=0.0) or 1.0
    relative = {source: one / best_source for source, one in best.items()}
    return {
        id_: relative[sources[id_]] if id_ in sources else one / best_score
        for id_, one in self_scores.items()
    }


def _mean_of_best(scores: list[float]) -> float:
    # Few: sorting all of them is faster than a heap.
    best = sorted(scores, reverse=True)[:_SOURCE_TOP_K]
    return fsum(best) / len(best)


def _min_max(
    scores: Mapping[int, float], *, floor: float | None = None, top: float = 1.0
) -> dict[int, float]:
    """Scale scores to 0..`top` by min-max; equal scores all become `top`.

    `floor` is the score of no match, if it is lower than the lowest score given.
    """
    if not scores:
        return {}
    high, low = max(scores.values()), min(scores.values())
    if floor is not None and high > floor:
        low = min(low, floor)
    if high == low:
        return dict.fromkeys(scores, top)
    span = high - low
    return {id_: top * ((score - low) / span) for id_, score in scores.items()}


SEEDS_MAX: Final = 12
"""The best candidates, whose links are followed."""
_NAMED_SEEDS_MAX: Final = 3
"""The best candidates, whose names are followed if a question asks for causes."""
_LINKS_MAX: Final = 200
"""Links followed, strongest first; one memory may have thousands."""
_REACHED_MAX: Final = 24
"""Neighbours read, to find the few worth adding."""
RECENCY_HALF_LIFE: Final = timedelta(hours=168)
# A stated reason counts more than a similarity; a contradiction supports nothing.
TYPE_WEIGHTS: Final[Mapping[LinkType, float]] = {
    LinkType.DERIVED_FROM: 1.0,
    LinkType.DEPENDS_ON: 1.0,
    LinkType.SUPPORTS: 1.0,
    LinkType.CAUSES: 1.0,
    LinkType.CHANGES: 1.0,
    LinkType.ENABLES: 0.8,
    LinkType.ABOUT: 0.8,
    LinkType.PRECEDES: 0.6,
    LinkType.CORRELATES: 0.5,
    LinkType.RELATES_TO: 0.5,
}


@dataclass(frozen=True, slots=True)
class LinkExpansion:
    """The links of the best candidates, and the memories at their other ends."""

    links: Sequence[Link] = ()
    added: Mapping[int, float] = field(default_factory=dict[int, float])
    """Memories added for their links, with their weight, 0..1."""
    support: Mapping[int, float] = field(default_factory=dict[int, float])
    """Support of candidates by other candidates, 0..1."""
    ends: Mapping[int, Memory] = field(default_factory=dict[int, Memory])
    """The memories at the other ends, added or not."""

    def conflicting_pairs(
        self, known: Mapping[int, Memory]
    ) -> Iterator[tuple[Memory, Memory, Link]]:
        """Return the conflicting pairs whose memories are both known."""
        for link in self.links:
            if link.type in DISAGREEMENTS and is_sure(link):
                one, other = known.get(link.from_id), known.get(link.to_id)
                if one is not None and other is not None:
                    yield one, other, link


def expand_links(
    tx: Transaction, plan: QueryPlan, *, matches: Mapping[int, Memory], fused: Mapping[int, float]
) -> LinkExpansion:
    """Follow the links of the best candidates by one step."""
    seeds = sorted(matches, key=fused.__getitem__, reverse=True)[:SEEDS_MAX]
    every = tx.links.touching(seeds, limit=_LINKS_MAX)
    links = [link for link in every if link.trust.weight >= plan.filter.trust_min]
    if not plan.overrides.is_enabled(CHANGES):
        links = [link for link in links if link.type is not LinkType.CHANGES]
    named = _related(tx, plan, seeds=[matches[seed] for seed in seeds[:_NAMED_SEEDS_MAX]])
    if not links and not named:
        return LinkExpansion()
    reached: defaultdict[int, float] = defaultdict(float)
    for seed, end, link in _steps(links, frozenset(seeds)):
        pull = fused[seed] * link.strength * TYPE_WEIGHTS.get(link.type, 0.0)
        reached[end] = max(reached[end], pull)
    for one in named:
        pull = fused[one.to] * one.confidence * TYPE_WEIGHTS[LinkType.RELATES_TO]
        reached[one.memory.id] = max(reached[one.memory.id], pull)
    new_ids = sorted((end for end in reached if end not in matches), key=lambda end: -reached[end])
    ends = tx.memories.get(new_ids[:_REACHED_MAX])
    return LinkExpansion(
        links=links,
        added=_added(plan, ends, pull=reached),
        support={id_: pull for id_, pull in reached.items() if id_ in matches and pull > 0},
        ends=ends,
    )


def _related(tx: Transaction, plan: QueryPlan, *, seeds: Sequence[Memory]) -> list[RelatedMemory]:
    """Find earlier memories that name what the best candidates name, for a question for causes."""
    if plan.intent is not Intent.CAUSAL or plan.filter.field is not None:
        return []
    times = {one.id: one.occurred_at for one in seeds}
    related = related_by_name(tx, plan.query_scope, memories=seeds, limit=_REACHED_MAX)
    return [one for one in related if one.memory.occurred_at <= times[one.to]]


def find_contradicted(
    graph: LinkExpansion, plan: QueryPlan, *, known: Mapping[int, Memory]
) -> dict[int, float]:
    """Return which memories a preferred one contradicts, with the strength, 0..1.

    Only links of equal or higher trust count, and only if the preferred memory is visible.
    """
    strengths: dict[int, float] = {}
    for one, other, link in graph.conflicting_pairs(known):
        best = preferred(one, other)
        rest = other if best is one else one
        if isolates(one.project, other.project):
            continue
        is_entitled = link.trust.weight >= rest.trust.weight
        if is_entitled and is_allowed(best, plan.caller, criteria=plan.filter, now=plan.now):
            strengths[rest.id] = max(link.strength, strengths.get(rest.id, 0.0))
    return strengths


def _steps(links: Sequence[Link], seeds: frozenset[int]) -> Iterator[tuple[int, int, Link]]:
    """Return each link from the side of a candidate."""
    for link in links:
        if link.from_id in seeds:
            yield link.from_id, link.to_id, link
        if link.to_id in seeds:
            yield link.to_id, link.from_id, link


def _added(
    plan: QueryPlan, ends: Mapping[int, Memory], *, pull: Mapping[int, float]
) -> dict[int, float]:
    """Choose the memories with the strongest links, favouring recent ones.

    A search in one field of atoms adds none.
    """
    if plan.filter.field is not None:
        return {}
    worth = {
        id_: pull[id_] * recency(memory, plan.now)
        for id_, memory in ends.items()
        if pull[id_] > 0 and is_allowed(memory, plan.caller, criteria=plan.filter, now=plan.now)
    }
    limit = min(EXPANSION_MAX, plan.budget.max_items // 2)
    best = sorted(worth, key=lambda id_: (-worth[id_], -id_))[:limit]
    return {id_: worth[id_] for id_ in best}


def recency(memory: Memory, now: datetime) -> float:
    """Return the recency of a memory, 0..1, halved for each week since it occurred."""
    return 2.0 ** -max((now - memory.occurred_at) / RECENCY_HALF_LIFE, 0.0)
