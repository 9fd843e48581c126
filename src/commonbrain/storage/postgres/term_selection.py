"""Which words of a question are searched for in Postgres, and which only rank what was found.

The index gives every match of a word before the best is known, so that what half of the memories
have costs half of the memories. So the rarest words are searched for, and common ones only where
there is nothing rarer; but all of them rank. How common a word is is told by a sample, for counting
costs as much as searching; what the sample has not is searched for always.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import log
from typing import Final

SCORED_MAX: Final = 2000
"""How many matches of words that a sample knows are scored, about: a microsecond or two each."""
_USUAL: Final = 0.4
"""What so large a share of the memories has ranks none before another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedTerms:
    """What is searched for, and what every word that ranks weighs."""

    words: list[str]
    """Those that are searched for first, then those that only rank."""
    sought: int
    """How many of the words are searched for."""
    weights: list[float | None]
    """None where the search counts what has the word: it meets all of it."""
    newest: int | None = None
    """How many of the newest memories are looked at; None looks at all."""


def select_rare_terms(
    shares: Mapping[str, float], *, memories: int, rare: float = 0.0
) -> SelectedTerms:
    """Choose among words that such shares of the memories have, about.

    The weight is BM25's inverse document frequency, above 0 even for what nearly all have.

    Args:
        shares: of each word, in the order of the question, which decides between equals.
        memories: how many there are.
        rare: the share that is said of whatever the sample does not know, most of which is rarer.

    """
    chosen = [word for word, share in shares.items() if share < _USUAL] or list(shares)
    rarest = sorted(chosen, key=lambda word: shares[word])
    sought = sum(shares[word] <= rare for word in rarest)
    matches = 0.0
    for word in rarest[sought:]:
        matches += shares[word] * memories
        if matches > SCORED_MAX < memories:
            break
        sought += 1
    if sought or not rarest:
        weights = [None] * sought + [_weight(shares[word]) for word in rarest[sought:]]
        return SelectedTerms(words=rarest, sought=sought, weights=weights)
    return SelectedTerms(
        words=rarest,
        sought=len(rarest),
        weights=[_weight(shares[word]) for word in rarest],
        newest=int(SCORED_MAX / min(sum(shares[word] for word in rarest), 1.0)),
    )


def _weight(share: float) -> float:
    """Weigh a word as if at least one memory more had none, so that none counts against one."""
    return max(log((1 - share) / share), 1e-6) if share < 1 else 1e-6
