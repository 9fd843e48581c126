"""What is offered and what is kept: a Draft before the gate, a Memory after it."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, cast

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import AtomDetail, Detail, FactDetail, Kind, MessageDetail, fields_of
from commonbrain.model.scope import Scope
from commonbrain.model.trust import Trust


class State(StrEnum):
    """Where a memory is in its life, as stored; dormancy is computed, not stored."""

    ACTIVE = "active"
    ARCHIVED = "archived"
    SUPERSEDED = "superseded"
    FORGOTTEN = "forgotten"
    EXPIRED = "expired"
    QUARANTINED = "quarantined"
    CANDIDATE = "candidate"


AWAITING_STATES = frozenset({State.QUARANTINED, State.CANDIDATE})
"""What approve and reject settle."""
CURRENT_STATES = frozenset({State.ACTIVE, State.ARCHIVED})
"""What recall returns unless it is asked about the past."""
FINDABLE_STATES = CURRENT_STATES | {State.SUPERSEDED}
"""What the index holds: questions about the past find what was believed then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadRef:
    """The thread a message belongs to: `key` finds it again, `subject` is its headline."""

    key: str
    subject: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """A conversation that messages belong to; its key is unique in the tenant."""

    id: int
    key: str
    subject: str
    project: str | None = None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A text offered to the memory, with whatever its author knows about it.

    `kind` may be a kind or an alias of one; without it the words decide. `severity` is for rules;
    `detail` carries the other columns that only the kind has.
    """

    body: str
    kind: str | None = None
    headline: str | None = None
    label: str | None = None
    project: str | None = None
    scope: Scope | None = None
    trust: Trust | None = None
    confidence: float | None = None
    tags: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    source_ref: str | None = None
    occurred_at: datetime | None = None
    expires_at: datetime | None = None
    auto_captured: bool = False
    distinct_because: str | None = None
    severity: str | None = None
    thread: ThreadRef | None = None
    detail: Detail | None = None
    columns: Mapping[str, object] = field(default_factory=dict[str, object])
    """Columns of the kind by their names, for who does not make the detail himself."""
    derived_from: tuple[int, ...] = ()
    depends_on: tuple[int, ...] = ()
    """What must hold for it to hold; unlike a source, no word of it need be in it."""
    source_message_id: int | None = None
    audience: tuple[str, ...] = ()
    """Who beside its author sees it while it is private; a message names its recipients instead."""
    extract_tasks: bool = False
    """Whether sentences that say what is to be done become tasks of their own."""
    extract_causes: bool | None = None
    """Whether what it says caused what becomes atoms of their own; None: if it is a message."""
    part: int | None = None
    """Which part, from 1, of a text that is too long for one memory; None: it is a whole."""
    is_candidate: bool = False
    """Whether it is only proposed: it holds once somebody approves it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """One stored knowledge item; headline, body and detail never change once stored."""

    id: int
    kind: Kind
    headline: str
    body: str
    detail: Detail
    label: str | None = None
    state: State = State.ACTIVE
    scope: Scope = Scope.TEAM
    project: str | None = None
    agent: str
    session: str | None = None
    trust: Trust
    confidence: float
    salience: float
    rating: int = 0
    pinned: bool = False
    tags: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    """Whom it names, case-folded; not who said it."""
    topics: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    """Files, tickets and the like that it names."""
    source_ref: str | None = None
    source_message_id: int | None = None
    auto_captured: bool = False
    semantic_hash: str
    recorded_at: datetime
    occurred_at: datetime
    expires_at: datetime | None = None
    access_count: int = 0
    last_access_at: datetime | None = None
    believed_since: datetime | None = None
    """When it came to be believed again; None: ever since it was recorded."""
    superseded_at: datetime | None = None
    superseded_by: int | None = None
    superseded_count: int = 0
    """How many revisions came before this one in its chain."""
    payload: Mapping[str, object] = field(default_factory=dict[str, object])

    @property
    def text(self) -> str:
        """What it says in full: the body, led by the headline where the body lacks it."""
        return full_text(self.headline, self.body)

    @property
    def speaker(self) -> str | None:
        """Who said it, when it is a message."""
        return self.detail.sender if isinstance(self.detail, MessageDetail) else None

    @property
    def audience(self) -> tuple[str, ...]:
        """Who beside its author sees it while it is private: to whom it, or its source, went."""
        if isinstance(self.detail, MessageDetail):
            return self.detail.recipients
        return tuple(cast("Sequence[str]", self.payload.get(AUDIENCE, ())))

    def is_over(self, now: datetime) -> bool:
        """Say whether its time has passed."""
        return self.expires_at is not None and self.expires_at <= now

    @property
    def keywords(self) -> str:
        """Names it can be found by, and what is told of it beside, that its text does not say."""
        named = (self.speaker, self.project, self.label, *self.tags, *self.people)
        beside = (said for said in _told_beside(self.detail) if said not in self.text)
        return " ".join(name for name in (*named, *beside) if name)


def _told_beside(detail: Detail) -> Iterable[str]:
    """Give what a kind says in columns of its own that whoever looks for words would look for."""
    match detail:
        case AtomDetail():
            return fields_of(detail).values()
        case FactDetail(subject=subject) | MessageDetail(subject=subject):
            return (subject,) if subject else ()
        case _:
            return ()


