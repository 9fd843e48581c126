"""The fourth stage of a recall: features of the candidates, weighted to one score.

`FEATURES` holds everything about each feature. To add one, write its function and its row;
ranking, ablation and traces follow from the row. To change a weight, change it there.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from heapq import nlargest
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from commonbrain.model.kinds import ASSISTANT_ROLES, KINDS, Kind
from commonbrain.model.links import DISAGREEMENTS, is_sure, preferred
from commonbrain.model.memory import effective_strength
from commonbrain.model.query import FIELD, Candidate, is_allowed
from commonbrain.model.scope import isolates, lowest
from commonbrain.model.values import dataclass, replace
from commonbrain.retrieval.load import recency
from commonbrain.retrieval.plan import QueryPlan, content_words
from commonbrain.retrieval.table import GUIDANCE, SKILL
from commonbrain.text.search_words import folded
from commonbrain.text.segmentation import begins_word

if TYPE_CHECKING:
    from commonbrain.retrieval.table import Column, Table

    Compute = Callable[[QueryPlan, Table], Sequence[float] | Column]


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """One thing that speaks for a candidate or against it."""

    weight: float
    compute: Compute
    """Returns a value of -1..1, mostly 0..1, for each row of the table."""
    reason: str | None = None
    """How results name a high value; None if they do not."""
    always: bool = False
    """Whether it applies to every question, so that a full score includes it."""


_USER_ROLES: Final = frozenset({"user", "human"})
"""Speakers whose questions are informative: they say what the user does and needs."""
_CONTEXT_SHARE_MAX: Final = 0.7
"""Share of the context in the score of an empty message."""
_HALVING_CHARS: Final = 400
"""Length at which the share of the context is halved."""
_SUBSTANTIAL_CHARS: Final = 150
"""Length from which a message counts as fully informative."""
_DATE_DECAY: Final = timedelta(days=7)
"""Distance from the query's period at which proximity falls to 1/e."""
_OUTSIDE_MAX: Final = 0.85
"""Proximity just outside the period, so that of two equal matches the one inside wins.

From 0.95 down it decides for questions of time; at 0.7 it begins to cost first places on LoCoMo,
where people speak of a day after it is over.
"""
_LENGTH_SCALE: Final = math.log1p(4000)
"""Logarithm of the length, in characters, from which the feature `length` is 1."""
_SAID_MAX: Final = 2
"""How often a text may say all words of a query: headlines and summaries say them twice."""
_RATING_SCALE: Final = 3.0
"""Rating at which the feature is tanh(1), about three quarters."""


def _given(name: str) -> Compute:
    """Return what an earlier stage computed."""

    def column(_plan: QueryPlan, table: Table) -> Sequence[float] | Column:
        given = table.columns.get(name)
        return [0.0] * len(table.rows) if given is None else given

    return column


def _fused(_plan: QueryPlan, table: Table) -> Column:
    """Blend a memory's own score with that of its passage, the more the shorter it is."""
    import numpy as np  # noqa: PLC0415 replies are described without it

    own, context = table.columns["self_score"], table.columns["context_score"]
    chars = np.array([len(memory.body) for memory in table.memories])
    share = _CONTEXT_SHARE_MAX / (1 + chars / _HALVING_CHARS)
    return own + share * (context - own)


def _date(plan: QueryPlan, table: Table) -> Sequence[float]:
    """Return how near to the asked period each occurred: 1 within it, decaying by the day."""
    period = plan.period
    if period is None:
        return [0.0] * len(table.rows)
    values: list[float] = []
    for memory in table.memories:
        at = table.mentioned.get(memory.id, memory.occurred_at)
        gap = max(period.since - at, at - period.until, timedelta())
        values.append(_OUTSIDE_MAX * math.exp(-(gap / _DATE_DECAY)) if gap else 1.0)
    return values


