"""Queries: filter, budget, candidates, and the trace of a recall."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field as default
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple

from commonbrain.model import limits
from commonbrain.model.citations import CheckedCitation
from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.kinds import (
    CausalField,
    Kind,
    fields_of,
    parse_kind_filter,
)
from commonbrain.model.limits import TRUST_MIN_DEFAULT
from commonbrain.model.memory import CURRENT_STATES, FINDABLE_STATES, Memory, State
from commonbrain.model.recall_result import Item, Order, ResultStatus, SourceTurn
from commonbrain.model.revision import BeliefPeriod
from commonbrain.model.scope import Authority, Caller, Scope, is_visible
from commonbrain.model.values import dataclass


class ShownExtent(StrEnum):
    """How much of a memory a result contains."""

    WHOLE = "whole"
    EXCERPT = "excerpt"
    HEADLINE = "headline"
    BARE = "bare"
    """Only its id."""

    @classmethod
    def of(cls, item: Item) -> "ShownExtent":
        """Derive it from an item of a result."""
        if item.body is not None:
            return cls.WHOLE
        if item.excerpt is not None:
            return cls.EXCERPT
        return cls.BARE if item.headline is None else cls.HEADLINE


class FeedbackMark(StrEnum):
    """Feedback on a memory that a recall returned."""

    USED = "used"
    """Its body was fetched, or something was derived from it."""
    USEFUL = "useful"
    """It was rated helpful."""
    WRONG = "wrong"
    """It was rated misleading."""


VOTES: Final = frozenset({FeedbackMark.USEFUL, FeedbackMark.WRONG})
"""An agent has one of them on a memory, its last."""
MARKED_WITHIN: Final = timedelta(hours=1)
"""Later use of a memory is not attributed to the recall that returned it."""


Place = tuple[datetime, int]
"""The place of a memory in a list, newest first: when it occurred, and its id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """One feedback mark on one memory of one recall."""

    trace_id: int
    memory_id: int
    mark: FeedbackMark
    agent: str
    session: str | None
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackEvent:
    """What an agent did with memories, whether or not a recall had returned them."""

    tenant: str
    agent: str
    session: str | None
    ids: tuple[int, ...]
    mark: FeedbackMark
    at: datetime
    is_fetch: bool = False
    """Whether it fetched the body, which is no feedback if it had been shown in full."""

    @classmethod
    def by(
        cls, caller: Caller, ids: Iterable[int], *, mark: FeedbackMark, at: datetime
    ) -> "FeedbackEvent":
        """Build the event of a caller."""
        given = tuple(dict.fromkeys(ids))
        return cls(
            tenant=caller.tenant,
            agent=caller.agent,
            session=caller.session,
            ids=given,
            mark=mark,
            at=at,
        )

    def marks(self, shown: Mapping[int, int]) -> list[Feedback]:
        """Return the marks on the recalls that returned these memories."""
        return [
            Feedback(
                trace_id=trace,
                memory_id=memory,
                mark=self.mark,
                agent=self.agent,
                session=self.session,
                at=self.at,
            )
            for memory, trace in shown.items()
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedCandidate:
    """A candidate as stored in a trace; features that were 0 are omitted."""

    memory_id: int
    score: float
    features: Mapping[str, float]
    left_out: str | None
    """Why it is not in the result; None if it is."""
    shown: ShownExtent | None = None
    """How much of it the result contains; None if it is not in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallLogEntry:
    """One recall in the recall log."""

    id: int
    asked_at: datetime
    agent: str
    session: str | None
    query: str
    """Empty after an erase."""
    status: str
    ranker: int | None
    """The model that ordered its candidates; None for fixed weights."""
    considered: tuple[RankedCandidate, ...]
    """Best first, in the order of that recall."""
    packed: tuple[int, ...]
    degraded: tuple[str, ...]
    stages_ms: Mapping[str, float]
    marks: Mapping[int, frozenset[FeedbackMark]]
    """By memory; those without marks are absent."""


FIELD: Final = "field:"
"""Prefix of the feature for a match in a field of atoms."""


class KindFilter(NamedTuple):
    """Kinds, and subtypes as a kind and a label; a memory must match one of all."""

    kinds: tuple[Kind, ...]
    subtypes: tuple[tuple[Kind, str], ...]

    @classmethod
    def parse(cls, names: str | Sequence[Kind | str]) -> "KindFilter":
        """Parse names and aliases, or a single one.

        Raises:
            InvalidInputError: one is neither a kind nor an alias.

        """
        given = (names,) if isinstance(names, str) else names
        parsed = list(dict.fromkeys(parse_kind_filter(name) for name in given))
        kinds = tuple(kind for kind, label in parsed if label is None)
        subtypes = tuple((kind, label) for kind, label in parsed if label and kind not in kinds)
        return cls(kinds, subtypes)

    @property
    def touched(self) -> tuple[Kind, ...]:
        """The kinds of which it matches anything."""
        return tuple(dict.fromkeys((*self.kinds, *(kind for kind, _ in self.subtypes))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which memories may be returned; an empty tuple or None does not filter."""

    kinds: tuple[Kind, ...] = ()
    subtypes: tuple[tuple[Kind, str], ...] = ()
    """Kinds with a label; a memory must match one of these or of `kinds`."""
    labels: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    """People mentioned or speaking, case-folded; one match is enough."""
    scope: Scope | None = None
    states: tuple[State, ...] = ()
    """Empty means active and archived."""
    field: CausalField | None = None
    """Only atoms, searched in this field."""
    thread: int | None = None
    """Only messages of this thread."""
    session: str | None = None
    project: str | None = None
    """This project and global memories."""
    agent: str | None = None
    authority: Authority | None = None
    since: datetime | None = None
    """Occurred at or after."""
    until: datetime | None = None
    """Occurred at or before."""
    as_of: datetime | None = None
    """Return what was believed at this time, including memories superseded since."""
    needs_review: bool = False
    """Only memories with an open review."""
    trust_min: float = TRUST_MIN_DEFAULT
    min_confidence: float = 0.0
    archived_salience_min: float = 0.0
    """What is archived must have at least this salience."""

    @property
    def matched_kinds(self) -> tuple[Kind, ...]:
        """The kinds of which it matches anything; empty for all."""
        return KindFilter(self.kinds, self.subtypes).touched

    @property
    def has_period(self) -> bool:
        """Whether it limits the time of occurrence."""
        return self.since is not None or self.until is not None

    def __post_init__(self) -> None:
        """Check ranges, and that forgotten memories are not requested.

        Raises:
            RejectedError: `limit_exceeded`, a fraction is out of range.
            InvalidInputError: forgotten memories are requested, states together with a time in the
                past, or a field of a kind without fields.

        """
        _check_bounds("trust_min", self.trust_min, low=0, high=1)
        _check_bounds("min_confidence", self.min_confidence, low=0, high=1)
        if State.FORGOTTEN in self.states:
            raise InvalidInputError("What was forgotten is not recalled.", hint="Get it by its id.")
        if self.field is not None and not {Kind.ATOM}.issuperset(self.matched_kinds):
            raise InvalidInputError("Only atoms have fields.", hint="Leave field or kinds out.")
        if self.states and self.as_of is not None:
            raise InvalidInputError(
                "states and as_of exclude each other.", hint="Give one of the two."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The size of a result in items and tokens as rendered for agents, and its order."""

    max_items: int = limits.RECALL_ITEMS_DEFAULT
    max_tokens: int = limits.RECALL_TOKENS_DEFAULT
    order: Order = Order.RELEVANCE
    is_default: bool = False
    """Whether the caller named no limit, so that what adds little to the answer is left out."""

    def __post_init__(self) -> None:
        """Check the limits.

        Raises:
            RejectedError: `limit_exceeded`, one is out of range.

        """
        _check_bounds("max_items", self.max_items, low=1, high=limits.RECALL_ITEMS_MAX)
        _check_bounds(
            "max_tokens",
            self.max_tokens,
            low=limits.RECALL_TOKENS_MIN,
            high=limits.RECALL_TOKENS_MAX,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A memory with its features; `score` orders the candidates of one query."""

    memory: Memory
    features: Mapping[str, float]
    score: float
    context: str | None = None
    """The subject of its thread, or the headline of its episode."""
    context_id: int | None = None
    """The memory from which the context is: the first message, or the episode."""
    notes: tuple[str, ...] = ()
    """Annotations, and its state if it is not current."""
    earlier: str | None = None
    """What it said before."""
    source: SourceTurn | None = None
    """The turn that it came from."""
    cites: tuple[CheckedCitation, ...] = ()
    """The code that it cites, and what became of it."""


PROACTIVE: Final = "proactive"
"""The feature of a candidate that nobody asked for: how probably it bears upon the prompt, 0..1."""


class ExclusionReason(StrEnum):
    """Why a candidate is not in the result."""

    NOT_ALLOWED = "not_allowed"
    """Excluded by policy, trust or filter, or a better candidate has the same text."""
    NEAR_DUPLICATE = "near_duplicate"
    """In traces of earlier versions, which showed two of those that say nearly the same."""
    OVER_BUDGET = "no_room"
    NOT_WORTH_SHOWING = "not_worth_showing"
    """Nobody asked, and it may not bear upon the prompt, is outdated or was shown before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallTrace:
    """The candidates and the result of one recall, for the recall log and for training."""

    id: int
    caller: Caller
    asked_at: datetime
    query: str
    status: ResultStatus
    considered: tuple[Candidate, ...]
    packed: tuple[int, ...]
    degraded: tuple[str, ...]
    stages_ms: Mapping[str, float]
    left_out: Mapping[int, ExclusionReason] = default(default_factory=dict[int, ExclusionReason])
    """The reason for each candidate that is not in the result."""
    extents: Mapping[int, ShownExtent] = default(default_factory=dict[int, ShownExtent])
    """How much of each returned memory the result contains."""
    ranker: int | None = None
    """The model that ordered its candidates; None for fixed weights."""
    is_watched: bool = False
    """Whether a canary depends on it, so that it is stored regardless of the sample rate."""


def is_allowed(
    memory: Memory,
    caller: Caller,
    *,
    criteria: Filter,
    now: datetime,
    past: Sequence[BeliefPeriod] = (),
) -> bool:
    """Check one candidate against policies and filter, whichever retriever found it.

    `past` holds the periods in which it was believed, for a query about the past.
    """
    return (
        is_visible(caller, memory)
        and _was_believed(memory, criteria, now=now, past=past)
        and memory.trust.weight >= criteria.trust_min
        and memory.confidence >= criteria.min_confidence
        and (
            memory.state is not State.ARCHIVED or memory.salience >= criteria.archived_salience_min
        )
        and _is_of_kind(memory, criteria)
        and (not criteria.labels or memory.label in criteria.labels)
        and (not criteria.tags or set(criteria.tags) <= set(memory.tags))
        and (
            not criteria.people or any(is_person(name, criteria.people) for name in _named(memory))
        )
        and (criteria.scope is None or memory.scope == criteria.scope)
        and (criteria.session is None or memory.session == criteria.session)
        and (criteria.thread is None or memory.thread_id == criteria.thread)
        and (criteria.field is None or criteria.field in fields_of(memory.detail))
        and (criteria.project is None or memory.project in {None, criteria.project})
        and (criteria.agent is None or memory.agent == criteria.agent)
        and criteria.authority in {None, memory.authority}
        and (criteria.since is None or memory.occurred_at >= criteria.since)
        and (criteria.until is None or memory.occurred_at <= criteria.until)
    )


def _is_of_kind(memory: Memory, criteria: Filter) -> bool:
    if not criteria.kinds and not criteria.subtypes:
        return True
    return memory.kind in criteria.kinds or (memory.kind, memory.label) in criteria.subtypes


NAME_SIGNS: Final = (" ", ".", "-", "_")
"""What may stand between the parts of a person's name."""


def name_forms(name: str) -> tuple[str, ...]:
    """List the forms in which a person's name is written: "ann lee", "ann.lee", "ann-lee"."""
    parts = re.split(r"[ ._-]+", name)
    return tuple(dict.fromkeys((name, *(sign.join(parts) for sign in NAME_SIGNS))))


def is_person(name: str, people: Sequence[str]) -> bool:
    """Return whether a name is that of one of some people, given by first or full name."""
    return any(
        name == form or any(name.startswith(form + sign) for sign in NAME_SIGNS)
        for person in people
        for form in name_forms(person)
    )


def _named(memory: Memory) -> set[str]:
    names = {memory.speaker.casefold()} if memory.speaker else set[str]()
    return names | set(memory.people)


def _was_believed(
    memory: Memory, criteria: Filter, *, now: datetime, past: Sequence[BeliefPeriod]
) -> bool:
    as_of = criteria.as_of
    time = as_of or now
    if memory.is_over(time):
        return False
    if as_of is None:
        return memory.state in (criteria.states or CURRENT_STATES)
    if memory.state not in FINDABLE_STATES:
        return False
    since = memory.believed_since or memory.recorded_at
    is_held = memory.state in CURRENT_STATES and since <= as_of
    return is_held or any(span.holds(as_of) for span in past)


def _check_bounds(name: str, given: float, *, low: int, high: int) -> None:
    if not low <= given <= high:
        raise RejectedError(
            f"{name} is {given}; {low} to {high} is allowed.",
            code="limit_exceeded",
            hint="Ask for less and recall again with a narrower query.",
        )
