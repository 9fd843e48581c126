"""What a query asks for, settled before any arm is asked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise
from typing import Final

from commonbrain.model.kinds import Kind
from commonbrain.model.memory import CURRENT_STATES
from commonbrain.model.query import Budget, Filter
from commonbrain.model.revision import BeliefPeriod
from commonbrain.model.scope import Caller
from commonbrain.storage.interface import QueryScope
from commonbrain.text.time_expressions.parser import parse_time_range


class Intent(StrEnum):
    """What a question wants to know."""

    CONSTRAINT = "constraint"
    CAUSAL = "causal"
    TEMPORAL = "temporal"
    PLAIN = "plain"


# The first that matches wins: a question for permission is one, whatever else it says.
_PATTERNS: Final[Mapping[Intent, re.Pattern[str]]] = {
    intent: re.compile(rf"\b(?:{words})\b", re.IGNORECASE)
    for intent, words in {
        Intent.CONSTRAINT: r"may (?:i|we)|can (?:i|we)|should|must|mustn't|allowed|permitted"
        r"|forbidden|prohibited|polic(?:y|ies)|rules?|required|have to|supposed to",
        Intent.CAUSAL: r"why|because|caus(?:e|es|ed|ing)|reasons?|led to|due to|how come",
        Intent.TEMPORAL: r"when|since when|how long|what time|which (?:day|date|month|year)",
    }.items()
}
# It speaks to who answered before: "what did you suggest", "your list", "the assistant".
_ABOUT_ANSWERS: Final = re.compile(
    r"\b(?:you (?:\w+ly )?(?:said|say|told|tell|suggest|recommend|mention|g[ai]ve|provide|list"
    r"|wr[io]te|explain|propose|advise|show|describe|create|ma[dk]e|came? up)\w*|your|assistant)\b",
    re.IGNORECASE,
)
_KIND_PRIORS: Final[Mapping[Intent, Mapping[Kind, float]]] = {
    Intent.CONSTRAINT: {Kind.RULE: 1.0, Kind.FACT: 0.4, Kind.TASK: 0.2},
    Intent.CAUSAL: {Kind.ATOM: 1.0, Kind.INCIDENT: 1.0, Kind.FACT: 0.4, Kind.EPISODE: 0.4},
    Intent.TEMPORAL: {Kind.EVENT: 1.0, Kind.EPISODE: 0.6, Kind.MESSAGE: 0.6, Kind.INCIDENT: 0.6},
    Intent.PLAIN: {},
}


def intent_of(query: str, *, names_time: bool) -> Intent:
    """Tell what sort of question it is; a phrase of time makes a plain one temporal."""
    for intent, pattern in _PATTERNS.items():
        if pattern.search(query):
            return intent
    return Intent.TEMPORAL if names_time else Intent.PLAIN


def asks_about_answers(query: str) -> bool:
    """Say whether a question is for what was answered before, not for what the asker said."""
    return _ABOUT_ANSWERS.search(query) is not None


def kind_prior(kind: Kind, intent: Intent) -> float:
    """Say how well a kind answers such a question, 0..1."""
    return _KIND_PRIORS[intent].get(kind, 0.0)


ABLATABLE_STAGES: Final[Mapping[str, str]] = {
    "names": "Leaving the names of who said things out of what is embedded.",
    "threshold": "Leaving out what shares no word with the query and whose meaning is too far.",
    "passages": "Scoring messages by what was said around them too, and those with them.",
    "verdict": "Telling what seems to answer from what only comes nearest, which is cut short.",
    "links": "Following the links of the best candidates.",
    "rerank": "Ordering by the model that serves, where one does.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalOverrides:
    """What is left out and what weighs otherwise; as it comes, nothing."""

    without: frozenset[str] = frozenset()
    """Arms that are not asked, features that weigh nothing, stages that are passed over."""
    weights: Mapping[str, float] = field(default_factory=dict[str, float])
    """Other weights than those of the tables, by the name of an arm or a feature."""

    def is_enabled(self, name: str) -> bool:
        """Say whether an arm or a stage takes part."""
        return name not in self.without

    def of(self, table: Mapping[str, float]) -> Mapping[str, float]:
        """Give the weights of a table as they are to be here."""
        if not self.without and not self.weights:
            return table
        return {
            name: self.weights.get(name, usual) if self.is_enabled(name) else 0.0
            for name, usual in table.items()
        }


NO_OVERRIDES: Final = RetrievalOverrides()


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
_GENERIC_WORDS: Final = frozenset(
    "anything everything something happen happened happening happens go going went new news "
    "past recent recently show list tell give see memory memories".split()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPlan:
    """One query, ready for the arms."""

    query: str
    terms: tuple[str, ...]
    content_terms: tuple[str, ...]
    """The same words, but for those that name a time: what has happened seldom says its date."""
    query_scope: QueryScope
    budget: Budget
    intent: Intent = Intent.PLAIN
    speakers: frozenset[str] = frozenset()
    """Who said something here and is named in the query, case-folded."""
    period: BeliefPeriod | None = None
    """The time it names: preferred, never a bound."""
    is_about_time: bool = False
    """Whether it asks for nothing but what was at that time."""
    is_about_answers: bool = False
    """Whether it asks for what an assistant said before."""
    is_proactive: bool = False
    """Whether nobody asked: only what stands out is worth being told."""
    overrides: RetrievalOverrides = NO_OVERRIDES

    @property
    def is_about_now(self) -> bool:
        """Whether it asks for what holds now, not for the past or for what awaits review."""
        criteria = self.query_scope.filter
        return criteria.as_of is None and CURRENT_STATES.issuperset(criteria.states)

    @property
    def candidates(self) -> int:
        """How many of the found are weighed: enough for the seats and what may displace them."""
        return max(CANDIDATES_MIN, 3 * self.budget.max_items)

    @property
    def project(self) -> str | None:
        """The project it is asked in: the one that it is confined to, else the caller's."""
        return self.query_scope.filter.project or self.query_scope.caller.project

    @property
    def filter(self) -> Filter:
        """Which memories may answer."""
        return self.query_scope.filter

    @property
    def caller(self) -> Caller:
        """Who asks."""
        return self.query_scope.caller

    @property
    def now(self) -> datetime:
        """When it was asked."""
        return self.query_scope.now

    @property
    def time_scoped(self) -> QueryScope | None:
        """The same look, confined to the time that the query names; None when it names none."""
        if self.period is None:
            return None
        since = max(self.period.since, self.filter.since or self.period.since)
        last = self.period.until - timedelta(milliseconds=1)
        until = min(last, self.filter.until or last)
        return replace(self.query_scope, filter=replace(self.filter, since=since, until=until))


