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

from commonbrain.embeddings.interface import Space
from commonbrain.model.limits import RECALL_ITEMS_DEFAULT, RECALL_TOKENS_DEFAULT
from commonbrain.model.query import Budget, Candidate
from commonbrain.retrieval.query_plan import Plan

VERDICT: Final = "verdict"
"""The name of this stage."""
WORDS: Final = 0.5
"""What having all words of a question counts, against a cosine of 1."""
LENGTH: Final = 0.05
"""What is taken off for every e-fold of a length: long texts have words of any question."""
_READ_CHARS: Final = 4000
"""How far into a text its words are looked for."""
_USUAL_CHARS: Final = 200
"""Up to this length nothing is taken off."""
_LOOKED_AT: Final = 10
"""Of the candidates, best first; none behind them has been the best answer."""
NEAREST: Final = 3
"""What is shown where nothing seems to answer: it may be a mistake, so not nothing."""
NEAREST_TOKENS: Final = RECALL_TOKENS_DEFAULT // 4
_STEM: Final = 5
"""Letters that two forms of a word have in common, in most languages that have letters."""


def seems_answered(
    plan: Plan, ranked: Sequence[Candidate], *, meaning: Mapping[int, float], space: Space
) -> bool:
    """Say whether one of the best candidates is near enough, in meaning and words together.

    It is believed to be wherever that cannot be told: in a space where it was never measured,
    where meaning did not take part, and where a question is for more than a meaning and its words.
    """
    at = space.answers_at
    if not ranked or not at or not meaning or not _is_plain(plan):
        return bool(ranked)
    # What hangs on others by a link answers as far as they do; it was never compared itself.
    best = [one for one in ranked if not one.features.get("linked")][:_LOOKED_AT]
    if any(one.features.get("skill") or one.memory.id not in meaning for one in best):
        return True
    return any(nearness(plan, one, cosine=meaning[one.memory.id]) >= at for one in best)


def nearness(plan: Plan, candidate: Candidate, *, cosine: float) -> float:
    """Sum up how near a memory is to a question, in meaning and in words."""
    memory = candidate.memory
    text = f"{memory.keywords} {memory.text[:_READ_CHARS]}".lower()
    share = sum(_begins(text, word[:_STEM]) for word in plan.matter) / len(plan.matter)
    return cosine + WORDS * share - LENGTH * max(0.0, log(len(text) / _USUAL_CHARS))


def budget_of(plan: Plan, *, is_answered: bool) -> Budget:
    """Give little room to what does not seem to answer, unless more than usual is asked for."""
    usual = plan.budget
    is_raised = usual.max_items > RECALL_ITEMS_DEFAULT or usual.max_tokens > RECALL_TOKENS_DEFAULT
    if is_answered or is_raised:
        return usual
    return replace(
        usual,
        max_items=min(NEAREST, usual.max_items),
        max_tokens=min(NEAREST_TOKENS, usual.max_tokens),
    )


def _is_plain(plan: Plan) -> bool:
    """Say whether it asks in words for something, and not in one field or for a mere time."""
    return (
        bool(plan.matter)
        and plan.tuning.has(VERDICT)
        and plan.filter.field is None
        and not plan.is_about_time
        and not plan.is_unasked
    )


def _begins(text: str, stem: str) -> bool:
    """Say whether a word of a text begins like this."""
    return stem in text and any(at == 0 or not text[at - 1].isalnum() for at in _places(text, stem))


def _places(text: str, stem: str) -> Iterable[int]:
    at = text.find(stem)
    while at >= 0:
        yield at
        at = text.find(stem, at + 1)
