"""Who gets a seat in an answer: the best, no echoes, and a rule or fact close behind."""

import re
from collections.abc import Sequence
from typing import Final

from commonbrain.domain import limits
from commonbrain.domain.kinds import Kind
from commonbrain.domain.query import Candidate
from commonbrain.domain.trust import Trust

_BINDING_KINDS: Final = frozenset({Kind.RULE, Kind.FACT})
_WORD: Final = re.compile(r"\w+")
_CLOSE_AT: Final = 0.9
"""A rule or fact with less than this of the last one's score would cost evidence."""
_NEAR_AT: Final = 0.8
"""Two texts that share this much of their words say nearly the same."""
_COMPARED_CHARS: Final = 1000
"""How far into a text its words are compared."""


def choose(ranked: Sequence[Candidate], max_items: int) -> Sequence[Candidate]:
    """Take the best, but keep a seat for the best trusted rule or fact close behind them."""
    best, behind = ranked[:max_items], ranked[max_items : 2 * max_items]
    if max_items == 1 or any(is_binding(candidate) for candidate in best):
        return best
    binding = next((candidate for candidate in behind if is_binding(candidate)), None)
    if binding is None or is_fired(best[-1]) or not is_close(binding, best[-1]):
        return best
    return [*best[:-1], binding]


def is_close(binding: Candidate, last: Candidate) -> bool:
    """Say whether a rule or fact answers nearly as well as the last that has a seat."""
    return binding.score >= _CLOSE_AT * last.score


def is_fired(candidate: Candidate) -> bool:
    """Say whether it is a skill that the query names."""
    return bool(candidate.features.get("skill"))


def is_binding(candidate: Candidate) -> bool:
    """Say whether it is a rule or a fact that may be relied on."""
    memory = candidate.memory
    return memory.kind in _BINDING_KINDS and memory.trust is not Trust.UNTRUSTED_WEB


def thin(ranked: Sequence[Candidate], *, enough: int) -> tuple[list[Candidate], list[Candidate]]:
    """Part the first `enough` that are worth a seat from what says nearly the same as two do.

    Skills that were fired are worth one whatever they say.
    """
    kept: list[Candidate] = []
    near: list[Candidate] = []
    said: list[frozenset[str]] = []
    for candidate in ranked:
        if len(kept) == enough:
            break
        words = _words(candidate)
        alike = _alike(words, said)
        if alike >= limits.NEAR_DUPLICATES_MAX and not is_fired(candidate):
            near.append(candidate)
        else:
            kept.append(candidate)
            said.append(words)
    return kept, near


def _words(candidate: Candidate) -> frozenset[str]:
    return frozenset(_WORD.findall(candidate.memory.body[:_COMPARED_CHARS].casefold()))


def _alike(words: frozenset[str], said: Sequence[frozenset[str]]) -> int:
    """Count the texts that say nearly the same; most differ too much in size to be read."""
    size = len(words)
    least = _NEAR_AT * size
    sized = [one for one in said if len(one) >= least and size >= _NEAR_AT * len(one)]
    return sum([_is_near(words, one) for one in sized])


def _is_near(one: frozenset[str], other: frozenset[str]) -> bool:
    shared = len(one & other)
    return bool(shared) and shared >= _NEAR_AT * (len(one) + len(other) - shared)
