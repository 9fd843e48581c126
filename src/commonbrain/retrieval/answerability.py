"""Answerability: whether a candidate seems to answer the query, or is only the nearest.

An answer is similar in meaning to its question and shares its words. Neither alone is enough: an
unrelated text may share the most common word, and texts of one type are all similar. The threshold
for their sum works in small and large stores alike; docs/explanation/decisions.md explains the
choice and its limits.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import log
from typing import Final

from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.model.limits import RECALL_ITEMS_DEFAULT, RECALL_TOKENS_DEFAULT
from commonbrain.model.query import Budget, Candidate
from commonbrain.retrieval.query_plan import QueryPlan

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
FALLBACK_ITEMS_MAX: Final = 3
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
    # A linked memory answers as far as its neighbours do; it was not compared itself.
    best = [one for one in ranked if not one.features.get("linked")][:_CANDIDATES_CHECKED]
    if any(one.features.get("skill") or one.memory.id not in meaning for one in best):
        return True
    return any(answer_score(plan, one, cosine=meaning[one.memory.id]) >= at for one in best)


def answer_score(plan: QueryPlan, candidate: Candidate, *, cosine: float) -> float:
    """Return the sum of similarity and shared words, less the penalty for length."""
    memory = candidate.memory
    text = f"{memory.keywords} {memory.text[:_SCANNED_CHARS]}".lower()
    share = sum(_has_word_prefix(text, word[:_STEM_CHARS]) for word in plan.content_terms) / len(
        plan.content_terms
    )
    return (
        cosine
        + LEXICAL_WEIGHT * share
        - LENGTH_PENALTY * max(0.0, log(len(text) / _UNPENALIZED_CHARS))
    )


def choose_budget(plan: QueryPlan, *, is_answered: bool) -> Budget:
    """Return a small budget if nothing seems to answer, unless the caller asked for more."""
    usual = plan.budget
    is_raised = usual.max_items > RECALL_ITEMS_DEFAULT or usual.max_tokens > RECALL_TOKENS_DEFAULT
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
