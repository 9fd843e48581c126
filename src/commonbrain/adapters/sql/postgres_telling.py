"""Which words of a question are searched for in Postgres, and how much each of them tells.

The index gives every match of a word before the best is known, so that what half of the memories
have costs half of the memories. So rare words are searched for first, and common ones only where
there is room left for what they match.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import log
from typing import Final

SCORED_MAX: Final = 5000
"""How many matches are scored, about: some microseconds each."""
_RARE_AT_LEAST: Final = 2000
_RARE_SHARE: Final = 100
"""A word that more than a hundredth of the memories have is common, but not below 2,000 of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """What is searched for: words with their weights, perhaps among the newest memories alone."""

    weights: Mapping[str, float]
    newest: int | None = None
    """How many of the newest memories are looked at; None looks at all."""


def counted_max(memories: int) -> int:
    """Say where counting the memories that have a word may end: what has more is as common."""
    return max(20_000, memories // 4)


def telling(counts: Mapping[str, int], *, memories: int) -> Telling:
    """Choose among words that so many memories each have, out of so many in all.

    The weight is BM25's inverse document frequency, above 0 even for what nearly all have.
    """
    rarest = sorted((count, word) for word, count in counts.items() if count)
    bound = max(_RARE_AT_LEAST, memories // _RARE_SHARE)
    chosen: list[str] = []
    matches = 0
    for count, word in rarest:
        if count >= bound or matches + count > SCORED_MAX:
            break
        chosen.append(word)
        matches += count
    if chosen or not rarest:
        return Telling(weights=_weights(counts, chosen, memories=memories))
    matches = sum(count for count, _ in rarest)
    return Telling(
        weights=_weights(counts, [word for _, word in rarest], memories=memories),
        newest=memories * SCORED_MAX // matches if matches > SCORED_MAX else None,
    )


def _weights(counts: Mapping[str, int], chosen: list[str], *, memories: int) -> dict[str, float]:
    """Weigh words as if at least one memory more had none, so that no word counts against one."""
    told = {word: (memories - counts[word] + 0.5) / (counts[word] + 0.5) for word in chosen}
    return {word: max(log(odds), 1e-6) if odds > 0 else 1e-6 for word, odds in told.items()}
