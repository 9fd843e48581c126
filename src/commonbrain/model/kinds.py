"""The kinds of memory: their own columns, and all that is special about each in one row.

`KINDS` is the table: to add a kind, add a detail class, a row and a migration. To add a column, add
a field and a migration: requests, help and tables are made from the fields of the detail classes.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from commonbrain.model.errors import InvalidInputError, parse_choice
from commonbrain.model.limits import DAYS_MAX
from commonbrain.model.values import dataclass, field, fields

SUMMARY: Final = "reflection"
"""Label of episodes made by a reflection, and of the facts that it proposes."""
COMPACTED: Final = "compaction"
"""Label of an episode that summarizes what was found for a question."""
CORRECTION: Final = "correction"
"""Label of rules proposed because the same correction was made several times."""


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


def _column(
    default: object,
    purpose: str = "",
    *,
    for_agents: str | None = None,
    is_long: bool = False,
    is_agent: bool = False,
) -> Any:  # noqa: ANN401 a field, which has the type of its default to a type checker
    """Declare a column of a kind.

    Args:
        default: its value if none is given.
        purpose: what it means, for help and schemas; without one, `remember` does not take it.
        for_agents: what the schema of a tool says of it instead, after the names of the kinds;
            None says nothing, for its name is enough.
        is_long: whether its text may be long and have several lines; others are names.
        is_agent: whether it names an agent.

    """
    metadata = {"purpose": purpose, "for_agents": for_agents}
    return field(default=default, metadata=metadata | {"is_long": is_long, "is_agent": is_agent})


_ACK: Final = "others must acknowledge it before they write"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleDetail:
    """Columns of a rule; `skill` is its trigger as a JSON object, or null."""

    severity: Severity = _column(
        Severity.PATTERN, "BLOCKER or PATTERN", for_agents="BLOCKER or PATTERN"
    )
    skill: Mapping[str, object] | None = None
    must_ack: bool = _column(default=False, purpose=_ACK)


@dataclass(frozen=True, slots=True, kw_only=True)
class FactDetail:
    """Columns of a fact."""

    subject: str | None = _column(None, "what it is about", for_agents="")
    ttl_s: int | None = _column(None, "seconds until it expires")
    """Seconds from recording until it expires."""

    def __post_init__(self) -> None:
        """Reject a time to live that is not positive, or longer than a century."""
        if self.ttl_s is not None and not 0 < self.ttl_s <= DAYS_MAX * 86_400:
            raise InvalidInputError(
                f"ttl_s is {self.ttl_s}; it must be above 0 and at most a century.",
                hint="Leave it out.",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentDetail:
    """Columns of an incident."""

    root_cause: str | None = _column(None, "why it happened", for_agents="", is_long=True)
    resolution: str | None = _column(None, "how it was fixed", is_long=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDetail:
    """Columns of a task."""

    status: TaskStatus = TaskStatus.OPEN
    priority: TaskPriority = _column(
        TaskPriority.MEDIUM, "low, medium, high", for_agents="low, medium, high"
    )
    due_at: datetime | None = _column(None, "ISO 8601")
    must_ack: bool = _column(default=False, purpose=_ACK)
    assignee: str | None = _column(None, "agent that does it", is_agent=True)
    lease_holder: str | None = _column(None, is_agent=True)
    """The session that leases it."""
    lease_until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventDetail:
    """Columns of an event; `importance` is 0..1, `recurrences` counts identical later events."""

    actor: str | None = _column(None, "who acted", for_agents="", is_agent=True)
    importance: float | None = _column(None, "0 to 1")
    recurrences: int = 0

    def __post_init__(self) -> None:
        """Reject an importance outside 0..1."""
        if self.importance is not None and not 0 <= self.importance <= 1:
            raise InvalidInputError(f"importance is {self.importance}; 0 to 1 is allowed.")


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeDetail:
    """Columns of an episode: the period that it summarizes."""

    started_at: datetime | None = _column(None, "ISO 8601", for_agents="")
    ended_at: datetime | None = _column(None, "ISO 8601")

    def __post_init__(self) -> None:
        """Reject a period that ends before it begins."""
        if self.started_at and self.ended_at and self.ended_at < self.started_at:
            raise InvalidInputError("The episode ends before it begins.", hint="Swap the two.")


@dataclass(frozen=True, slots=True, kw_only=True)
class AtomDetail:
    """Columns of an atom: one causal unit, with its delays in seconds."""

    subject: str | None = _column(None, "what it is about", for_agents="")
    action: str | None = _column(
        None,
        "what was done to the subject; its fields can replace the text",
        for_agents="",
        is_long=True,
    )
    outcome: str | None = _column(None, "what the action caused", is_long=True)
    consequences: str | None = _column(None, "what the outcome caused", is_long=True)
    outcome_delay_s: float | None = _column(None, "seconds from action to outcome")
    consequence_delay_s: float | None = _column(None, "seconds from outcome to consequences")


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDetail:
    """Columns of a message; without recipients it is a broadcast."""

    thread_id: int | None = None
    sender: str | None = _column(None, is_agent=True)
    recipients: tuple[str, ...] = ()
    subject: str | None = None
    priority: MessagePriority = MessagePriority.INFO
    parent_id: int | None = None


ASSISTANT_ROLES: Final = frozenset({"assistant", "system", "tool", "model"})
"""Senders that are not people, case-folded."""

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
    ACCEPT = "keep"


class DuplicateScope(StrEnum):
    """What two drafts with the same text must share to be one memory."""

    TEXT = "text"
    SOURCE = "source"
    """The source as well; without one, the text is enough."""
    NAMED_SOURCE = "named_source"
    """A named source as well; without one, every draft is a new memory."""


class CauseExtraction(StrEnum):
    """When a write extracts atoms from the text."""

    NEVER = "never"
    ON_REQUEST = "on_request"
    BY_DEFAULT = "by_default"


@dataclass(frozen=True, slots=True, kw_only=True)
class KindPolicy:
    """All that is special about one kind."""

    kind: Kind
    detail: type[Detail]
    searchable: tuple[str, ...]
    """Its columns whose words recall searches."""

    # Writing.
    synonyms: tuple[str, ...] = ()
    """Names that other memory systems use for the kind; a filter by one matches all of it."""
    subtypes: tuple[str, ...] = ()
    """Names for a part of the kind; a filter by one matches what has it as label."""
    is_atomic: bool = False
    """Whether the body must state one thing: its words are limited, and merging is not allowed."""
    is_binding: bool = False
    """Whether it binds until it is revoked.

    An untrusted one is quarantined, retention and invalidation leave it alone, it cannot be
    acknowledged as done, and a superseded one is shown as deprecated.
    """
    allowed_when_blocked: bool = False
    """Whether an agent that must acknowledge something first may still write it."""
    extracts_tasks: bool = True
    """Whether a write may extract tasks from it."""
    extracts_causes: CauseExtraction = CauseExtraction.ON_REQUEST
    inherits_detail: bool = True
    """Whether a revision inherits the columns; otherwise they are parsed from the new text."""
    is_movable: bool = True
    """Whether it may be moved to one project to end a conflict."""

    # Confidence and salience.
    salience: float
    """Initial salience, 0..1."""
    is_salience_learned: bool = True
    """Whether a trained model predicts the initial salience."""
    unsourced_confidence_max: float = 1.0
    """Highest confidence without a source."""
    atom_confidence_max: float = 0.7
    """Highest confidence of an atom extracted from it."""

    # Duplicates, conflicts and dependencies.
    on_duplicate: DuplicatePolicy = DuplicatePolicy.ACCEPT
    identity: DuplicateScope = DuplicateScope.TEXT
    checks_similarity: bool = True
    """Whether a draft is compared with similar memories, not only with identical ones."""
    is_distinct_by_time: bool = False
    """Whether the same text at another time is another memory."""
    merges_near_duplicates: bool = False
    """Whether consolidation proposes to merge memories that say almost the same."""
    makes_claims: bool = False
    """Whether two of them can contradict each other, and are then linked."""
    can_change: bool = False
    """Whether it states what holds until a newer memory says otherwise."""
    learns_from_corrections: bool = False
    """Whether repeated corrections of it lead to a proposed rule."""
    can_depend: bool = False
    """Whether the reasons in its text become dependencies."""
    suggests_dependency: bool = False
    """Whether a write suggests a rule or decision that it may depend on."""
    can_justify: bool = False
    """Whether another memory's reasons may refer to it."""

    # Boot, recall and causes.
    boot_sections: tuple[str, ...] = ()
    """The sections of a briefing that show it; none leaves it to recall."""
    has_reserved_item: bool = False
    """Whether recall includes the best one if it scores almost as high as the last item."""
    answers_prompts: bool = True
    """Whether hooks add it to a prompt; what they captured to be reflected on they do not."""
    answers_edits: bool = False
    """Whether hooks show it when code that it names is edited."""
    is_occurrence: bool = False
    """Whether it happens at a time, which atoms extracted from it inherit."""
    is_outcome: bool = False
    """Whether causal patterns look for what precedes it."""
    reports_events: bool = False
    """Whether it can be a step of a causal chain."""
    is_trace_target: bool = False
    """Whether a causal trace may start from it."""
    not_atomized_because: str | None = None
    """Why it cannot be atomized later; None if it can."""

    # Lifecycle.
    is_reflected: bool = False
    """Whether reflection summarizes several into an episode."""
    half_life: timedelta | None = None
    """Time since the last access in which strength halves; None never decays."""
    archived_after: timedelta | None = None
    """Archived if not read for this time; None never."""
    is_pruned: bool = True
    """Whether prune may remove it."""
    is_pruned_by_access: bool = False
    """Whether prune removes only those that were hardly accessed."""

    @property
    def aliases(self) -> tuple[str, ...]:
        """All its other names; on writing, the name becomes the label."""
        return (*self.synonyms, *self.subtypes)

    @property
    def can_change_others(self) -> bool:
        """Whether a newer one may end what another states: also what happened may.

        "Moved the site to Oslo on Monday" ends "The site is hosted in Turin".
        """
        return self.can_change or self.is_occurrence

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that only this kind has."""
        return tuple(column.name for column in fields(self.detail))


# Events decay within days, facts within weeks unless recalled; rules, tasks and messages never. The
# half-life follows Ebbinghaus's forgetting curve, 2^(-age/h).
KINDS: Final[Mapping[Kind, KindPolicy]] = {
    policy.kind: policy
    for policy in (
        KindPolicy(
            kind=Kind.RULE,
            can_change=True,
            detail=RuleDetail,
            searchable=(),
            synonyms=("policy", "guardrail", "procedural"),
            subtypes=("convention",),
            is_atomic=True,
            is_binding=True,
            is_movable=False,
            salience=0.6,
            on_duplicate=DuplicatePolicy.REFUSE,
            merges_near_duplicates=True,
            learns_from_corrections=True,
            can_depend=True,
            can_justify=True,
            answers_edits=True,
            boot_sections=("blockers", "skills", "patterns", "action_items", "changes"),
            has_reserved_item=True,
            is_pruned=False,
        ),
        KindPolicy(
            kind=Kind.FACT,
            can_change=True,
            detail=FactDetail,
            searchable=("subject",),
            subtypes=(
                *("decision", "insight", "reference", "person", "architecture"),
                *("research", "plan", "idea", "note"),
            ),
            is_atomic=True,
            salience=0.5,
            unsourced_confidence_max=0.6,
            on_duplicate=DuplicatePolicy.REFUSE,
            merges_near_duplicates=True,
            makes_claims=True,
            learns_from_corrections=True,
            can_depend=True,
            suggests_dependency=True,
            can_justify=True,
            answers_edits=True,
            boot_sections=("changes",),
            has_reserved_item=True,
            is_trace_target=True,
            half_life=timedelta(days=7),
            is_pruned_by_access=True,
        ),
        KindPolicy(
            kind=Kind.INCIDENT,
            detail=IncidentDetail,
            searchable=(),
            subtypes=("bug",),
            allowed_when_blocked=True,
            salience=0.6,
            identity=DuplicateScope.NAMED_SOURCE,
            learns_from_corrections=True,
            answers_edits=True,
            is_occurrence=True,
            is_outcome=True,
            reports_events=True,
            is_trace_target=True,
            archived_after=timedelta(days=90),
        ),
        KindPolicy(
            kind=Kind.TASK,
            can_change=True,
            detail=TaskDetail,
            searchable=(),
            synonyms=("todo", "action_item"),
            is_atomic=True,
            extracts_tasks=False,
            salience=0.6,
            on_duplicate=DuplicatePolicy.WARN,
            can_depend=True,
            suggests_dependency=True,
            boot_sections=("tasks", "action_items", "changes"),
            not_atomized_because="A task is not done yet, so it states no cause.",
        ),
        KindPolicy(
            kind=Kind.EVENT,
            detail=EventDetail,
            searchable=(),
            synonyms=("observation", "stm", "episodic"),
            subtypes=("meeting", "journal"),
            salience=0.45,
            on_duplicate=DuplicatePolicy.RECUR,
            identity=DuplicateScope.SOURCE,
            is_distinct_by_time=True,
            is_occurrence=True,
            is_outcome=True,
            reports_events=True,
            is_trace_target=True,
            is_reflected=True,
            half_life=timedelta(hours=48),
        ),
        KindPolicy(
            kind=Kind.EPISODE,
            detail=EpisodeDetail,
            searchable=(),
            salience=0.6,
            identity=DuplicateScope.SOURCE,
            can_depend=True,
            boot_sections=("handoff",),
            reports_events=True,
            is_trace_target=True,
            archived_after=timedelta(days=90),
        ),
        KindPolicy(
            kind=Kind.ATOM,
            detail=AtomDetail,
            searchable=("subject", "action", "outcome", "consequences"),
            extracts_causes=CauseExtraction.NEVER,
            inherits_detail=False,
            salience=0.6,
            checks_similarity=False,
            is_distinct_by_time=True,
            is_outcome=True,
            reports_events=True,
            is_trace_target=True,
            not_atomized_because="An atom already states a cause.",
            half_life=timedelta(days=30),
        ),
        KindPolicy(
            kind=Kind.MESSAGE,
            detail=MessageDetail,
            searchable=("subject",),
            allowed_when_blocked=True,
            extracts_causes=CauseExtraction.BY_DEFAULT,
            is_movable=False,
            salience=0.45,
            # Messages neither decay nor start archived, so they have no salience to predict.
            is_salience_learned=False,
            # Messages are informal.
            atom_confidence_max=0.6,
            identity=DuplicateScope.NAMED_SOURCE,
            checks_similarity=False,
            boot_sections=("urgent",),
            # Messages have an inbox; years of imported chats would leave no room for what is known.
            answers_prompts=False,
            reports_events=True,
            is_trace_target=True,
            is_reflected=True,
            is_pruned=False,
        ),
    )
}
ALIASES: Final[Mapping[str, Kind]] = {
    alias: policy.kind for policy in KINDS.values() for alias in policy.aliases
}


def severity_of(detail: Detail) -> Severity | None:
    """Return the severity of a rule; None for other kinds."""
    return detail.severity if isinstance(detail, RuleDetail) else None


def is_blocker(detail: Detail) -> bool:
    """Return whether it is that of a rule that must never be broken."""
    return severity_of(detail) is Severity.BLOCKER


def kinds_where(has: Callable[[KindPolicy], bool]) -> tuple[Kind, ...]:
    """Return the kinds whose row satisfies a condition, in the order of `Kind`."""
    return tuple(kind for kind in Kind if has(KINDS[kind]))


def kinds_at_boot(section: str) -> tuple[Kind, ...]:
    """Return the kinds that a section of a briefing shows."""
    return kinds_where(lambda policy: section in policy.boot_sections)


def kind_and_label(name: str) -> tuple[Kind, str | None] | None:
    """Parse the name or an alias of a kind; an alias becomes the label; None if unknown."""
    folded = name.strip().lower()
    # Before Python 3.12, `in` raises TypeError for a plain string and an enumeration.
    if folded in tuple(Kind):
        return Kind(folded), None
    kind = ALIASES.get(folded)
    return (kind, folded) if kind else None


def parse_kind_filter(name: str) -> tuple[Kind, str | None]:
    """Parse a name or an alias as a filter: the kind, and the label of a subtype.

    Raises:
        InvalidInputError: it is neither.

    """
    kind, label = kind_and_label(name) or (parse_choice(Kind, name), None)
    return kind, label if label in KINDS[kind].subtypes else None


class CausalField(StrEnum):
    """A field of an atom; each is searchable by itself."""

    SUBJECT = "subject"
    ACTION = "action"
    OUTCOME = "outcome"
    CONSEQUENCES = "consequences"


def fields_of(detail: Detail | None) -> dict[CausalField, str]:
    """Return the non-empty causal fields of a memory; only atoms have any."""
    if not isinstance(detail, AtomDetail):
        return {}
    values = {name: getattr(detail, name) for name in CausalField}
    return {name: text for name, text in values.items() if text}
