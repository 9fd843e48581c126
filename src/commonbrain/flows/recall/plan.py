"""What a query asks for, settled before any arm is asked."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
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


def possible_names(query: str) -> list[str]:
    """Give every word and pair of words of a query, case-folded, as names that it may hold."""
    words = [word.casefold() for word in _WORD.findall(query)][:_TERMS_MAX]
    return list(dict.fromkeys([*words, *(f"{one} {two}" for one, two in pairwise(words))]))


def without_names(query: str, names: Iterable[str]) -> str:
    """Leave out of a query the names of who said things, unless nothing else is asked.

    A stored utterance does not hold its speaker's name, so that a name in the question only pulls
    its vector towards texts about that name. The words of the query keep it. What it brings is
    told with its measure in docs/explanation/decisions.md.
    """
    left = query
    for name in sorted(names, key=len, reverse=True):
        spaced = r"\W+".join(re.escape(word) for word in name.split())
        left = re.sub(rf"\b{spaced}(?:['’]s)?\b", " ", left, flags=re.IGNORECASE)  # noqa: RUF001 as typed
    return left if _WORD.search(left) else query


def search_terms(query: str) -> tuple[str, ...]:
    """Give the words worth looking up, in order and once; function words only if all are."""
    words = tuple(dict.fromkeys(_WORD.findall(query.lower())))
    telling = tuple(word for word in words if word not in _FUNCTION_WORDS)
    return (telling or words)[:_TERMS_MAX]