AUDIENCE: Final = "audience"
"""Where in its payload a private memory that is no message names who else sees it."""
ERASED: Final = "(erased)"
"""Stands where the headline of an erased memory stood."""


def full_text(headline: str, body: str) -> str:
    """Join headline and body, saying the headline once."""
    said = headline.removesuffix("…")
    if body.startswith(said):
        return body
    is_said = f" {_folded(said)}" in f" {_folded(body)}"
    return body if is_said else f"{headline}\n{body}"


def is_erased(memory: Memory) -> bool:
    """Say whether nothing is left of a memory but its id."""
    return not memory.semantic_hash and not memory.body


def semantic_hash(kind: Kind, text: str) -> str:
    """Give 128 bits that are equal for texts of a kind that differ only in case and spacing."""
    return hashlib.sha256(f"{kind}\n{_folded(text)}".encode()).hexdigest()[:32]


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    **dict.fromkeys(("kind", "headline", "label", "project", "scope", "trust"), (str,)),
    **dict.fromkeys(("source_ref", "distinct_because", "severity", "body"), (str,)),
    **dict.fromkeys(("occurred_at", "expires_at"), (datetime,)),
    **dict.fromkeys(("auto_captured", "extract_tasks", "extract_causes"), (bool,)),
    **dict.fromkeys(("tags", "people", "derived_from", "depends_on"), (tuple, list)),
    "confidence": (int, float),
    "source_message_id": (int,),
    "thread": (ThreadRef,),
    "columns": (Mapping,),
}
_MEMBERS: Final = {"tags": str, "people": str, "derived_from": int, "depends_on": int}

Change = Callable[[str, str], str]
"""Gives a text anew from the name of its place and the text."""


def check_types(draft: Draft) -> None:
    """Refuse what no annotation keeps a program from putting into a draft.

    Raises:
        InvalidInputError: a field holds a value of another type; the value is not repeated.

    """
    for name, types in _TYPES.items():
        value: Any = getattr(draft, name)
        if value is None and name != "body":
            continue
        if not isinstance(value, types):
            raise _wrong(name, cast("type", type(value)))
        member = _MEMBERS.get(name)
        members = cast("list[object]", value) if member else []
        odd = [one for one in members if member and not isinstance(one, member)]
        if odd:
            raise _wrong(name, type(odd[0]))


def texts_of(draft: Draft) -> Iterator[tuple[str, str]]:
    """Give every free text that would be stored, with the name of its place.

    They are those that `with_texts` would change, in its order, without a draft made anew.
    """
    yield "body", draft.body
    yield from _told_in(draft.columns)
    if draft.thread is not None:
        yield "thread key", draft.thread.key
        yield "thread subject", draft.thread.subject
    if draft.detail is not None:
        yield from _told_in(_free(draft.detail))
    for name in _PLAIN:
        yield from _told(name, getattr(draft, name))


def with_texts(draft: Draft, change: Change) -> Draft:
    """Give a draft anew, every free text of it changed; names that become empty are left out."""
    return replace(
        draft,
        body=change("body", draft.body),
        columns=_mapped(draft.columns, change),
        thread=_thread(draft.thread, change),
        detail=_detail(draft.detail, change),
        **{name: _changed(name, getattr(draft, name), change=change) for name in _PLAIN},
    )


_PLAIN: Final = (
    *("headline", "label", "project", "source_ref", "distinct_because", "tags", "people"),
)


def _changed(name: str, value: Any, *, change: Change) -> Any:  # noqa: ANN401 fields hold anything
    match value:
        case str():
            return change(name, value) or None
        case tuple() | list():
            members = cast("list[object]", value)
            told = (_changed(name, one, change=change) for one in members)
            return tuple(one for one in told if one is not None)
        case Mapping():
            return _mapped(cast("Mapping[str, object]", value), change)
        case _:
            return value


def _told(name: str, value: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401 fields hold anything
    match value:
        case str():
            yield name, value
        case tuple() | list():
            for one in cast("list[object]", value):
                yield from _told(name, one)
        case Mapping():
            yield from _told_in(cast("Mapping[str, object]", value))
        case _:
            pass


def _told_in(given: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for name, value in given.items():
        yield from _told(name, value)


def _mapped(given: Mapping[str, object], change: Change) -> dict[str, object]:
    return {name: _changed(name, value, change=change) for name, value in given.items()}


def _thread(thread: ThreadRef | None, change: Change) -> ThreadRef | None:
    if thread is None:
        return None
    return ThreadRef(
        key=change("thread key", thread.key), subject=change("thread subject", thread.subject)
    )


def _detail(detail: Any, change: Change) -> Any:  # noqa: ANN401 one of eight, of any columns
    if detail is None:
        return None
    return replace(detail, **_mapped(_free(detail), change))


def _free(detail: Any) -> dict[str, object]:  # noqa: ANN401 one of eight, of any columns
    own = {one.name: getattr(detail, one.name) for one in fields(detail)}
    # Enumerations are texts, too, and are not free ones.
    return {name: value for name, value in own.items() if type(value) in {str, tuple, dict}}


def _wrong(name: str, given: type) -> InvalidInputError:
    return InvalidInputError(f"The {name} is a {given.__name__}.", hint="See Draft for the types.")
