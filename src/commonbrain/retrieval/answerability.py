"""Whether what was found seems to answer, or is only what comes nearest.

A question is answered by something that is near to it in meaning and has its words. Neither
alone tells: what has nothing to do with a question may share its commonest word, and texts of one
sort are all near to each other. Their sum does, and it is the same in small stores and in large
ones. How it was chosen, and what it cannot tell, is in docs/explanation/decisions.md.
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
"""What having all words of a question counts, against a cosine of 1."""
LENGTH_PENALTY: Final = 0.05
"""What is taken off for every e-fold of a length: long texts have words of any question."""
_SCANNED_CHARS: Final = 4000
"""How far into a text its words are looked for."""
_UNPENALIZED_CHARS: Final = 200
"""Up to this length nothing is taken off."""
_CANDIDATES_CHECKED: Final = 10
"""Of the candidates, best first; none behind them has been the best answer."""
FALLBACK_ITEMS_MAX: Final = 3
"""What is shown where nothing seems to answer: it may be a mistake, so not nothing."""
FALLBACK_TOKENS_MAX: Final = RECALL_TOKENS_DEFAULT // 4
_STEM_CHARS: Final = 5
"""Letters that two forms of a word have in common, in most languages that have letters."""


def has_answer(
    plan: QueryPlan,
    ranked: Sequence[Candidate],
    *,
    meaning: Mapping[int, float],
    space: EmbeddingSpace,
) -> bool:
    """Say whether one of the best candidates is near enough, in meaning and words together.

    It is believed to be wherever that cannot be told: in a space where it was never measured,
    where meaning did not take part, and where a question is for more than a meaning and its words.
    """
    at = space.answer_threshold
    if not ranked or not at or not meaning or not _is_content_query(plan):
        return bool(ranked)
    # What hangs on others by a link answers as far as they do; it was never compared itself.
    best = [one for one in ranked if not one.features.get("linked")][:_CANDIDATES_CHECKED]
    if any(one.features.get("skill") or one.memory.id not in meaning for one in best):
        return True
    return any(answer_score(plan, one, cosine=meaning[one.memory.id]) >= at for one in best)


def answer_score(plan: QueryPlan, candidate: Candidate, *, cosine: float) -> float:
    """Sum up how near a memory is to a question, in meaning and in words."""
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
    """Give little room to what does not seem to answer, unless more than usual is asked for."""
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
    """Say whether it asks in words for something, and not in one field or for a mere time."""
    return (
        bool(plan.content_terms)
        and plan.overrides.is_enabled(ANSWERABILITY)
        and plan.filter.field is None
        and not plan.is_about_time
        and not plan.is_proactive
    )


def _has_word_prefix(text: str, stem: str) -> bool:
    """Say whether a word of a text begins like this."""
    return stem in text and any(
        at == 0 or not text[at - 1].isalnum() for at in _find_all(text, stem)
    )


def _find_all(text: str, stem: str) -> Iterable[int]:
    at = text.find(stem)
    while at >= 0:
        yield at
        at = text.find(stem, at + 1)