def plan_query(
    query: str, query_scope: QueryScope, *, budget: Budget, speakers: Iterable[str]
) -> QueryPlan:
    """Read what a query asks for; asked of the past, "last week" is the one before then."""
    named = parse_time_range(query, query_scope.filter.as_of or query_scope.now)
    rest = named[1] if named else query
    return QueryPlan(
        query=query,
        terms=search_terms(query),
        content_terms=search_terms(rest),
        query_scope=query_scope,
        budget=budget,
        intent=intent_of(query, names_time=named is not None),
        is_about_answers=asks_about_answers(query),
        speakers=frozenset(speakers),
        period=named[0] if named else None,
        is_about_time=named is not None
        and not _content_words(rest, _FUNCTION_WORDS | _GENERIC_WORDS),
    )


def name_ngrams(query: str) -> list[str]:
    """Give every word and pair of words of a query, case-folded, as names that it may hold."""
    words = [word.casefold() for word in _WORD.findall(query)][:_TERMS_MAX]
    return list(dict.fromkeys([*words, *(f"{one} {two}" for one, two in pairwise(words))]))


def strip_names(query: str, names: Iterable[str]) -> str:
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
    content = _content_words(query, _FUNCTION_WORDS)
    return (content or _content_words(query, frozenset()))[:_TERMS_MAX]


def words_of(text: str) -> frozenset[str]:
    """Give the words of a text in lower case, once each."""
    return frozenset(_WORD.findall(text.lower()))


def _content_words(query: str, silent: frozenset[str]) -> tuple[str, ...]:
    words = dict.fromkeys(_WORD.findall(query.lower()))
    return tuple(word for word in words if word not in silent)
