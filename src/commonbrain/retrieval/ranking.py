"""Ranking: order candidates by weighted features, then by a learned model if one serves."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from heapq import nlargest
from itertools import islice, zip_longest
from math import log
from operator import attrgetter, mul
from typing import Final

from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.learning.serving import ScoringFailure
from commonbrain.model.kinds import ASSISTANT_ROLES, KINDS, Intent, Kind, MessageDetail
from commonbrain.model.limits import RECALL_TOKENS_DEFAULT
from commonbrain.model.memory import Memory, doubted, effective_strength
from commonbrain.model.model_card import (
    BY_WEIGHTS,
    RERANK,
    RERANKER,
    ModelCard,
    ModelRole,
    model_name,
)
from commonbrain.model.query import FIELD, Budget, Candidate
from commonbrain.model.revision import BeliefPeriod
from commonbrain.retrieval import second_step
from commonbrain.retrieval.fusion import recency
from commonbrain.retrieval.guidance import GUIDANCE
from commonbrain.retrieval.query_plan import QueryPlan, kind_prior, words_of
from commonbrain.retrieval.retrievers import Deadline
from commonbrain.services import Services
from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.time_expressions.parser import names_time

# Relevance decides; thread, time and speaker come next; the rest breaks near-ties, so that of two
# equal matches the fresher, more trusted and more informative one comes first. The weights were
# tuned on half of LoCoMo: see docs/explanation/decisions.md.
FEATURE_WEIGHTS: Final[Mapping[str, float]] = {
    "fused": 1.0,
    "linked": 0.6,
    # What a person asked to be kept to counts for every request of its topic, in whatever words.
    GUIDANCE: 1.0,
    "date": 0.4,
    "thread": 0.25,
    "substance": 0.2,
    "kind": 0.1,
    "dated": 0.1,
    "speaker": 0.1,
    "support": 0.1,
    "same_project": 0.06,
    "strength": 0.03,
    "trust": 0.05,
    "confidence": 0.04,
    "salience": 0.02,
    "rating": 0.04,
    "same_session": 0.03,
    "recency": 0.02,
    # An assistant mostly repeats what its user said.
    "assistant": -0.4,
    "contradicted": -0.25,
    # As much as a contradiction: it may still be true, but no one has checked.
    "needs_review": -0.25,
    # A question is seldom the answer.
    "asking": -0.3,
}
_BEFORE_GUIDANCE: Final = 3
"""Best candidates that no instruction or preference comes before: what is asked comes first."""
_ALWAYS: Final = (
    "fused",
    "thread",
    "substance",
    "strength",
    "trust",
    "confidence",
    "salience",
    "recency",
)
_FULL_SCORE: Final = sum(FEATURE_WEIGHTS[name] for name in _ALWAYS)
"""Score of a memory with full marks in the features that apply to every question."""
NORMALIZED_WEIGHTS: Final[Mapping[str, float]] = {
    name: weight / _FULL_SCORE for name, weight in FEATURE_WEIGHTS.items()
}
"""Weights of a score in 0..1; a learned model starts from the score that they give."""
_DATE_DECAY: Final = timedelta(days=7)
"""Distance from the query's period at which proximity falls to 1/e."""
_OUTSIDE_MAX: Final = 0.85
"""Proximity just outside the period, so that of two equal matches the one inside wins.

From 0.95 down it decides for questions of time; at 0.7 it begins to cost first places on LoCoMo,
where people speak of a day after it is over.
"""
_CONTEXT_SHARE_MAX: Final = 0.7
"""Share of the context in the score of an empty message."""
_HALVING_CHARS: Final = 400
"""Length at which the share of the context is halved."""
_SUBSTANTIAL_CHARS: Final = 150
"""Length from which a message counts as fully informative."""
_USER_ROLES: Final = frozenset({"user", "human"})
"""Speakers whose questions are informative: they say what the user does and needs."""
_SENTENCE: Final = lazy_pattern(r"[^.!?]*[.!?]*")
_WORDS_SHARED_MIN: Final = 2
_LENGTH_SCALE: Final = math.log1p(4000)
"""Logarithm of the length, in characters, from which the feature `length` is 1."""
_RATING_SCALE: Final = 3.0
"""Rating at which the feature is tanh(1), about three quarters."""


