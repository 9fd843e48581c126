"""Ordering candidates by everything known of them, with fixed weights."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from commonbrain.domain.kinds import KINDS, MessageDetail
from commonbrain.domain.memory import Memory
from commonbrain.domain.query import FIELD, Candidate
from commonbrain.domain.revision import Span
from commonbrain.domain.scoring import doubted, is_dormant, strength
from commonbrain.flows.recall.graph import recency
from commonbrain.flows.recall.intent import prior
from commonbrain.flows.recall.plan import Plan, search_terms, words_of

# Relevance decides; what was said around it, when and by whom come next; the rest breaks near-ties,
# so that of two equal matches the fresher, more trusted and more telling one comes first. How each
# was chosen is told with its measure in docs/explanation/decisions.md.
WEIGHTS: Final[Mapping[str, float]] = {
    "fused": 1.0,
    "linked": 0.6,
    "date": 0.3,
    "beside": 0.3,
    "kind": 0.15,
    "speaker": 0.1,
    "support": 0.1,
    "same_project": 0.06,
    "strength": 0.06,
    "trust": 0.05,
    "confidence": 0.04,
    "salience": 0.04,
    "rating": 0.04,
    "same_session": 0.03,
    "recency": 0.02,
    # Known and traced for later training; a fixed weight cost more on titles than it brought.
    "headline": 0.0,
    "contradicted": -0.25,
    # As much as a contradiction: what it says may be as true as ever, and nobody has looked.
    "needs_review": -0.25,
}
_ALWAYS: Final = ("fused", "strength", "trust", "headline", "confidence", "salience", "recency")
_FULL: Final = sum(WEIGHTS[name] for name in _ALWAYS)
"""What a memory scores that lacks nothing but what few questions ask for."""
_FADING: Final = timedelta(days=7)
"""How far from the time that a query names a memory counts a third as near."""
_BESIDE: Final = 2
"""Neighbours of a message in its thread that speak for it."""
_WORDS_SHARED_MIN: Final = 2
_VOTES: Final = 3.0
"""Votes at which a rating counts two thirds."""


def weigh(
    plan: Plan,
    memories: Iterable[Memory],
    *,
    features: Mapping[int, Mapping[str, float]],
) -> list[Candidate]:
    """Score every memory by the weighted sum of its features, best first, newest on a tie.

    Skills stand above the rest. Without a query there is nothing to be best at: the newest comes
    first, whatever its score. New is what happened lately, and then what was recorded lately.
    """
    known = list(memories)
    beside = _beside(known, fused={m.id: features[m.id]["fused"] for m in known})
    terms = frozenset(search_terms(plan.query))
    weights = plan.tuning.of(WEIGHTS)
    candidates: list[Candidate] = []
    for one in known:
        given = {**features[one.id], "beside": beside[one.id]}
        told = _features(plan, one, given=given, terms=terms)
        candidates.append(_candidate(one, features=told, weights=weights))
    newest_first = sorted(candidates, key=_when, reverse=True)
    if not plan.query:
        return newest_first
    return sorted(newest_first, key=lambda c: (-c.features["skill"], -c.score))


def _when(candidate: Candidate) -> tuple[datetime, datetime, int]:
    memory = candidate.memory
    return memory.occurred_at, memory.recorded_at, memory.id


def _candidate(
    memory: Memory, *, features: Mapping[str, float], weights: Mapping[str, float]
) -> Candidate:
    score = sum(weight * features[name] for name, weight in weights.items()) / _FULL
    return Candidate(memory=memory, features=features, score=max(score, 0.0))


def _features(
    plan: Plan, memory: Memory, *, given: Mapping[str, float], terms: frozenset[str]
) -> Mapping[str, float]:
    return {
        "linked": 0.0,
        "support": 0.0,
        "contradicted": 0.0,
        "needs_review": 0.0,
        **given,
        "date": _nearness(memory, plan.period),
        "kind": prior(memory.kind, plan.intent),
        "speaker": float((memory.speaker or "").casefold() in plan.speakers),
        "headline": _share(terms, memory.headline),
        "recency": 1.0 if KINDS[memory.kind].half_life is None else recency(memory, plan.now),
        # What sleeps is still found, behind all that is awake and as good a match.
        "strength": 0.0 if is_dormant(memory, plan.now) else strength(memory, plan.now),
        "trust": memory.trust.weight,
        "confidence": doubted(memory.confidence, given),
        "salience": memory.salience,
        "rating": math.tanh(memory.rating / _VOTES),
        "same_project": float(memory.project is not None and memory.project == plan.project),
        "same_session": float(_is_of_session(memory, plan)),
        **_matched(plan),
    }


def _matched(plan: Plan) -> Mapping[str, float]:
    """Name the field that was searched: whatever answers there does so by it."""
    field = plan.filter.field
    is_asked = field is not None and plan.query and not plan.is_about_time
    return {f"{FIELD}{field}": 1.0} if is_asked else {}


def _nearness(memory: Memory, period: Span | None) -> float:
    """Say how near to a time it happened: 1 within, less by the day."""
    if period is None:
        return 0.0
    gap = max(period.since - memory.occurred_at, memory.occurred_at - period.until, timedelta())
    return math.exp(-(gap / _FADING))


def _share(terms: frozenset[str], headline: str) -> float:
    """Say how many of the terms a headline has, as a share."""
    return len(words_of(headline) & terms) / len(terms) if terms else 0.0


def tells_much(plan: Plan, memory: Memory) -> bool:
    """Say whether a memory has at least half of a query's telling words, and two of them.

    It stands in for meaning where nobody asked and the embedder has not answered in time.
    """
    terms = frozenset(plan.terms)
    shared = len(terms & words_of(f"{memory.headline} {memory.body}"))
    return shared >= max(_WORDS_SHARED_MIN, len(terms) / 2)


def _is_of_session(memory: Memory, plan: Plan) -> bool:
    return memory.session is not None and memory.session == plan.caller.session


def _beside(memories: Sequence[Memory], *, fused: Mapping[int, float]) -> Mapping[int, float]:
    """Say how well the neighbours of each message in its thread match, 0..1, the nearer the more.

    An answer is seldom said in the words of its question; what is said just before it often is.
    """
    threads: defaultdict[int, list[Memory]] = defaultdict(list)
    for memory in memories:
        if isinstance(memory.detail, MessageDetail) and memory.detail.thread_id is not None:
            threads[memory.detail.thread_id].append(memory)
    beside: defaultdict[int, float] = defaultdict(float)
    for said in threads.values():
        for memory in said:
            near = sorted(
                (fused[one.id] * _closeness(one, memory) for one in said if one is not memory),
                reverse=True,
            )
            beside[memory.id] = min(sum(near[:_BESIDE]), 1.0)
    return beside


def _closeness(one: Memory, other: Memory) -> float:
    """Say how near in time two messages were said: 1 within a second, half at 3, fading slowly."""
    seconds = abs((one.occurred_at - other.occurred_at).total_seconds())
    return 1.0 / math.log2(1.0 + max(seconds, 1.0))
