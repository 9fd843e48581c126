"""What is asked of the memory: filter and budget in, candidates considered, and the trace kept."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as default
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from commonbrain.model import limits
from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.kinds import CausalField, Kind, MessageDetail, fields_of
from commonbrain.model.memory import CURRENT_STATES, FINDABLE_STATES, Memory, State
from commonbrain.model.recall_result import Item, Order, ResultStatus
from commonbrain.model.revision import BeliefPeriod
from commonbrain.model.scope import Caller, Scope, is_visible


class ShownExtent(StrEnum):
    """How much of a memory an answer told."""

    WHOLE = "whole"
    EXCERPT = "excerpt"
    HEADLINE = "headline"
    BARE = "bare"
    """Its id alone."""

    @classmethod
    def of(cls, item: Item) -> "ShownExtent":
        """Read it off an item of an answer."""
        if item.body is not None:
            return cls.WHOLE
        if item.excerpt is not None:
            return cls.EXCERPT
        return cls.BARE if item.headline is None else cls.HEADLINE


class FeedbackMark(StrEnum):
    """What was told of a memory that a recall had packed."""

    USED = "used"
    """Its body was fetched, or something was built on it."""
    USEFUL = "useful"
    """Somebody said that it helped."""
    WRONG = "wrong"
    """Somebody said that it misled."""


MARKED_WITHIN: Final = timedelta(hours=1)
"""What is done with a memory later than that is not the doing of the recall that showed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """One mark on one memory of one recall."""

    trace_id: int
    memory_id: int
    mark: FeedbackMark
    agent: str
    session: str | None
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackEvent:
    """What an agent did with memories, whether or not a recall had shown them to it."""

    tenant: str
    agent: str
    session: str | None
    ids: tuple[int, ...]
    mark: FeedbackMark
    at: datetime
    is_fetch: bool = False
    """Whether it asked for the body, which tells nothing where it had been shown all of it."""

    @classmethod
    def by(
        cls, caller: Caller, ids: Iterable[int], *, mark: FeedbackMark, at: datetime
    ) -> "FeedbackEvent":
        """Say what a caller did."""
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
        """Give the marks that it leaves on the recalls that showed what was used."""
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
    """A candidate as its trace holds it; a feature that was 0 is left out."""

    memory_id: int
    score: float
    features: Mapping[str, float]
    left_out: str | None
    """Why it is not in the answer; None where it is."""
    shown: ShownExtent | None = None
    """How much of it the answer told; None where it is not in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One recall as the ledger holds it."""

    id: int
    asked_at: datetime
    agent: str
    session: str | None
    query: str
    """Empty where an erase has reached it."""
    verdict: str
    ranker: int | None
    """The model that ordered its candidates; None where fixed weights did."""
    considered: tuple[RankedCandidate, ...]
    """Best first, as they were ordered then."""
    packed: tuple[int, ...]
    degraded: tuple[str, ...]
    stages_ms: Mapping[str, float]
    marks: Mapping[int, frozenset[FeedbackMark]]
    """By memory; those without one are absent."""


TRUST_MIN_DEFAULT: Final = 0.5
"""Leaves untrusted web content (0.35) out unless it is asked for."""