def _contradicted(plan: QueryPlan, table: Table) -> Sequence[float]:
    """Return how strongly a preferred memory contradicts each.

    Only links of equal or higher trust count, and only if the preferred memory is visible.
    """
    strengths: dict[int, float] = {}
    for link in table.links:
        one, other = table.known.get(link.from_id), table.known.get(link.to_id)
        if link.type not in DISAGREEMENTS or one is None or other is None or not is_sure(link):
            continue
        best = preferred(one, other)
        rest = other if best is one else one
        is_trusted = link.trust.weight >= rest.trust.weight
        if (
            is_trusted
            and lowest([best.authority, link.authority]).covers(rest.authority)
            and not isolates(one.project, other.project)
            and is_allowed(best, plan.caller, criteria=plan.filter, now=plan.now)
        ):
            strengths[rest.id] = max(link.strength, strengths.get(rest.id, 0.0))
    return [strengths.get(id_, 0.0) for id_ in table.rows]


def _speaker(plan: QueryPlan, table: Table) -> Sequence[float]:
    return [float(table.speakers.get(id_) in plan.speakers) for id_ in table.rows]


def _substance(_plan: QueryPlan, table: Table) -> Sequence[float]:
    """Return how informative each is: what was written to be remembered, or by a user, is fully."""
    return [
        1.0
        if one.id not in table.speakers or table.speakers[one.id] in _USER_ROLES
        else min(len(one.body) / _SUBSTANTIAL_CHARS, 1.0)
        for one in table.memories
    ]


def _asking(_plan: QueryPlan, table: Table) -> Sequence[float]:
    """Return the share of sentences that are questions: a question is seldom the answer."""
    return [
        one.reading.question_share
        if "?" in one.body and table.speakers.get(one.id) not in _USER_ROLES
        else 0.0
        for one in table.memories
    ]


def _repeated(plan: QueryPlan, table: Table) -> Sequence[float]:
    """Return the share of each text that says all words it has of the query a third time or more.

    An answer may say one of them in every line; a text that is made to be found repeats them all.
    """
    terms = {term[:_STEM_CHARS] for term in plan.terms}
    values: list[float] = []
    for memory in table.memories:
        text = memory.text[:_SCANNED_CHARS]
        lower = text.lower()
        if sum(lower.count(term) > _SAID_MAX for term in terms) <= 1:
            # At least two terms must be repeated. Counting word by word takes longer.
            values.append(0.0)
            continue
        words = [word[:_STEM_CHARS] for word in content_words(text)]
        counts = Counter(word for word in words if word in terms)
        more = max(min(counts.values()) - _SAID_MAX, 0) if len(counts) > 1 else 0
        values.append(more * len(counts) / max(len(words), 1))
    return values


def _assistant(plan: QueryPlan, table: Table) -> Sequence[float]:
    """Return what assistants said, who mostly repeat what their users said."""
    roles = frozenset[str]() if plan.is_about_answers else ASSISTANT_ROLES
    return [float(table.speakers.get(id_) in roles) for id_ in table.rows]


def _dated(plan: QueryPlan, table: Table) -> Sequence[float]:
    """Return what names a time, for a question for a time."""
    return [float(plan.asks_when and one.reading.names_time) for one in table.memories]


def _same_project(plan: QueryPlan, table: Table) -> Sequence[float]:
    project = plan.project
    return [float(project is not None and one.project == project) for one in table.memories]


def _strength(plan: QueryPlan, table: Table) -> Sequence[float]:
    """Return how well each is remembered: dormant ones come after equally good matches."""
    now, parameters = plan.now, plan.parameters
    return [effective_strength(one, now, parameters=parameters) for one in table.memories]


def _rating(_plan: QueryPlan, table: Table) -> Sequence[float]:
    return [math.tanh(one.rating / _RATING_SCALE) if one.rating else 0.0 for one in table.memories]


def _recency(plan: QueryPlan, table: Table) -> Sequence[float]:
    """Return the recency of each that fades: halved for each week since it occurred."""
    now, fades = plan.now, {kind for kind in Kind if plan.parameters.half_life(kind) is not None}
    return [recency(one, now) if one.kind in fades else 1.0 for one in table.memories]


