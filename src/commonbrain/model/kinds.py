"""The eight kinds of memory: their own columns, and the whole lifecycle of each in one row.

`KINDS` is the table: to add a kind, add a detail class, a row here, and its detail table.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from commonbrain.model.errors import InvalidInputError


class Kind(StrEnum):
    """The lifecycle class of a memory; a closed set."""

    RULE = "rule"
    FACT = "fact"
    INCIDENT = "incident"
    TASK = "task"
    EVENT = "event"
    EPISODE = "episode"
    ATOM = "atom"
    MESSAGE = "message"


class Severity(StrEnum):
    """How strictly a rule binds."""

    BLOCKER = "BLOCKER"
    PATTERN = "PATTERN"


class TaskStatus(StrEnum):
    """Where a task stands; stale means overdue and untouched."""

    OPEN = "open"
    BLOCKED = "blocked"
    DONE = "done"
    STALE = "stale"


class TaskPriority(StrEnum):
    """Which task comes first."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class MessagePriority(StrEnum):
    """How loudly a message knocks."""

    INFO = "info"
    ACTION = "action"
    URGENT = "urgent"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleDetail:
    """What only a rule has; `skill` is its trigger as a JSON object, or null."""

    severity: Severity = Severity.PATTERN
    skill: Mapping[str, object] | None = None
    must_ack: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FactDetail:
    """What only a fact has."""

    subject: str | None = None
    ttl_s: int | None = None
    """Seconds from being recorded until it no longer holds."""

    def __post_init__(self) -> None:
        """Refuse a time to live that is none."""
        if self.ttl_s is not None and self.ttl_s <= 0:
            raise InvalidInputError(
                f"ttl_s is {self.ttl_s}; it must be above 0.", hint="Leave it out."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentDetail:
    """What only an incident has."""

    root_cause: str | None = None
    resolution: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDetail:
    """What only a task has."""

    status: TaskStatus = TaskStatus.OPEN
    priority: TaskPriority = TaskPriority.MEDIUM
    due_at: datetime | None = None
    must_ack: bool = False
    assignee: str | None = None
    lease_holder: str | None = None
    """The session that has claimed it."""
    lease_until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventDetail:
    """What only an event has; `importance` is 0..1, `recurrences` counts later equals."""

    actor: str | None = None
    importance: float | None = None
    recurrences: int = 0

    def __post_init__(self) -> None:
        """Refuse an importance that is no fraction."""
        if self.importance is not None and not 0 <= self.importance <= 1:
            raise InvalidInputError(f"importance is {self.importance}; 0 to 1 is allowed.")


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeDetail:
    """What only an episode has: the span it tells of."""

    started_at: datetime | None = None
    ended_at: datetime | None = None

    def __post_init__(self) -> None:
        """Refuse a span that ends before it begins."""
        if self.started_at and self.ended_at and self.ended_at < self.started_at:
            raise InvalidInputError("The episode ends before it begins.", hint="Swap the two.")


@dataclass(frozen=True, slots=True, kw_only=True)
class AtomDetail:
    """What only an atom has: one causal unit, with its delays in seconds."""

    subject: str | None = None
    action: str | None = None
    outcome: str | None = None
    consequences: str | None = None
    outcome_delay_s: float | None = None
    consequence_delay_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDetail:
    """What only a message has; no recipients means a broadcast."""

    thread_id: int | None = None
    sender: str | None = None
    recipients: tuple[str, ...] = ()
    subject: str | None = None
    priority: MessagePriority = MessagePriority.INFO
    parent_id: int | None = None


Detail = (
    RuleDetail
    | FactDetail
    | IncidentDetail
    | TaskDetail
    | EventDetail
    | EpisodeDetail
    | AtomDetail
    | MessageDetail
)


class DuplicatePolicy(StrEnum):
    """What happens to a draft that says what a memory of its kind says already."""

    REFUSE = "refuse"
    WARN = "warn"
    RECUR = "recur"
    KEEP = "keep"


@dataclass(frozen=True, slots=True, kw_only=True)
class KindPolicy:
    """The whole lifecycle of one kind."""

    kind: Kind
    detail: type[Detail]
    salience: float
    """Where its salience starts, 0..1."""
    is_atomic: bool = False
    """Whether its body must say one thing: words are counted and merges refused."""
    makes_claims: bool = False
    """Whether one of it may contradict another, so that both are linked."""
    on_duplicate: DuplicatePolicy = DuplicatePolicy.KEEP
    half_life: timedelta | None = None
    """Strength halves in this time since the last access; None never fades."""
    archived_after: timedelta | None = None
    """Archived when nobody read it for so long; None never."""
    is_pruned: bool = True
    """Whether pruning may ever take it."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that only this kind has, beside the body."""
        return tuple(field.name for field in fields(self.detail))


# What happened fades within days, what is true within weeks unless it is recalled; what binds, what
# is owed and what was said never do. Half-lives: Ebbinghaus's curve of forgetting, as 2^(-age/h).
KINDS: Final[Mapping[Kind, KindPolicy]] = {
    policy.kind: policy
    for policy in (
        KindPolicy(
            kind=Kind.RULE,
            detail=RuleDetail,
            is_atomic=True,
            on_duplicate=DuplicatePolicy.REFUSE,
            salience=0.9,
            is_pruned=False,
        ),
        KindPolicy(
            kind=Kind.FACT,
            detail=FactDetail,
            is_atomic=True,
            makes_claims=True,
            on_duplicate=DuplicatePolicy.REFUSE,
            half_life=timedelta(days=7),
            salience=0.7,
        ),
        KindPolicy(
            kind=Kind.INCIDENT,
            detail=IncidentDetail,
            archived_after=timedelta(days=90),
            salience=0.7,
        ),
        KindPolicy(
            kind=Kind.TASK,
            detail=TaskDetail,
            is_atomic=True,
            on_duplicate=DuplicatePolicy.WARN,
            salience=0.7,
        ),
        KindPolicy(
            kind=Kind.EVENT,
            detail=EventDetail,
            on_duplicate=DuplicatePolicy.RECUR,
            half_life=timedelta(hours=48),
            salience=0.45,
        ),
        KindPolicy(
            kind=Kind.EPISODE, detail=EpisodeDetail, archived_after=timedelta(days=90), salience=0.6
        ),
        KindPolicy(kind=Kind.ATOM, detail=AtomDetail, half_life=timedelta(days=30), salience=0.6),
        KindPolicy(kind=Kind.MESSAGE, detail=MessageDetail, salience=0.45, is_pruned=False),
    )
}

# Names that other memory systems use for what is one of our kinds; each stays on as the label.
ALIASES: Final[Mapping[str, Kind]] = {
    **dict.fromkeys(("policy", "guardrail", "procedural", "convention"), Kind.RULE),
    **dict.fromkeys(("decision", "insight", "reference", "person", "architecture"), Kind.FACT),
    **dict.fromkeys(("research", "plan", "idea", "note"), Kind.FACT),
    **dict.fromkeys(("observation", "meeting", "journal", "stm", "episodic"), Kind.EVENT),
    "bug": Kind.INCIDENT,
    **dict.fromkeys(("todo", "action_item"), Kind.TASK),
}


def kind_and_label(name: str) -> tuple[Kind, str | None] | None:
    """Read a kind's name or an alias of one; the alias becomes the label; None when unknown."""
    folded = name.strip().lower()
    # Before Python 3.12 an enumeration does not say whether it holds a plain text.
    if folded in tuple(Kind):
        return Kind(folded), None
    kind = ALIASES.get(folded)
    return (kind, folded) if kind else None


ATOM_FIELD_CHARS_MAX: Final = 200
ATOMS_MAX: Final = 3
"""Atoms taken from one text, the best; a text that gives more is a report, not a message."""
QUALITY_MIN: Final = 0.6
"""What scores less names neither its cause nor its effect in more than a word or two."""
CONFIDENCE_OF_MESSAGE: Final = 0.6
"""How sure an atom that a rule or a model found in a message is at most; messages are chat."""
CONFIDENCE: Final = 0.7
"""The same for other texts."""
_GROUNDED_FROM: Final = 0.5
"""Share of a field's words that stand in the text: a model may change a tense, not the matter."""
_WORD: Final = re.compile(r"\w+")
_TELLING_CHARS: Final = 3
"""Shorter words stand in every text; they count where a field has no others."""


class CausalField(StrEnum):
    """A part of what an atom says; each is found by itself."""

    SUBJECT = "subject"
    ACTION = "action"
    OUTCOME = "outcome"
    CONSEQUENCES = "consequences"


@dataclass(frozen=True, slots=True, kw_only=True)
class Atom:
    """What a text says caused what: subject and action are the cause, the outcome its effect."""

    subject: str
    action: str = ""
    outcome: str = ""
    consequences: str = ""
    """What the outcome caused in turn."""
    outcome_delay_s: float | None = None
    """Seconds from the action to the outcome, where the text says so."""
    consequence_delay_s: float | None = None
    """Seconds from the outcome to its consequences."""
    start: int = 0
    """Where in the text it is said, in characters; 0 and 0 where that is not known."""
    end: int = 0
    pattern: str = ""
    """By what it was found."""

    @property
    def quality(self) -> float:
        """Say how much it tells, 0.5 to 1.

        0.5, and 0.1 each for a subject of more than 10 characters, an action and an outcome of
        more than 15, and 0.2 for consequences of more than 20: the formula of the causal memory
        system that this one takes in (requirement WP-45).
        """
        score = 0.5
        score += 0.1 * (len(self.subject) > 10) + 0.1 * (len(self.action) > 15)  # noqa: PLR2004 the formula's
        score += 0.1 * (len(self.outcome) > 15) + 0.2 * (len(self.consequences) > 20)  # noqa: PLR2004 the formula's
        return round(score, 1)

    @property
    def fields(self) -> Iterator[tuple[str, str]]:
        """Give the fields that it has, by name, none longer than a field may be."""
        told = (
            (name, str(getattr(self, name))[:ATOM_FIELD_CHARS_MAX].strip()) for name in CausalField
        )
        return ((name, text) for name, text in told if text)

    @property
    def body(self) -> str:
        """Write it as the mark `@atom` is written."""
        return " | ".join(text for _, text in self.fields)

    @property
    def columns(self) -> dict[str, object]:
        """Give the columns of the memory that it becomes; what is not known is left out."""
        delays = {
            "outcome_delay_s": self.outcome_delay_s,
            "consequence_delay_s": self.consequence_delay_s,
        }
        return {**dict(self.fields), **{name: s for name, s in delays.items() if s is not None}}


def fields_of(detail: Detail | None) -> dict[CausalField, str]:
    """Give what a memory says in each causal field, without the empty; only atoms have any."""
    if not isinstance(detail, AtomDetail):
        return {}
    told = {name: getattr(detail, name) for name in CausalField}
    return {name: text for name, text in told.items() if text}


def is_grounded(atom: Atom, text: str) -> bool:
    """Say whether every field of an atom is made of words of the text it is said to come from."""
    return all(_share_of(field, text) >= _GROUNDED_FROM for _, field in atom.fields)


def is_inverted(atom: Atom, known: Iterable[Atom]) -> bool:
    """Say whether an atom gives as the effect what others give as the cause, and the reverse."""
    own = _sides(atom)
    return any(
        _agrees(own, (effect, cause)) and not _agrees(own, (cause, effect))
        for cause, effect in map(_sides, known)
    )


def _sides(atom: Atom) -> tuple[str, str]:
    return f"{atom.subject} {atom.action}", f"{atom.outcome} {atom.consequences}"


def _agrees(own: tuple[str, str], other: tuple[str, str]) -> bool:
    pairs = zip(own, other, strict=True)
    return all(_share_of(one, there) >= _GROUNDED_FROM for one, there in pairs)


def _share_of(field: str, text: str) -> float:
    """Give the share of a field's words that stand in a text; none of no words."""
    there = text.casefold()
    told = set(_WORD.findall(there))
    every = _WORD.findall(field.casefold())
    own = [word for word in every if len(word) >= _TELLING_CHARS] or every
    # Not all scripts put spaces between words.
    stand = [word in told or (not word.isascii() and word in there) for word in own]
    return sum(stand) / len(own) if own else 0.0
