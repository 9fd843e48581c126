"""How an answer may be confined, read from what callers give."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, TypedDict

from commonbrain.model import ids, limits
from commonbrain.model.errors import InvalidInputError, RejectedError, parse_choice
from commonbrain.model.kinds import CausalField, Kind, kind_and_label
from commonbrain.model.memory import State
from commonbrain.model.query import TRUST_MIN_DEFAULT, Budget, Filter
from commonbrain.model.recall_result import Order
from commonbrain.model.scope import Scope
from commonbrain.text.normalisation import normalise_line
from commonbrain.text.time_expressions.parser import parse_time_expression

NEEDS_REVIEW: Final = "needs_review"
"""Given among the states: it is none, but a mark on memories of any."""


class RecallOptions(TypedDict, total=False):
    """How an answer is confined; see `Filter` and `TokenBudget` for each."""

    max_items: int
    max_tokens: int
    kinds: Sequence[Kind | str]
    labels: Sequence[str]
    tags: Sequence[str]
    people: Sequence[str]
    project: str | None
    scope: Scope | str | None
    agent: str | None
    session: str | None
    field: CausalField | str | None
    thread: str | None
    states: Sequence[State | str]
    since: datetime | str | None
    until: datetime | str | None
    as_of: datetime | str | None
    trust_min: float
    min_confidence: float
    deadline_ms: float | None
    order: Order | str
    bump: bool
    proactive: bool


def read_filter(options: RecallOptions, now: datetime) -> Filter:
    """Read which memories may answer; words for a time are relative to now.

    Raises:
        InvalidInputError: an option is unknown, for a misspelt one that was passed over would give
            more than was asked for; or a kind, state, field, scope or time is none.
        RejectedError: `limit_exceeded`, a fraction is out of bounds.

    """
    check_option_names(options)
    kinds, aliases = _kinds(_listed(options.get("kinds", ())))
    states = [str(name) for name in _listed(options.get("states", ()))]
    scope, thread, field = (options.get(name) for name in ("scope", "thread", "field"))
    return Filter(
        kinds=kinds,
        labels=(*_names(options.get("labels", ())), *aliases),
        tags=_names(options.get("tags", ())),
        people=tuple(name.casefold() for name in _names(options.get("people", ()))),
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
        trust_min=options.get("trust_min", TRUST_MIN_DEFAULT),
        min_confidence=options.get("min_confidence", 0.0),
    )


def read_budget(options: RecallOptions) -> Budget:
    """Read how much an answer may take.

    Raises:
        InvalidInputError: there is no such order.
        RejectedError: `limit_exceeded`, it is out of bounds.

    """
    return Budget(
        max_items=options.get("max_items", limits.RECALL_ITEMS_DEFAULT),
        max_tokens=options.get("max_tokens", limits.RECALL_TOKENS_DEFAULT),
        order=parse_choice(Order, options.get("order", Order.RELEVANCE)),
    )


def read_deadline(options: RecallOptions) -> float | None:
    """Read in how many milliseconds an answer is wanted; None when it may take its time.

    Raises:
        RejectedError: `limit_exceeded`, it is out of bounds.

    """
    given = options.get("deadline_ms")
    if given is not None and not 1 <= given <= limits.DEADLINE_MS_MAX:
        raise RejectedError(
            f"deadline_ms is {given}; 1 to {limits.DEADLINE_MS_MAX:,} is allowed.",
            code="limit_exceeded",
            hint="Leave it out to wait for every arm.",
        )
    return given


def check_option_names(options: Mapping[str, object]) -> None:
    """Refuse an option that there is none of.

    Raises:
        InvalidInputError: there is one.

    """
    unknown = sorted(set(options) - set(RecallOptions.__annotations__))
    if unknown:
        raise InvalidInputError(
            f"There is no {', '.join(unknown)} to recall by.",
            hint=f"Choose of {', '.join(RecallOptions.__annotations__)}.",
        )


def _kinds(given: Sequence[Kind | str]) -> tuple[tuple[Kind, ...], tuple[str, ...]]:
    """Read kinds and aliases of kinds, each alias as its kind and a label."""
    read = [kind_and_label(name) for name in given]
    for name, known in zip(given, read, strict=True):
        if known is None:
            parse_choice(Kind, name)
    parsed = [known for known in read if known is not None]
    return tuple(kind for kind, _ in parsed), tuple(label for _, label in parsed if label)


def _names(given: Sequence[str]) -> tuple[str, ...]:
    """Spell names as they are stored; one of which nothing is left stays, and matches nothing."""
    return tuple(normalise_line(name) or "" for name in _listed(given))


def _listed(given: Sequence[str]) -> Sequence[str]:
    """Take one word for a list of it, not of its letters."""
    return (given,) if isinstance(given, str) else given


def _parse_time(given: datetime | str | None, now: datetime, *, ends: bool) -> datetime | None:
    return None if given is None else parse_time_expression(given, now, ends=ends)
