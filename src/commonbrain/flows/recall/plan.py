"""What a query asks for, settled before any arm is asked."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

from commonbrain.domain.memory import CURRENT_STATES
from commonbrain.domain.periods import period_of
from commonbrain.domain.query import Budget, Filter
from commonbrain.domain.revision import Span
from commonbrain.domain.scope import Caller
from commonbrain.flows.recall.intent import Intent, asks_of_answers, intent_of
from commonbrain.flows.recall.tuning import AS_EVER, Tuning
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
# Words that ask for whatever there was.
_OCCURRENCES: Final = frozenset(
    "anything everything something happen happened happening happens go going went new news "
    "past recent recently show list tell give see memory memories".split()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One query, ready for the arms."""

    query: str
    terms: tuple[str, ...]
    matter: tuple[str, ...]
    """The same words, but for those that name a time: what has happened seldom says its date."""
    look: Look
    budget: Budget
    intent: Intent = Intent.PLAIN
    speakers: frozenset[str] = frozenset()
    """Who said something here and is named in the query, case-folded."""
    period: Span | None = None
    """The time it names: preferred, never a bound."""
    is_about_time: bool = False
    """Whether it asks for nothing but what was at that time."""
    is_about_answers: bool = False
    """Whether it asks for what an assistant said before."""
    is_unasked: bool = False
    """Whether nobody asked: only what stands out is worth being told."""
    tuning: Tuning = AS_EVER

    @property
    def is_about_now(self) -> bool:
        """Whether it asks for what holds now, not for the past or for what awaits review."""
        wanted = self.look.filter
        return wanted.as_of is None and CURRENT_STATES.issuperset(wanted.states)

    @property
    def candidates(self) -> int:
        """How many of the found are weighed: enough for the seats and what may displace them."""
        return max(CANDIDATES_MIN, 3 * self.budget.max_items)

    @property
    def project(self) -> str | None:
        """The project it is asked in: the one that it is confined to, else the caller's."""
        return self.look.filter.project or self.look.caller.project

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

    @property
    def look_in_period(self) -> Look | None:
        """The same look, confined to the time that the query names; None when it names none."""
        if self.period is None:
            return None
        since = max(self.period.since, self.filter.since or self.period.since)
        last = self.period.until - timedelta(milliseconds=1)
        until = min(last, self.filter.until or last)
        return replace(self.look, filter=replace(self.filter, since=since, until=until))


def make_plan(query: str, look: Look, *, budget: Budget, speakers: Iterable[str]) -> Plan:
    """Read what a query asks for; asked of the past, "last week" is the one before then."""
    named = period_of(query, look.filter.as_of or look.now)
    rest = named[1] if named else query
    return Plan(
        query=query,
        terms=search_terms(query),
        matter=search_terms(rest),
        look=look,
        budget=budget,
        intent=intent_of(query, names_time=named is not None),
        is_about_answers=asks_of_answers(query),
        speakers=frozenset(speakers),
        period=named[0] if named else None,
        is_about_time=named is not None and not _telling(rest, _FUNCTION_WORDS | _OCCURRENCES),
    )


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
    telling = _telling(query, _FUNCTION_WORDS)
    return (telling or _telling(query, frozenset()))[:_TERMS_MAX]


def words_of(text: str) -> frozenset[str]:
    """Give the words of a text in lower case, once each."""
    return frozenset(_WORD.findall(text.lower()))


def _telling(query: str, silent: frozenset[str]) -> tuple[str, ...]:
    words = dict.fromkeys(_WORD.findall(query.lower()))
    return tuple(word for word in words if word not in silent)
