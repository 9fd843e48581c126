"""Query planning: read the options, and what the words of a query ask for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final, TypedDict

from commonbrain.model import ids, limits
from commonbrain.model.errors import RejectedError, check_names, parse_choice
from commonbrain.model.kinds import CausalField, Kind
from commonbrain.model.memory import CURRENT_STATES, State, low_salience
from commonbrain.model.model_card import CROSS_ENCODER
from commonbrain.model.parameters import DEFAULTS, Parameters
from commonbrain.model.query import Budget, Filter, KindFilter, Place
from commonbrain.model.recall_result import Order
from commonbrain.model.revision import BeliefPeriod
from commonbrain.model.scope import Caller, Scope
from commonbrain.model.values import dataclass, field, replace
from commonbrain.storage.interface import QueryScope
from commonbrain.text.languages import FOREIGN_FUNCTIONS, is_english
from commonbrain.text.normalisation import normalise_line
from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.search_words import PARTICLE, extra_words, names_to_repeat, spaced
from commonbrain.text.time_expressions.parser import parse_time_expression, parse_time_range

_WHEN: Final = lazy_pattern(
    r"\b(?:when|since when|how long|what time|which (?:day|date|month|year))\b", re.IGNORECASE
)
# Refers to an earlier answer: "what did you suggest", "your list", "the assistant".
_ABOUT_ANSWERS: Final = lazy_pattern(
    r"\b(?:you (?:\w+ly )?(?:said|say|told|tell|suggest|recommend|mention|g[ai]ve|provide|list"
    r"|wr[io]te|explain|propose|advise|show|describe|create|ma[dk]e|came? up)\w*|your|assistant)\b",
    re.IGNORECASE,
)


_LOOKUP: Final = lazy_pattern(
    r"^\W*(?:who|whose|where|when (?:did|do|does|is|was|were|will|has|have|can|should)"
    r"|how (?:many|much|long|often|old|far)|did|was|were|has|had|is|are|does|have (?:i|we|you)"
    r"|what (?:was|were|did|has|is)|(?:what|which|how|why)\b.{0,40}? (?:does|did|has|had|was))\b"
    r"|\b(?:did|have|had|was|were) (?:i|we|my|our|you)\b"
    r"|\b(?:i|we)(?:['’]ve| have)? (?:\w+ )?(?:brought|said|told|mentioned|asked|discussed)\b"  # noqa: RUF001 as typed
    r"|\b(?:across|throughout) (?:my|our|all|the)\b|\bin total\b",
    re.IGNORECASE,
)


_LISTING: Final = lazy_pattern(r"\b(?:all|every|each|everything|list)\b", re.IGNORECASE)
"""Asks for each of several memories: "all rules on deploys"."""


def is_lookup(query: str) -> bool:
    """Return whether a query asks for a fact, rather than for something to be done or explained."""
    return _LOOKUP.search(query) is not None


def asks_about_answers(query: str) -> bool:
    """Return whether a question is about an earlier answer rather than the user's own words."""
    return _ABOUT_ANSWERS.search(query) is not None