def rank(
    plan: QueryPlan,
    memories: Iterable[Memory],
    *,
    features: Mapping[int, Mapping[str, float]],
) -> list[Candidate]:
    """Score every memory by the weighted sum of its features, best first, newest on a tie.

    Skills come first. Without a query, the order is newest first: by `occurred_at`, then by
    `recorded_at`. Of a time that holds more than fits, every day keeps its share.
    """
    weights = {
        name: weight for name, weight in plan.overrides.of(FEATURE_WEIGHTS).items() if weight
    }
    context = _QueryContext.of(plan)
    if context.asks_for_several:
        special = plan.overrides.of(second_step.WEIGHTS)
        weights |= {name: weight for name, weight in special.items() if weight}
    shares = tuple(weights.values())
    candidates: list[Candidate] = []
    for one in memories:
        all_features = _compute_features(context, one, given=features[one.id])
        score = sum(map(mul, shares, map(all_features.__getitem__, weights))) / _FULL_SCORE
        candidates.append(Candidate(memory=one, features=all_features, score=max(score, 0.0)))
    if any(one.features[GUIDANCE] for one in candidates):
        candidates = _limit_guidance(candidates, weight=weights.get(GUIDANCE, 0.0) / _FULL_SCORE)
    newest_first = sorted(candidates, key=_BY_RECENCY, reverse=True)
    if not plan.query:
        count = plan.budget.max_items
        return share_days(newest_first, count=count) if plan.lists_time else newest_first
    best_first = sorted(newest_first, key=_BY_SCORE, reverse=True)
    if skills := [one for one in best_first if one.features["skill"]]:
        best_first = [*skills, *(one for one in best_first if one not in skills)]
    return second_step.spread(best_first) if context.asks_for_several else best_first


def _limit_guidance(candidates: Iterable[Candidate], *, weight: float) -> list[Candidate]:
    """Keep wishes behind the best other candidates, unless they match as well themselves."""
    known = list(candidates)
    others = nlargest(_BEFORE_GUIDANCE, (c.score for c in known if not c.features[GUIDANCE]))
    # Of equal scores the newer would come first.
    limit = math.nextafter(others[-1], 0) if others else math.inf
    return [
        replace(one, score=min(one.score, max(limit, one.score - weight * one.features[GUIDANCE])))
        if one.features[GUIDANCE]
        else one
        for one in known
    ]


_BY_RECENCY: Final = attrgetter("memory.occurred_at", "memory.recorded_at", "memory.id")
_BY_SCORE: Final = attrgetter("score")


_OCCURRENCE_BONUS: Final = 0.3
"""Added to the salience of what happened, so that an event comes before a fact of its day."""


def share_days(newest_first: Sequence[Candidate], *, count: int) -> list[Candidate]:
    """Move `count` candidates from all days to the front; both parts stay newest first.

    In turn each day gives the most important one that is left, so that a busy day does not hide the
    others.
    """
    days: defaultdict[date, list[Candidate]] = defaultdict(list)
    for one in newest_first:
        days[one.memory.occurred_at.date()].append(one)
    each = [sorted(those, key=_importance, reverse=True) for those in days.values()]
    turns = ([one for one in turn if one is not None] for turn in zip_longest(*each))
    in_turn = (one for turn in turns for one in sorted(turn, key=_importance, reverse=True))
    chosen = {id(one) for one in islice(in_turn, count)}
    return sorted(newest_first, key=lambda one: id(one) not in chosen)


def _importance(candidate: Candidate) -> float:
    memory = candidate.memory
    return memory.salience + _OCCURRENCE_BONUS * KINDS[memory.kind].is_occurrence


