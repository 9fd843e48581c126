"""The eight kinds of memory: their own columns, and the lifecycle of each in one row.

`KINDS` is the table: to add a kind, add a detail class and a row.
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
    """The status of a task; stale means overdue and untouched."""

    OPEN = "open"
    BLOCKED = "blocked"
    DONE = "done"
    STALE = "stale"


class TaskPriority(StrEnum):
    """The priority of a task."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class MessagePriority(StrEnum):
    """The priority of a message."""

    INFO = "info"
    ACTION = "action"
    URGENT = "urgent"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleDetail:
    """Columns of a rule; `skill` is its trigger as a JSON object, or null."""

    severity: Severity = Severity.PATTERN
    skill: Mapping[str, object] | None = None
    must_ack: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FactDetail:
    """Columns of a fact."""

    subject: str | None = None
    ttl_s: int | None = None
    """Seconds from recording until it expires."""

    def __post_init__(self) -> None:
        """Reject a time to live that is not positive."""
        if self.ttl_s is not None and self.ttl_s <= 0:
            raise InvalidInputError(
                f"ttl_s is {self.ttl_s}; it must be above 0.", hint="Leave it out."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentDetail:
    """Columns of an incident."""

    root_cause: str | None = None
    resolution: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDetail:
    """Columns of a task."""

    status: TaskStatus = TaskStatus.OPEN
    priority: TaskPriority = TaskPriority.MEDIUM
    due_at: datetime | None = None
    must_ack: bool = False
    assignee: str | None = None
    lease_holder: str | None = None
    """The session that leases it."""
    lease_until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventDetail:
    """Columns of an event; `importance` is 0..1, `recurrences` counts identical later events."""

    actor: str | None = None
    importance: float | None = None
    recurrences: int = 0

    def __post_init__(self) -> None:
        """Reject an importance outside 0..1."""
        if self.importance is not None and not 0 <= self.importance <= 1:
            raise InvalidInputError(f"importance is {self.importance}; 0 to 1 is allowed.")


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeDetail:
    """Columns of an episode: the period that it summarizes."""

    started_at: datetime | None = None
    ended_at: datetime | None = None

    def __post_init__(self) -> None:
        """Reject a period that ends before it begins."""
        if self.started_at and self.ended_at and self.ended_at < self.started_at:
            raise InvalidInputError("The episode ends before it begins.", hint="Swap the two.")


@dataclass(frozen=True, slots=True, kw_only=True)
class AtomDetail:
    """Columns of an atom: one causal unit, with its delays in seconds."""

    subject: str | None = None
    action: str | None = None
    outcome: str | None = None
    consequences: str | None = None
    outcome_delay_s: float | None = None
    consequence_delay_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDetail:
    """Columns of a message; without recipients it is a broadcast."""

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
    """What happens to a draft that says the same as a memory of its kind."""

    REFUSE = "refuse"
    WARN = "warn"
    RECUR = "recur"
    KEEP = "keep"


@dataclass(frozen=True, slots=True, kw_only=True)
class KindPolicy:
    """The lifecycle of one kind."""

    kind: Kind
    detail: type[Detail]
    salience: float
    """Initial salience, 0..1."""
    is_atomic: bool = False
    """Whether the body must state one thing: its words are limited, and merging is not allowed."""
    makes_claims: bool = False
    """Whether two of them can contradict each other, and are then linked."""
    on_duplicate: DuplicatePolicy = DuplicatePolicy.KEEP
    half_life: timedelta | None = None
    """Time since the last access in which strength halves; None never decays."""
    archived_after: timedelta | None = None
    """Archived if not read for this time; None never."""
    is_pruned: bool = True
    """Whether prune may remove it."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that only this kind has."""
        return tuple(field.name for field in fields(self.detail))


# Events decay within days, facts within weeks unless recalled; rules, tasks and messages never. The
# half-life follows Ebbinghaus's forgetting curve, 2^(-age/h).
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

# Names that other memory systems use for one of these kinds; the name is kept as the label.
ALIASES: Final[Mapping[str, Kind]] = {
    **dict.fromkeys(("policy", "guardrail", "procedural", "convention"), Kind.RULE),
    **dict.fromkeys(("decision", "insight", "reference", "person", "architecture"), Kind.FACT),
    **dict.fromkeys(("research", "plan", "idea", "note"), Kind.FACT),
    **dict.fromkeys(("observation", "meeting", "journal", "stm", "episodic"), Kind.EVENT),
    "bug": Kind.INCIDENT,
    **dict.fromkeys(("todo", "action_item"), Kind.TASK),
}


def kind_and_label(name: str) -> tuple[Kind, str | None] | None:
    """Parse the name or an alias of a kind; an alias becomes the label; None if unknown."""
    folded = name.strip().lower()
    # Before Python 3.12, `in` raises TypeError for a plain string and an enumeration.
    if folded in tuple(Kind):
        return Kind(folded), None
    kind = ALIASES.get(folded)
    return (kind, folded) if kind else None


ATOM_FIELD_CHARS_MAX: Final = 200
ATOMS_MAX: Final = 3
"""Atoms extracted from one text, best first; a text with more is a report."""
QUALITY_MIN: Final = 0.6
"""A lower score has a cause or effect of hardly more than a word."""
CONFIDENCE_OF_MESSAGE: Final = 0.6
"""Highest confidence of an atom extracted from a message, which is informal."""
CONFIDENCE: Final = 0.7
"""The same for other texts."""
_GROUNDED_FROM: Final = 0.5
"""Share of a field's words that must occur in the text: a model may change a tense."""
_WORD: Final = re.compile(r"\w+")
_TELLING_CHARS: Final = 3
"""Shorter words occur in every text; they count only if a field has no others."""


class CausalField(StrEnum):
    """A field of an atom; each is searchable by itself."""

    SUBJECT = "subject"
    ACTION = "action"
    OUTCOME = "outcome"
    CONSEQUENCES = "consequences"


@dataclass(frozen=True, slots=True, kw_only=True)
class Atom:
    """A cause and effect in a text: subject and action are the cause, the outcome is the effect."""

    subject: str
    action: str = ""
    outcome: str = ""
    consequences: str = ""
    """What the outcome caused in turn."""
    outcome_delay_s: float | None = None
    """Seconds from the action to the outcome, if stated."""
    consequence_delay_s: float | None = None
    """Seconds from the outcome to its consequences, if stated."""
    start: int = 0
    """Position in the text, in characters; 0 and 0 if unknown."""
    end: int = 0
    pattern: str = ""
    """The name of the pattern that found it."""

    @property
    def quality(self) -> float:
        """Return how informative it is, 0.5 to 1.

        0.5, plus 0.1 each for a subject of more than 10 characters and an action and an outcome of
        more than 15, plus 0.2 for consequences of more than 20 (requirement WP-45).
        """
        score = 0.5
        score += 0.1 * (len(self.subject) > 10) + 0.1 * (len(self.action) > 15)  # noqa: PLR2004 the formula's
        score += 0.1 * (len(self.outcome) > 15) + 0.2 * (len(self.consequences) > 20)  # noqa: PLR2004 the formula's
        return round(score, 1)

    @property
    def fields(self) -> Iterator[tuple[str, str]]:
        """Return the non-empty fields by name, within their maximum length."""
        told = (
            (name, str(getattr(self, name))[:ATOM_FIELD_CHARS_MAX].strip()) for name in CausalField
        )
        return ((name, text) for name, text in told if text)

    @property
    def body(self) -> str:
        """Format it as the inline tag `@atom`."""
        return " | ".join(text for _, text in self.fields)

    @property
    def columns(self) -> dict[str, object]:
        """Return the known columns of the memory that it becomes."""
        delays = {
            "outcome_delay_s": self.outcome_delay_s,
            "consequence_delay_s": self.consequence_delay_s,
        }
        return {**dict(self.fields), **{name: s for name, s in delays.items() if s is not None}}


def fields_of(detail: Detail | None) -> dict[CausalField, str]:
    """Return the non-empty causal fields of a memory; only atoms have any."""
    if not isinstance(detail, AtomDetail):
        return {}
    told = {name: getattr(detail, name) for name in CausalField}
    return {name: text for name, text in told.items() if text}


def is_grounded(atom: Atom, text: str) -> bool:
    """Return whether every field of an atom consists of words of its source text."""
    return all(_share_of(field, text) >= _GROUNDED_FROM for _, field in atom.fields)


def is_inverted(atom: Atom, known: Iterable[Atom]) -> bool:
    """Return whether an atom states as effect what others state as cause, and vice versa."""
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
    """Return the share of a field's words that occur in a text; 0 for a field without words."""
    there = text.casefold()
    told = set(_WORD.findall(there))
    every = _WORD.findall(field.casefold())
    own = [word for word in every if len(word) >= _TELLING_CHARS] or every
    # Not all scripts separate words by spaces.
    stand = [word in told or (not word.isascii() and word in there) for word in own]
    return sum(stand) / len(own) if own else 0.0