FIELD: Final = "field:"
"""Begins the name of the feature that a candidate matched in a field of atoms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which memories may answer at all; an empty tuple or None leaves that side open."""

    kinds: tuple[Kind, ...] = ()
    labels: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    """Whom it names or who said it, case-folded; one of them is enough."""
    scope: Scope | None = None
    states: tuple[State, ...] = ()
    """Empty: active and archived."""
    field: CausalField | None = None
    """Only atoms, searched by what they say there alone."""
    thread: int | None = None
    """Only messages of this thread."""
    session: str | None = None
    project: str | None = None
    """This project and what belongs to every project."""
    agent: str | None = None
    since: datetime | None = None
    """Occurred at or after."""
    until: datetime | None = None
    """Occurred at or before."""
    as_of: datetime | None = None
    """Answer with what was believed then, the later superseded included."""
    needs_review: bool = False
    """Only what rests on something that has fallen, and that nobody has looked at since."""
    trust_min: float = TRUST_MIN_DEFAULT
    min_confidence: float = 0.0

    def __post_init__(self) -> None:
        """Keep both fractions within 0..1, and what was forgotten out of sight.

        Raises:
            RejectedError: `limit_exceeded`, one of them is out of bounds.
            InvalidInputError: forgotten memories are asked for, states at a moment of the past, or
                a field of what has none.

        """
        _check_bounds("trust_min", self.trust_min, low=0, high=1)
        _check_bounds("min_confidence", self.min_confidence, low=0, high=1)
        if State.FORGOTTEN in self.states:
            raise InvalidInputError("What was forgotten is not recalled.", hint="Get it by its id.")
        if self.field is not None and not {Kind.ATOM}.issuperset(self.kinds):
            raise InvalidInputError("Only atoms have fields.", hint="Leave field or kinds out.")
        if self.states and self.as_of is not None:
            raise InvalidInputError(
                "states and as_of exclude each other.", hint="Give one of the two."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How much an answer may take, in items and tokens as rendered for agents; in which order."""

    max_items: int = limits.RECALL_ITEMS_DEFAULT
    max_tokens: int = limits.RECALL_TOKENS_DEFAULT
    order: Order = Order.RELEVANCE

    def __post_init__(self) -> None:
        """Keep both within their limits.

        Raises:
            RejectedError: `limit_exceeded`, one of them is out of bounds.

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
    """A memory that may answer, with what speaks for it; `score` orders candidates of one query."""

    memory: Memory
    features: Mapping[str, float]
    score: float
    context: str | None = None
    """The headline of what it is part of: a thread, an episode."""
    notes: tuple[str, ...] = ()
    """What was noted beside it, and what it is when it is not current."""


class ExclusionReason(StrEnum):
    """Why a memory that was considered is not in the answer."""

    NOT_ALLOWED = "not_allowed"
    """By policy, trust or filter, or the same text came from a better one."""
    NEAR_DUPLICATE = "near_duplicate"
    NO_ROOM = "no_room"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What one recall considered and packed: the ledger that later training reads."""

    id: int
    caller: Caller
    asked_at: datetime
    query: str
    verdict: ResultStatus
    considered: tuple[Candidate, ...]
    packed: tuple[int, ...]
    degraded: tuple[str, ...]
    stages_ms: Mapping[str, float]
    left_out: Mapping[int, ExclusionReason] = default(default_factory=dict[int, ExclusionReason])
    """Why each of the others that were considered is not in the answer."""
    extents: Mapping[int, ShownExtent] = default(default_factory=dict[int, ShownExtent])
    """How much was told of each that was packed."""
    ranker: int | None = None
    """The model that ordered its candidates; None where fixed weights did."""
    is_watched: bool = False
    """Whether somebody judges by it, so that it is kept whatever share of traces is."""


def is_allowed(
    memory: Memory,
    caller: Caller,
    *,
    wanted: Filter,
    now: datetime,
    past: Sequence[BeliefPeriod] = (),
) -> bool:
    """Apply every policy and filter to one candidate, whatever arm brought it.

    `past` holds the spans in which it was believed before, for a question about the past.
    """
    return (
        is_visible(caller, memory)
        and _was_believed(memory, wanted, now=now, past=past)
        and memory.trust.weight >= wanted.trust_min
        and memory.confidence >= wanted.min_confidence
        and _matches(memory, wanted)
    )


def _matches(memory: Memory, wanted: Filter) -> bool:
    return (
        (not wanted.kinds or memory.kind in wanted.kinds)
        and (not wanted.labels or memory.label in wanted.labels)
        and (not wanted.tags or set(wanted.tags) <= set(memory.tags))
        and (not wanted.people or not _named(memory).isdisjoint(wanted.people))
        and (wanted.scope is None or memory.scope == wanted.scope)
        and (wanted.session is None or memory.session == wanted.session)
        and (wanted.thread is None or _thread_of(memory) == wanted.thread)
        and (wanted.field is None or wanted.field in fields_of(memory.detail))
        and (wanted.project is None or memory.project in {None, wanted.project})
        and (wanted.agent is None or memory.agent == wanted.agent)
        and (wanted.since is None or memory.occurred_at >= wanted.since)
        and (wanted.until is None or memory.occurred_at <= wanted.until)
    )


def _named(memory: Memory) -> set[str]:
    said = {memory.speaker.casefold()} if memory.speaker else set[str]()
    return said | set(memory.people)


def _thread_of(memory: Memory) -> int | None:
    return memory.detail.thread_id if isinstance(memory.detail, MessageDetail) else None


def _was_believed(
    memory: Memory, wanted: Filter, *, now: datetime, past: Sequence[BeliefPeriod]
) -> bool:
    as_of = wanted.as_of
    moment = as_of or now
    if memory.is_over(moment):
        return False
    if as_of is None:
        return memory.state in (wanted.states or CURRENT_STATES)
    if memory.state not in FINDABLE_STATES or memory.recorded_at > as_of:
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