@dataclass(frozen=True, slots=True, kw_only=True)
class _QueryContext:
    """What a plan says about all candidates alike."""

    plan: QueryPlan
    now: datetime
    project: str | None
    session: str | None
    kinds: Mapping[Kind, float]
    """How well each kind fits the question."""
    asks_when: bool
    """Whether it asks for a time without naming one."""
    is_fading: Mapping[Kind, bool]
    """Whether memories of each kind count less the older they are."""
    shared_features: Mapping[str, float]
    """Features with the same value for every candidate."""
    asks_for_several: bool

    @classmethod
    def of(cls, plan: QueryPlan) -> "_QueryContext":
        """Derive the context from a plan."""
        return cls(
            plan=plan,
            now=plan.now,
            project=plan.project,
            session=plan.caller.session,
            kinds={kind: kind_prior(kind, plan.intent) for kind in Kind},
            asks_when=plan.intent is Intent.TEMPORAL and plan.period is None,
            is_fading={kind: bool(plan.parameters.half_life(kind)) for kind in Kind},
            shared_features=_field_match(plan),
            asks_for_several=second_step.asks_for_several(plan),
        )


def _compute_features(
    context: _QueryContext, memory: Memory, *, given: Mapping[str, float]
) -> Mapping[str, float]:
    plan, now = context.plan, context.now
    kind, body_chars = memory.kind, len(memory.body)
    awake = effective_strength(memory, now, parameters=plan.parameters)
    is_message = isinstance(memory.detail, MessageDetail)
    features = {**_DEFAULT_FEATURES, **context.shared_features, **given}
    own = given["self_score"]
    context_share = _CONTEXT_SHARE_MAX / (1 + body_chars / _HALVING_CHARS)
    features["fused"] = own + context_share * (given["context_score"] - own)
    # Events stay true; claims may become outdated.
    features["stale"] = float(not awake and KINDS[kind].makes_claims)
    features["kind"] = context.kinds[kind]
    features["confidence"] = doubted(memory.confidence, features)
    # Dormant memories stay recallable, after equally good matches that are not.
    features["strength"] = awake
    features["trust"] = memory.trust.weight
    features["salience"] = memory.salience
    # Without a weight; only learned models use it.
    features["length"] = min(math.log1p(body_chars) / _LENGTH_SCALE, 1.0)
    if context.is_fading[kind]:
        features["recency"] = recency(memory, now)
    if memory.rating:
        features["rating"] = math.tanh(memory.rating / _RATING_SCALE)
    if memory.project is not None and memory.project == context.project:
        features["same_project"] = 1.0
    if memory.session is not None and memory.session == context.session:
        features["same_session"] = 1.0
    if plan.period is not None:
        features["date"] = _date_proximity(memory, plan.period)
    if context.asks_when:
        features["dated"] = float(names_time(memory.body))
    if is_message:
        features |= _message_features(plan, memory)
    if context.asks_for_several:
        features[second_step.NAMES] = float(second_step.names_something(memory, plan))
    return features


_DEFAULT_FEATURES: Final[Mapping[str, float]] = {
    "linked": 0.0,
    GUIDANCE: 0.0,
    "replies": 0.0,
    "support": 0.0,
    "contradicted": 0.0,
    "needs_review": 0.0,
    "thread": 0.0,
    "date": 0.0,
    "dated": 0.0,
    "rating": 0.0,
    "same_project": 0.0,
    "same_session": 0.0,
    "speaker": 0.0,
    "recency": 1.0,
    # Other kinds than messages were written to be remembered, and so is what a user said.
    "substance": 1.0,
    "asking": 0.0,
    "assistant": 0.0,
}
"""The features of a memory of which nothing special is known."""


def _message_features(plan: QueryPlan, memory: Memory) -> Mapping[str, float]:
    """Return whether the query names its speaker, and how informative a message is.

    That is its length, and whether it is a question.
    """
    speaker = (memory.speaker or "").casefold()
    is_named = float(speaker in plan.speakers)
    if speaker in _USER_ROLES:
        return {"speaker": is_named}
    return {
        "speaker": is_named,
        "substance": min(len(memory.body) / _SUBSTANTIAL_CHARS, 1.0),
        "asking": question_share(memory),
        "assistant": float(speaker in ASSISTANT_ROLES and not plan.is_about_answers),
    }


def question_share(memory: Memory) -> float:
    """Return the share of sentences that are questions, 0..1."""
    if "?" not in memory.body:
        return 0.0
    parts = [part for part in _SENTENCE.findall(memory.body) if part.strip()]
    return sum(part.endswith("?") for part in parts) / len(parts)


