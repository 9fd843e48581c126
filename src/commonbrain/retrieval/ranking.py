"""Ordering candidates by everything known of them, with fixed weights."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import mul
from typing import Final

from commonbrain.model.kinds import KINDS, Kind, MessageDetail
from commonbrain.model.memory import Memory
from commonbrain.model.query import FIELD, Candidate
from commonbrain.model.revision import BeliefPeriod
from commonbrain.model.scoring import doubted, waking
from commonbrain.retrieval.fusion import blend_scores
from commonbrain.retrieval.links import recency
from commonbrain.retrieval.query_plan import Intent, QueryPlan, kind_prior, words_of
from commonbrain.text.time_expressions.parser import names_time

# Relevance decides; what was said around it, when and by whom come next; the rest breaks near-ties,
# so that of two equal matches the fresher, more trusted and more telling one comes first. How each
# was chosen is told with its measure in docs/explanation/decisions.md.
FEATURE_WEIGHTS: Final[Mapping[str, float]] = {
    "fused": 1.0,
    "linked": 0.6,
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
    # What an assistant said is mostly drawn from what it was told.
    "assistant": -0.4,
    "contradicted": -0.25,
    # As much as a contradiction: what it says may be as true as ever, and nobody has looked.
    "needs_review": -0.25,
    # Who asks does not know.
    "asking": -0.3,
}
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
"""What a memory scores that lacks nothing but what few questions ask for."""
NORMALIZED_WEIGHTS: Final[Mapping[str, float]] = {
    name: weight / _FULL_SCORE for name, weight in FEATURE_WEIGHTS.items()
}
"""What each feature adds to a score; what is learnt is what they get wrong."""
_DATE_DECAY: Final = timedelta(days=7)
"""How far from the time that a query names a memory counts a third as near."""
_CONTEXT_SHARE_MAX: Final = 0.7
"""The share of the passage around a message in what it matches, were the message empty."""
_HALVING_CHARS: Final = 400
"""A message so long needs what was said around it half as much."""
_SUBSTANTIAL_CHARS: Final = 150
"""A message so long says as much as any."""
_ASSISTANT_ROLES: Final = frozenset({"assistant", "system", "tool", "model"})
"""Roles by which chats name who was not asking but answering."""
_USER_ROLES: Final = frozenset({"user", "human"})
"""Roles of those whom an assistant answers: what they ask says what they do and need."""
_SENTENCE: Final = re.compile(r"[^.!?]*[.!?]*")
_WORDS_SHARED_MIN: Final = 2
_LENGTH_SCALE: Final = math.log1p(4000)
"""What is so long is as long as any."""
_RATING_SCALE: Final = 3.0
"""Votes at which a rating counts two thirds."""


def rank(
    plan: QueryPlan,
    memories: Iterable[Memory],
    *,
    features: Mapping[int, Mapping[str, float]],
) -> list[Candidate]:
    """Score every memory by the weighted sum of its features, best first, newest on a tie.

    Skills stand above the rest. Without a query there is nothing to be best at: the newest comes
    first, whatever its score. New is what happened lately, and then what was recorded lately.
    """
    weights = {
        name: weight for name, weight in plan.overrides.of(FEATURE_WEIGHTS).items() if weight
    }
    context, shares = _QueryContext.of(plan), tuple(weights.values())
    candidates: list[Candidate] = []
    for one in memories:
        all_features = _compute_features(context, one, given=features[one.id])
        score = sum(map(mul, shares, map(all_features.__getitem__, weights))) / _FULL_SCORE
        candidates.append(Candidate(memory=one, features=all_features, score=max(score, 0.0)))
    newest_first = sorted(candidates, key=_recency_key, reverse=True)
    if not plan.query:
        return newest_first
    return sorted(newest_first, key=lambda c: (-c.features["skill"], -c.score))


def _recency_key(candidate: Candidate) -> tuple[datetime, datetime, int]:
    memory = candidate.memory
    return memory.occurred_at, memory.recorded_at, memory.id


@dataclass(frozen=True, slots=True, kw_only=True)
class _QueryContext:
    """What a plan says alike of all that is weighed, found out once."""

    plan: QueryPlan
    now: datetime
    project: str | None
    session: str | None
    kinds: Mapping[Kind, float]
    """How well each answers such a question."""
    asks_when: bool
    """Whether it asks for a time and names none."""
    field_match: Mapping[str, float]

    @classmethod
    def of(cls, plan: QueryPlan) -> "_QueryContext":
        """Read a plan."""
        return cls(
            plan=plan,
            now=plan.now,
            project=plan.project,
            session=plan.caller.session,
            kinds={kind: kind_prior(kind, plan.intent) for kind in Kind},
            asks_when=plan.intent is Intent.TEMPORAL and plan.period is None,
            field_match=_field_match(plan),
        )


def _compute_features(
    context: _QueryContext, memory: Memory, *, given: Mapping[str, float]
) -> Mapping[str, float]:
    plan, now = context.plan, context.now
    awake = waking(memory, now)
    # What happened stays as true as it was; what is claimed may be so no longer.
    penalties = {**given, "stale": float(not awake and KINDS[memory.kind].makes_claims)}
    return {
        "linked": 0.0,
        "support": 0.0,
        "contradicted": 0.0,
        "needs_review": 0.0,
        "thread": 0.0,
        **penalties,
        "fused": blend_scores(given["own"], given["beside"], share=_context_share(memory)),
        **(
            _message_features(plan, memory)
            if isinstance(memory.detail, MessageDetail)
            else _DEFAULT_MESSAGE_FEATURES
        ),
        "date": _date_proximity(memory, plan.period),
        "dated": float(context.asks_when and names_time(memory.body)),
        "kind": context.kinds[memory.kind],
        "speaker": float((memory.speaker or "").casefold() in plan.speakers),
        "recency": 1.0 if KINDS[memory.kind].half_life is None else recency(memory, now),
        # What sleeps is still found, behind all that is awake and as good a match.
        "strength": awake,
        "trust": memory.trust.weight,
        "confidence": doubted(memory.confidence, penalties),
        "salience": memory.salience,
        "rating": math.tanh(memory.rating / _RATING_SCALE) if memory.rating else 0.0,
        "same_project": float(memory.project is not None and memory.project == context.project),
        "same_session": float(memory.session is not None and memory.session == context.session),
        **context.field_match,
        # It has no weight of its own; a model may make something of it.
        "length": min(math.log1p(len(memory.body)) / _LENGTH_SCALE, 1.0),
    }


_DEFAULT_MESSAGE_FEATURES: Final[Mapping[str, float]] = {
    "substance": 1.0,
    "asking": 0.0,
    "assistant": 0.0,
}
"""What holds of everything but talk: it was put down to be kept, or said to be acted on."""


def _message_features(plan: QueryPlan, memory: Memory) -> Mapping[str, float]:
    """Say how much a message tells: its length, and how far it asks rather than says."""
    speaker = (memory.speaker or "").casefold()
    if speaker in _USER_ROLES:
        return _DEFAULT_MESSAGE_FEATURES
    return {
        "substance": min(len(memory.body) / _SUBSTANTIAL_CHARS, 1.0),
        "asking": question_share(memory),
        "assistant": float(speaker in _ASSISTANT_ROLES and not plan.is_about_answers),
    }


def question_share(memory: Memory) -> float:
    """Say how much of a memory asks rather than says, 0..1."""
    if "?" not in memory.body:
        return 0.0
    parts = [part for part in _SENTENCE.findall(memory.body) if part.strip()]
    return sum(part.endswith("?") for part in parts) / len(parts)


def _context_share(memory: Memory) -> float:
    """Say how far to go by what was said around a memory: the less it says, the further."""
    return _CONTEXT_SHARE_MAX / (1 + len(memory.body) / _HALVING_CHARS)


def _field_match(plan: QueryPlan) -> Mapping[str, float]:
    """Name the field that was searched: whatever answers there does so by it."""
    field = plan.filter.field
    is_asked = field is not None and plan.query and not plan.is_about_time
    return {f"{FIELD}{field}": 1.0} if is_asked else {}


def _date_proximity(memory: Memory, period: BeliefPeriod | None) -> float:
    """Say how near to a time it happened: 1 within, less by the day."""
    if period is None:
        return 0.0
    gap = max(period.since - memory.occurred_at, memory.occurred_at - period.until, timedelta())
    return math.exp(-(gap / _DATE_DECAY))


def is_informative(plan: QueryPlan, memory: Memory) -> bool:
    """Say whether a memory has at least half of a query's telling words, and two of them.

    It stands in for meaning where nobody asked and the embedder has not answered in time.
    """
    terms = frozenset(plan.terms)
    shared = len(terms & words_of(f"{memory.headline} {memory.body}"))
    return shared >= max(_WORDS_SHARED_MIN, len(terms) / 2)
