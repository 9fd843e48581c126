"""What a query asks for, settled before any arm is asked."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from commonbrain.domain.query import Budget, Filter
from commonbrain.domain.scope import Caller
from commonbrain.ports.models import Matrix
from commonbrain.ports.store import Look

_WORD: Final = re.compile(r"\w+")
CANDIDATES_MIN: Final = 40
_TERMS_MAX: Final = 64
"""Distinct words looked up; a longer query is a text, and its first words say what it is about."""
# English words that carry grammar, not matter: every text has them, so they find nothing.
_FUNCTION_WORDS: Final = frozenset(
    (
        "a about after all am an and any are as at be been before being but by can could did do "
        "does  doing done for from get got had has have having he her hers him his how i if in "
        "into is it  its just like me more most my no nor not of off on once only or other our "
        "out over own same  she should so some such than that the their them then there these "
        "they this those through to  too under until up upon us very was we were what when where "
        "which while who whom whose why  will with would you your s t d ll m re ve "
    ).split()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One query, ready for the arms; `vector` is None when meaning cannot be asked."""

    query: str
    terms: tuple[str, ...]
    vector: Matrix | None
    look: Look
    budget: Budget

    @property
    def candidates(self) -> int:
        """How many of the found are weighed: enough for the seats and what may displace them."""
        return max(CANDIDATES_MIN, 3 * self.budget.max_items)

    @property
    def filter(self) -> Filter:
        """Which memories may answer."""
        return self.look.filter

    @property
    def caller(self) -> Caller:
        """Who asks."""
        return self.look.caller

    @property
    def now(self) -> datetime:
        """When it was asked."""
        return self.look.now


def search_terms(query: str) -> tuple[str, ...]:
    """Give the words worth looking up, in order and once; function words only if all are."""
    words = tuple(dict.fromkeys(_WORD.findall(query.lower())))
    telling = tuple(word for word in words if word not in _FUNCTION_WORDS)
    return (telling or words)[:_TERMS_MAX]
