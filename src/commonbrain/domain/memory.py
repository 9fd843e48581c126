"""What is offered and what is kept: a Draft before the gate, a Memory after it."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final, cast

from commonbrain.domain.atom import fields_of
from commonbrain.domain.kinds import AtomDetail, Detail, FactDetail, Kind, MessageDetail
from commonbrain.domain.scope import Scope
from commonbrain.domain.trust import Trust


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
    finds_tasks: bool = False
    """Whether sentences that say what is to be done become tasks of their own."""
    finds_causes: bool | None = None
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