def _field_match(plan: QueryPlan) -> Mapping[str, float]:
    """Return the feature for a search in one field of atoms."""
    field = plan.filter.field
    is_asked = field is not None and plan.query and not plan.is_about_time
    return {f"{FIELD}{field}": 1.0} if is_asked else {}


def _date_proximity(memory: Memory, period: BeliefPeriod) -> float:
    """Return how near to a period a memory occurred: 1 within it, decaying by the day outside."""
    gap = max(period.since - memory.occurred_at, memory.occurred_at - period.until, timedelta())
    return _OUTSIDE_MAX * math.exp(-(gap / _DATE_DECAY)) if gap else 1.0


def is_informative(plan: QueryPlan, memory: Memory) -> bool:
    """Return whether a memory contains at least half of the query's terms, and at least two.

    Proactive recall uses it if the embedder did not answer in time.
    """
    terms = frozenset(plan.terms)
    shared = len(terms & words_of(f"{memory.headline} {memory.body}"))
    return shared >= max(_WORDS_SHARED_MIN, len(terms) / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankResult:
    """Candidates, best first, and the model that ordered them."""

    ranked: Sequence[Candidate]
    ranker: ModelCard | None = None
    """The model; if it failed, `degraded` says so."""
    degraded: tuple[str, ...] = ()
    taken_ms: Mapping[str, float] = field(default_factory=dict[str, float])
    """Time by stage; empty if no model serves."""


@dataclass(frozen=True, slots=True)
class ServingReranker:
    """The model that serves a recall, and the reason if it is not ready."""

    card: ModelCard
    failure: ScoringFailure | None


def get_reranker(
    services: Services, plan: QueryPlan, *, deadline: Deadline
) -> ServingReranker | None:
    """Load the model that serves this caller, before the transaction begins."""
    if not (plan.query and plan.overrides.is_enabled(RERANK)):
        return None
    tenant = plan.caller.tenant

    def read() -> Sequence[ModelCard]:
        return services.store.read(tenant, lambda tx: tx.models.serving(ModelRole.RERANKER))

    card = services.rerankers.serving(plan.caller, read)
    if card is None:
        return None
    return ServingReranker(
        card, services.rerankers.ready(tenant, card, timeout_ms=deadline.left_ms)
    )


def rerank(
    services: Services,
    plan: QueryPlan,
    *,
    ranker: ServingReranker | None,
    scored: Sequence[Candidate],
    deadline: Deadline,
) -> RerankResult:
    """Order candidates by the serving model; skills stay first, browsing stays newest first."""
    if ranker is None:
        return RerankResult(ranked=scored)
    if not scored:
        return RerankResult(ranked=scored, ranker=ranker.card)
    before_ms, card, answer = services.clock.elapsed_ms(), ranker.card, ranker.failure
    if answer is None:
        feature_rows = [one.features for one in scored]
        answer = services.rerankers.ask(
            plan.caller.tenant, card, feature_rows=feature_rows, timeout_ms=deadline.left_ms
        )
    taken_ms = {RERANK: round(services.clock.elapsed_ms() - before_ms, 3)}
    if isinstance(answer, ScoringFailure):
        return _fall_back(card, answer, scored=scored, taken_ms=taken_ms)
    return RerankResult(ranked=_ordered(scored, answer.scores), ranker=card, taken_ms=taken_ms)


def _fall_back(
    card: ModelCard,
    answer: ScoringFailure,
    *,
    scored: Sequence[Candidate],
    taken_ms: Mapping[str, float],
) -> RerankResult:
    """Keep the order of the fixed weights; a failure of the model counts against it."""
    return RerankResult(
        ranked=scored,
        ranker=card if answer.is_model_fault else None,
        degraded=(f"{RERANKER}: {model_name(card)} {answer.reason}",),
        taken_ms=taken_ms,
    )


def _ordered(scored: Sequence[Candidate], scores: Sequence[float]) -> Sequence[Candidate]:
    """Reorder candidates by a model, keeping the score of each rank.

    Scores keep the meaning that fixed weights gave them, whatever the model's scale, so packing
    can compare them. A candidate's original score stays among its features.
    """
    # Sorting is stable: on a tie, fixed weights decide.
    order = sorted(range(len(scored)), key=lambda at: (-scored[at].features["skill"], -scores[at]))
    return [
        replace(
            scored[at],
            score=place.score,
            features={**scored[at].features, BY_WEIGHTS: scored[at].score},
        )
        for at, place in zip(order, scored, strict=True)
    ]


ANSWERABILITY: Final = "verdict"
"""The name of this stage."""
LEXICAL_WEIGHT: Final = 0.5
"""Weight of all words of a question relative to a cosine of 1."""
LENGTH_PENALTY: Final = 0.05
"""Penalty per e-fold of the length: long texts contain words of any question."""
_SCANNED_CHARS: Final = 4000
"""Characters of a text that are searched for words."""
_UNPENALIZED_CHARS: Final = 200
"""Length without a penalty, in characters."""
_CANDIDATES_CHECKED: Final = 10
"""Candidates checked, best first; no later one was ever the best answer."""
FALLBACK_ITEMS_MAX: Final = 8
"""Items shown if nothing seems to answer, since that may be wrong."""
FALLBACK_TOKENS_MAX: Final = RECALL_TOKENS_DEFAULT // 4
_STEM_CHARS: Final = 5
"""Common initial letters of two forms of a word, in most alphabetic languages."""


def has_answer(
    plan: QueryPlan,
    ranked: Sequence[Candidate],
    *,
    meaning: Mapping[int, float],
    space: EmbeddingSpace,
) -> bool:
    """Return whether one of the best candidates is near enough in meaning and words together.

    True wherever that is unknown: in a space without a measured threshold, without vectors, and for
    queries that ask for more than words can match.
    """
    at = space.answer_threshold
    if not ranked or not at or not meaning or not _is_content_query(plan):
        return bool(ranked)
    # A linked memory answers as far as its neighbours do; it was not compared itself. Guidance says
    # how to answer, not what.
    best = [
        one
        for one in ranked
        if not (one.features.get("linked") or one.features.get(GUIDANCE))
        or one.memory.id in meaning
    ][:_CANDIDATES_CHECKED]
    if any(one.features.get("skill") or one.memory.id not in meaning for one in best):
        return True
    return any(answer_score(plan, one, cosine=meaning[one.memory.id]) >= at for one in best)


def answer_score(plan: QueryPlan, candidate: Candidate, *, cosine: float) -> float:
    """Return the sum of similarity and shared words, less the penalty for length."""
    memory = candidate.memory
    text = f"{memory.keywords} {memory.text[:_SCANNED_CHARS]}".lower()
    return (
        cosine
        + LEXICAL_WEIGHT * word_share(plan.content_terms, text)
        - LENGTH_PENALTY * max(0.0, log(len(text) / _UNPENALIZED_CHARS))
    )


def word_share(terms: Sequence[str], text: str) -> float:
    """Return the share of words with a form in a text in lower case, 0..1; 0 without words."""
    if not terms:
        return 0.0
    return sum(_has_word_prefix(text, word[:_STEM_CHARS]) for word in terms) / len(terms)


def choose_budget(plan: QueryPlan, *, is_answered: bool) -> Budget:
    """Return a small budget if nothing seems to answer, unless the caller asked for more."""
    usual = plan.budget
    default = plan.parameters
    is_raised = usual.max_items > default.recall_items or usual.max_tokens > default.recall_tokens
    if is_answered or is_raised:
        return usual
    return replace(
        usual,
        max_items=min(FALLBACK_ITEMS_MAX, usual.max_items),
        max_tokens=min(FALLBACK_TOKENS_MAX, usual.max_tokens),
    )


def _is_content_query(plan: QueryPlan) -> bool:
    """Return whether the query has content words, and is not about one field or a time."""
    return (
        bool(plan.content_terms)
        and plan.overrides.is_enabled(ANSWERABILITY)
        and plan.filter.field is None
        and not plan.is_about_time
        and not plan.is_proactive
    )


def _has_word_prefix(text: str, stem: str) -> bool:
    """Return whether a word of a text begins with a stem."""
    return stem in text and any(
        at == 0 or not text[at - 1].isalnum() for at in _find_all(text, stem)
    )


def _find_all(text: str, stem: str) -> Iterable[int]:
    at = text.find(stem)
    while at >= 0:
        yield at
        at = text.find(stem, at + 1)