def _replies(_plan: QueryPlan, table: Table) -> Sequence[float]:
    """Return how well what each answers matches: the question just before it.

    What an assistant answers mostly repeats what its user said.
    """
    rows = dict(zip(table.rows, table.memories, strict=True))
    values = [0.0] * len(table.rows)
    for place, (id_, follows) in enumerate(zip(table.rows, table.columns["follows"], strict=True)):
        earlier = rows.get(table.before.get(id_, 0))
        # Few texts ask anything.
        is_question = follows > 0 and earlier is not None and "?" in earlier.body
        if earlier is not None and is_question and table.speakers.get(id_) not in ASSISTANT_ROLES:
            values[place] = float(follows) * earlier.reading.question_share
    return values


def _length(_plan: QueryPlan, table: Table) -> Sequence[float]:
    return [min(math.log1p(len(one.body)) / _LENGTH_SCALE, 1.0) for one in table.memories]


def _stale(_plan: QueryPlan, table: Table) -> Sequence[float]:
    """Return which claims were not used for so long that they are dormant; events stay true."""
    return [
        float(not awake and KINDS[one.kind].makes_claims)
        for one, awake in zip(table.memories, table.columns["strength"].tolist(), strict=True)
    ]


# Relevance decides; thread, time and speaker come next; the rest breaks near-ties. The weights were
# tuned on half of LoCoMo: see docs/explanation/decisions.md. A feature may use those above it.
FEATURES: Final[Mapping[str, Feature]] = {
    "fused": Feature(weight=1.0, compute=_fused, always=True),
    "linked": Feature(weight=0.6, compute=_given("linked")),
    # What a person asked to be kept to counts for every request of its topic, in whatever words.
    GUIDANCE: Feature(weight=1.0, compute=_given(GUIDANCE), reason=GUIDANCE),
    "date": Feature(weight=0.4, compute=_date, reason="time"),
    "thread": Feature(weight=0.25, compute=_given("thread"), always=True),
    "substance": Feature(weight=0.2, compute=_substance, always=True),
    "dated": Feature(weight=0.25, compute=_dated),
    "replies": Feature(weight=0.2, compute=_replies),
    "speaker": Feature(weight=0.2, compute=_speaker, reason="speaker"),
    # The same question has another answer in another project.
    "same_project": Feature(weight=0.3, compute=_same_project, reason="same project"),
    "strength": Feature(weight=0.03, compute=_strength, always=True),
    "trust": Feature(
        weight=0.05,
        compute=lambda _, table: [one.trust.weight for one in table.memories],
        always=True,
    ),
    "rating": Feature(weight=0.04, compute=_rating),
    # Of two equal matches the fresher comes first.
    "recency": Feature(weight=0.02, compute=_recency, always=True),
    "assistant": Feature(weight=-0.4, compute=_assistant),
    "asking": Feature(weight=-0.3, compute=_asking),
    "repeated": Feature(weight=-2.0, compute=_repeated),
    "contradicted": Feature(weight=-0.25, compute=_contradicted),
    # As much as a contradiction: it may still be true, but no one has checked.
    "needs_review": Feature(
        weight=-0.25,
        compute=lambda _, table: [float(id_ in table.reviews) for id_ in table.rows],
    ),
    "stale": Feature(weight=0.0, compute=_stale),
    # For trained models alone.
    "follows": Feature(weight=0.0, compute=_given("follows")),
    "leads": Feature(weight=0.0, compute=_given("leads")),
    "length": Feature(weight=0.0, compute=_length),
}
FEATURE_WEIGHTS: Final[Mapping[str, float]] = {
    name: feature.weight for name, feature in FEATURES.items()
}
_FULL_SCORE: Final = sum(feature.weight for feature in FEATURES.values() if feature.always)
"""Score of a memory with full marks in the features that apply to every question."""
NORMALIZED_WEIGHTS: Final[Mapping[str, float]] = {
    name: weight / _FULL_SCORE for name, weight in FEATURE_WEIGHTS.items()
}
"""Weights of a score in 0..1; a learned model starts from the score that they give."""
_BEFORE_GUIDANCE: Final = 3
"""Best candidates that no instruction or preference comes before: what is asked comes first."""