TIME: Final = "time"
CHANGES: Final = "changes"
TIME_ALONE: Final = "time_alone"
CLAIMS: Final = "claims"
TOGETHER: Final = "together"
NEWER_FIRST: Final = "newer_first"
SOURCES_FIRST: Final = "sources_first"
ABLATABLE_STAGES: Final[Mapping[str, str]] = {
    TIME: "Read the time that the query names.",
    "names": "Remove speakers' names from the text that is embedded.",
    "threshold": "Drop candidates that share no word with the query and are too far in meaning.",
    "passages": "Score messages by their neighbours too, and add those neighbours.",
    TIME_ALONE: "Answer a question for a time alone with the memories of that time, newest first.",
    "verdict": "Detect questions without an answer, and shorten their result.",
    SOURCES_FIRST: "Leave out the episode of events that are found, unless a time is asked for.",
    "links": "Follow the links of the best candidates.",
    CHANGES: "Use the changes that were detected on writing.",
    CLAIMS: "Put a memory before those that it says have changed.",
    TOGETHER: "Show a newer memory next to an older one on the same matter.",
    NEWER_FIRST: "Put the newer of two on the same matter first, if it answers equally well.",
    "rerank": "Order candidates by the serving model, if there is one.",
    CROSS_ENCODER: "Order the best candidates by the cross-encoder, if one is set.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalOverrides:
    """Parts of recall to leave out and weights to change, for evaluations."""

    without: frozenset[str] = frozenset()
    """Names of retrievers, features and stages to leave out."""
    weights: Mapping[str, float] = field(default_factory=dict[str, float])
    """Weights that replace those of the tables, by name of the retriever or feature."""

    def is_enabled(self, name: str) -> bool:
        """Return whether a retriever, feature or stage takes part."""
        return name not in self.without

    def of(self, table: Mapping[str, float]) -> Mapping[str, float]:
        """Return a table of weights with the overrides applied."""
        if not self.without and not self.weights:
            return table
        return {
            name: self.weights.get(name, default) if self.is_enabled(name) else 0.0
            for name, default in table.items()
        }


NO_OVERRIDES: Final = RetrievalOverrides()


_WORD: Final = lazy_pattern(r"\w+")
CANDIDATES_MIN: Final = 40
_TERMS_MAX: Final = 64
"""Distinct words to search for; the first words of a longer text say what it is about."""
# Every English text contains these, so they distinguish nothing.
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
# Words and phrases of questions that ask for anything at all in a period. A word that may be the
# topic ("deploy", "decide", "meeting", "release") does not belong here.
_GENERIC_WORDS: Final = frozenset(
    (
        "anything everything something nothing thing things stuff happen happened happens "
        "happening occur occurred occurs occurring go goes going gone went new news latest recent "
        "recently lately past earlier already still yet far show list tell give see know need "
        "want let look please write remind remember memory memories note notes noted entry "
        "entries recorded stored remembered learn learned learnt summary summaries summarize "
        "summarise recap digest overview highlight highlights rundown roundup timeline activity "
        "activities event events update updates progress change changes changed miss missed work "
        "worked working say said talk talked discuss discussed important interesting notable "
        "noteworthy relevant worth knowing major significant wrong problem problems trouble "
        "exactly everyone everybody anyone anybody someone people team during within around "
        "between since till day days daily each every week weekly whole entire full quick quickly "
        "brief briefly short"
    ).split()
)
_GENERIC_PHRASES: Final = lazy_pattern(
    r"\b(?:(?:take|takes|took|taken|taking) place|sum(?:ming)? up|up to (?:speed|date)"
    r"|(?:catch|bring|fill)(?:ing)? (?:me|us)|(?:in|over) the course of|(?:leave|left) off"
    r"|first thing|ago)\b"
    # Only where it opens the question: "in the standup" is where something was said.
    r"|^\W*(?:(?:write|my|our|the|a|daily|quick) )*stand-?up\b",
    re.IGNORECASE,
)
_ASKS_ANYTHING: Final = lazy_pattern(r"\b(?:what|anything|everything|something)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPlan:
    """One query, ready for the retrievers."""

    query: str
    terms: tuple[str, ...]
    content_terms: tuple[str, ...]
    """The terms without time expressions: texts about an event seldom contain its date."""
    extra_words: tuple[str, ...] = ()
    """Further words for the full-text search: of hashes, emoji, and names that count again."""
    query_scope: QueryScope
    budget: Budget
    asks_when: bool = False
    """Whether it asks for a time without naming one."""
    speakers: frozenset[str] = frozenset()
    """Known speakers whose names the query contains, case-folded."""
    period: BeliefPeriod | None = None
    """The time range in the query: a preference, not a filter."""
    coming: BeliefPeriod | None = None
    """The next such time range, if the query leaves open which one it means."""
    is_about_time: bool = False
    """Whether it asks for nothing but a time: that period, or the one of the filter."""
    original_query: str = ""
    """The query as given; `query` is empty if it asks for a time alone."""
    wider_scope: QueryScope | None = None
    """The query scope before it was limited to the time that the query asks for alone."""
    is_lookup: bool = False
    """Whether it asks for a fact, rather than for something to be done or explained."""
    asks_for_all: bool = False
    """Whether it asks for each of several memories, so that none is left out for being weak."""
    is_about_answers: bool = False
    """Whether it asks for an earlier answer of an assistant."""
    after: Place | None = None
    """The place after which a page of a list begins."""
    overrides: RetrievalOverrides = NO_OVERRIDES
    parameters: Parameters = DEFAULTS

    @property
    def is_about_now(self) -> bool:
        """Whether it asks for current memories, not for the past or for other states."""
        criteria = self.query_scope.filter
        return criteria.as_of is None and CURRENT_STATES.issuperset(criteria.states)

    @property
    def candidates(self) -> int:
        """How many candidates to rank: the items to return and those that may displace them."""
        least = limits.PERIOD_LISTED if self.lists_time else CANDIDATES_MIN
        return max(least, 3 * self.budget.max_items)

    @property
    def lists_time(self) -> bool:
        """Whether it lists the memories of a time."""
        return self.is_about_time and not self.query

    @property
    def has_pages(self) -> bool:
        """Whether it is a list without a query, which is shown page by page."""
        return not self.original_query

    @property
    def has_period(self) -> bool:
        """Whether the query names a period, or the filter has one."""
        return self.period is not None or self.filter.has_period

    @property
    def is_ahead(self) -> bool:
        """Whether the query names a period to come, of which memories can only speak."""
        return self.period is not None and self.period.since > self.now

    @property
    def project(self) -> str | None:
        """The project of the filter, or else the caller's."""
        return self.query_scope.filter.project or self.query_scope.caller.project

    @property
    def filter(self) -> Filter:
        """The filter that candidates must pass."""
        return self.query_scope.filter

    @property
    def caller(self) -> Caller:
        """The caller who asks."""
        return self.query_scope.caller

    @property
    def now(self) -> datetime:
        """The time of the query."""
        return self.query_scope.now

    def with_low_salience(self) -> QueryPlan:
        """Return the plan that also finds what was archived for its low salience."""
        scopes = {"query_scope": self.query_scope, "wider_scope": self.wider_scope}
        wider = {
            name: replace(scope, filter=replace(scope.filter, archived_salience_min=0.0))
            for name, scope in scopes.items()
            if scope is not None
        }
        return replace(self, **wider)

    @property
    def archived_scope(self) -> QueryScope:
        """The widest scope of the query, limited to what is archived."""
        scope = self.wider_scope or self.query_scope
        return replace(scope, filter=replace(scope.filter, states=(State.ARCHIVED,)))

    @property
    def time_scoped(self) -> QueryScope | None:
        """The query scope limited to the period; None without a period."""
        if self.period is None:
            return None
        since = max(self.period.since, self.filter.since or self.period.since)
        last = self.period.until - timedelta(milliseconds=1)
        until = min(last, self.filter.until or last)
        return replace(self.query_scope, filter=replace(self.filter, since=since, until=until))


def plan_query(
    query: str,
    query_scope: QueryScope,
    *,
    budget: Budget,
    speakers: Iterable[str],
    overrides: RetrievalOverrides = NO_OVERRIDES,
) -> QueryPlan:
    """Plan a query; "last week" is relative to `as_of` if the query is about the past."""
    now = query_scope.filter.as_of or query_scope.now
    named = parse_time_range(query, now) if overrides.is_enabled(TIME) else None
    rest = named.rest if named else query
    period = named.period if named else None
    terms = search_terms(query)
    return QueryPlan(
        query=query,
        original_query=query,
        terms=terms,
        content_terms=search_terms(rest),
        extra_words=(*extra_words(query), *names_to_repeat(terms)),
        query_scope=query_scope,
        budget=budget,
        asks_when=named is None and _WHEN.search(query) is not None,
        is_lookup=is_lookup(query),
        asks_for_all=_LISTING.search(query) is not None,
        is_about_answers=asks_about_answers(query),
        speakers=frozenset(speakers),
        period=period,
        coming=named.coming if named else None,
        is_about_time=_is_about_time(rest, period, criteria=query_scope.filter, now=now),
        overrides=overrides,
    )


def _is_about_time(
    rest: str, period: BeliefPeriod | None, *, criteria: Filter, now: datetime
) -> bool:
    """Return whether a query without its time expression asks for anything at all.

    Nothing has happened yet in a period to come, so a question for that is answered by what says
    so. Without a period, one of the filter counts if the query asks "what" or for "anything".
    """
    if period is None:
        if not (criteria.has_period and _ASKS_ANYTHING.search(rest)):
            return False
    elif period.since > now:
        return False
    generic = _FUNCTION_WORDS | _GENERIC_WORDS
    return not content_words(_GENERIC_PHRASES.sub(" ", rest), generic)


def limit_to_time(plan: QueryPlan) -> QueryPlan:
    """Limit a question for a time alone to the memories of that time; return others unchanged."""
    if not (plan.is_about_time and plan.overrides.is_enabled(TIME_ALONE)):
        return plan
    return replace(
        plan, query_scope=plan.time_scoped or plan.query_scope, wider_scope=plan.query_scope
    )


def list_time(plan: QueryPlan) -> QueryPlan:
    """Turn a question for a time alone into a list of that time; return others unchanged."""
    limited = limit_to_time(plan)
    return limited if limited is plan else replace(limited, query="", terms=(), content_terms=())


def name_ngrams(query: str) -> list[str]:
    """List every word and pair of words, case-folded: possible names of speakers."""
    words = [word.casefold() for word in _WORD.findall(query)][:_TERMS_MAX]
    return list(dict.fromkeys([*words, *(f"{one} {two}" for one, two in pairwise(words))]))


def strip_names(query: str, names: Iterable[str]) -> str:
    """Remove speakers' names from the text to embed, unless nothing else remains.

    A stored message does not contain its speaker's name, so the name would only pull the vector
    towards texts about that name. Lexical search keeps it. docs/explanation/decisions.md has the
    measured effect.
    """
    stripped = query
    for name in sorted(names, key=len, reverse=True):
        spaced = r"\W+".join(re.escape(word) for word in name.split())
        stripped = re.sub(rf"\b{spaced}(?:['’]s)?\b", " ", stripped, flags=re.IGNORECASE)  # noqa: RUF001 as typed
    return stripped if _WORD.search(stripped) else query


def search_terms(query: str) -> tuple[str, ...]:
    """List the words to search for, in order, without function words unless all of them are."""
    foreign = frozenset[str]() if is_english(query) else FOREIGN_FUNCTIONS
    words = content_words(query, _FUNCTION_WORDS | foreign) or content_words(query, frozenset())
    return tuple(dict.fromkeys(words))[:_TERMS_MAX]


def content_words(text: str, silent: frozenset[str] = _FUNCTION_WORDS) -> list[str]:
    """List the words of a text in lower case, in order, without silent ones."""
    words = [word for word in _WORD.findall(spaced(text).lower()) if word not in silent]
    return [one for one in words if one.isascii() or not silent or not PARTICLE.fullmatch(one)]


NEEDS_REVIEW: Final = "needs_review"
"""Accepted among the states, although it is a mark that a memory of any state can have."""


class RecallOptions(TypedDict, total=False):
    """The keyword arguments of recall."""

    max_items: int | None
    """1..100; 12 unless set otherwise."""
    max_tokens: int | None
    """64..32,000, the size of the result; 1,400 unless set otherwise."""
    kinds: Sequence[Kind | str]
    labels: Sequence[str]
    tags: Sequence[str]
    """Only memories with all of these tags."""
    people: Sequence[str]
    """Only memories that mention, or were said by, one of these people."""
    project: str | None
    """Only this project and global memories."""
    scope: Scope | str | None
    agent: str | None
    """Only memories by this author."""
    session: str | None
    field: CausalField | str | None
    """Only atoms, searched in one field: subject, action, outcome or consequences."""
    thread: str | None
    """Only messages of this thread."""
    states: Sequence[State | str]
    """By default active and archived; `needs_review` is accepted too."""
    since: datetime | str | None
    """Occurred at or after, ISO 8601 or words such as "last monday"."""
    until: datetime | str | None
    """Occurred at or before."""
    as_of: datetime | str | None
    """Return what was believed at this time."""
    trust_min: float | None
    """0..1; lower it to include text from the web."""
    min_confidence: float
    """0..1."""
    deadline_ms: float | None
    """After this time no further retriever runs; `degraded` names those."""
    order: Order | str
    """Relevance, or timeline for items by time, each occurrence of the same words."""
    cursor: str | None
    """`next` of the page before, of a recall without a query."""
    bump: bool
    """Count this recall as an access to the best items; it does by default."""
    proactive: bool
    """Return only strong matches, for an agent that did not ask."""


def read_filter(
    options: RecallOptions, now: datetime, *, parameters: Parameters = DEFAULTS
) -> Filter:
    """Build the filter from the options; times in words are relative to `now`.

    Raises:
        InvalidInputError: an option is unknown (ignoring a misspelt filter would return too much),
            or a kind, state, field, scope or time cannot be parsed.
        RejectedError: `limit_exceeded`, a fraction is out of range.

    """
    check_names(options, RecallOptions.__annotations__, message="Recall has no option {}.")
    kinds = KindFilter.parse(options.get("kinds", ()))
    states = [str(name) for name in _listed(options.get("states", ()))]
    scope, thread, field = (options.get(name) for name in ("scope", "thread", "field"))
    trust_min = options.get("trust_min")
    return Filter(
        **kinds._asdict(),
        labels=_names(options.get("labels", ())),
        tags=_names(options.get("tags", ())),
        people=tuple(
            name.casefold().removeprefix("@") for name in _names(options.get("people", ()))
        ),
        scope=parse_choice(Scope, scope) if scope else None,
        states=tuple(parse_choice(State, name) for name in states if name != NEEDS_REVIEW),
        needs_review=NEEDS_REVIEW in states,
        field=parse_choice(CausalField, field) if field else None,
        thread=ids.parse(ids.THREAD, thread) if thread else None,
        session=normalise_line(options.get("session")),
        project=normalise_line(options.get("project")),
        agent=normalise_line(options.get("agent")),
        since=_parse_time(options.get("since"), now, ends=False),
        until=_parse_time(options.get("until"), now, ends=True),
        as_of=_parse_time(options.get("as_of"), now, ends=True),
        trust_min=parameters.trust_min if trust_min is None else trust_min,
        min_confidence=options.get("min_confidence", 0.0),
        archived_salience_min=0.0 if states else low_salience(parameters),
    )


def read_budget(options: RecallOptions, *, parameters: Parameters = DEFAULTS) -> Budget:
    """Build the budget from the options.

    Raises:
        InvalidInputError: the order is unknown.
        RejectedError: `limit_exceeded`, a number is out of range.

    """
    max_items, max_tokens = options.get("max_items"), options.get("max_tokens")
    return Budget(
        max_items=parameters.recall_items if max_items is None else max_items,
        max_tokens=parameters.recall_tokens if max_tokens is None else max_tokens,
        order=parse_choice(Order, options.get("order", Order.RELEVANCE)),
        is_default=max_items is None and max_tokens is None,
    )


def read_deadline(options: RecallOptions) -> float | None:
    """Return the deadline in milliseconds from now; None without one.

    Raises:
        RejectedError: `limit_exceeded`, it is out of range.

    """
    given = options.get("deadline_ms")
    if given is not None and not 1 <= given <= limits.DEADLINE_MS_MAX:
        raise RejectedError(
            f"deadline_ms is {given}; 1 to {limits.DEADLINE_MS_MAX:,} is allowed.",
            code="limit_exceeded",
            hint="Omit it to wait for every retriever.",
        )
    return given


def _names(given: Sequence[str]) -> tuple[str, ...]:
    """Normalize names as they are stored; an empty one stays and matches nothing."""
    return tuple(normalise_line(name) or "" for name in _listed(given))


def _listed(given: Sequence[str]) -> Sequence[str]:
    """Treat a single string as a list of one."""
    return (given,) if isinstance(given, str) else given


def _parse_time(given: datetime | str | None, now: datetime, *, ends: bool) -> datetime | None:
    return None if given is None else parse_time_expression(given, now, ends=ends)