def score(table: Table) -> None:
    """Score every candidate by the weighted sum of its features: best first, newest on a tie."""
    import numpy as np  # noqa: PLC0415 replies are described without it

    plan, columns = table.plan, table.columns
    for name, feature in FEATURES.items():
        columns[name] = np.asarray(feature.compute(plan, table), dtype=np.float64)
    weights = plan.overrides.of(FEATURE_WEIGHTS)
    totals = sum(columns[name] * weight for name, weight in weights.items() if weight)
    scores = np.maximum(totals / _FULL_SCORE, 0.0).tolist()
    names = list(columns)
    # A search in one field of atoms is named among the reasons.
    field = plan.filter.field
    more = {f"{FIELD}{field}": 1.0} if field and plan.query and not plan.is_about_time else {}
    features = zip(*(columns[name].tolist() for name in names), strict=True)
    each = [
        Candidate(memory=memory, features=dict(zip(names, values, strict=True)) | more, score=one)
        for memory, values, one in zip(table.memories, features, scores, strict=True)
    ]
    if columns[GUIDANCE].any():
        each = _limit_guidance(each, weight=weights[GUIDANCE] / _FULL_SCORE)
    each.sort(key=BY_RECENCY, reverse=True)
    each.sort(key=_BY_SCORE, reverse=True)
    table.ranked = each


BY_RECENCY: Final = attrgetter("memory.occurred_at", "memory.recorded_at", "memory.id")
_BY_SCORE: Final = attrgetter("score")


def _limit_guidance(candidates: Sequence[Candidate], *, weight: float) -> list[Candidate]:
    """Keep wishes behind the best other candidates, unless they match as well themselves."""
    others = nlargest(_BEFORE_GUIDANCE, (c.score for c in candidates if not c.features[GUIDANCE]))
    # Of equal scores the newer would come first.
    limit = math.nextafter(others[-1], 0) if others else math.inf
    return [
        replace(one, score=min(one.score, max(limit, one.score - weight * one.features[GUIDANCE])))
        if one.features[GUIDANCE]
        else one
        for one in candidates
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
_STEM_CHARS: Final = 5
"""Common initial letters of two forms of a word, in most alphabetic languages."""


def has_answer(table: Table) -> bool:
    """Return whether one of the best candidates is near enough in meaning and words together.

    True wherever that is unknown: in a space without a measured threshold, without vectors, and for
    queries that ask for more than words can match.
    """
    plan, at = table.plan, table.space.answer_threshold
    meaning, ranked = table.cosines, table.ranked
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
    if any(one.features.get(SKILL) or one.memory.id not in meaning for one in best):
        return True
    return any(answer_score(plan, one, cosine=meaning[one.memory.id]) >= at for one in best)


def answer_score(plan: QueryPlan, candidate: Candidate, *, cosine: float) -> float:
    """Return the sum of similarity and shared words, less the penalty for length."""
    memory = candidate.memory
    text = folded(f"{memory.keywords} {memory.text[:_SCANNED_CHARS]}").lower()
    return (
        cosine
        + LEXICAL_WEIGHT * word_share(plan.content_terms, text)
        - LENGTH_PENALTY * max(0.0, math.log(len(text) / _UNPENALIZED_CHARS))
    )


def word_share(terms: Sequence[str], text: str) -> float:
    """Return the share of words with a form in a text in lower case, 0..1; 0 without words."""
    if not terms:
        return 0.0
    return sum(begins_word(text, word[:_STEM_CHARS]) for word in terms) / len(terms)


def _is_content_query(plan: QueryPlan) -> bool:
    """Return whether the query has content words, and is not about one field or a time."""
    return (
        bool(plan.content_terms)
        and plan.overrides.is_enabled(ANSWERABILITY)
        and plan.filter.field is None
        and not plan.is_about_time
    )
