"""Retention: per tenant, the age at which memories of a kind, label or scope are removed."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, Self

from commonbrain.model.errors import InvalidInputError, parse_choice
from commonbrain.model.kinds import KINDS, Kind, TaskDetail, parse_kind_filter
from commonbrain.model.limits import RETENTION_DAYS_MAX
from commonbrain.model.memory import CURRENT_STATES, Memory, State
from commonbrain.model.scope import Scope
from commonbrain.model.tasks import OPEN_STATUSES
from commonbrain.model.values import dataclass, replace

_GRAMMAR: Final = "kind=event label=log scope=team days=30 action=forget"


class RetentionRule(StrEnum):
    """What happens to a memory that is too old."""

    ARCHIVE = "archive"
    FORGET = "forget"


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """One rule: kind, and optionally label and scope, and the age."""

    kind: Kind
    days: int
    """Days since it was recorded; reading does not change that."""
    action: RetentionRule = RetentionRule.FORGET
    label: str | None = None
    scope: Scope | None = None

    def __post_init__(self) -> None:
        """Reject a rule that would remove rules.

        Raises:
            InvalidInputError: the kind is rule, or the days are out of range.

        """
        if KINDS[self.kind].is_binding:
            raise InvalidInputError(
                "Rules are kept at any age.", hint="Supersede or forget them one by one."
            )
        if not 1 <= self.days <= RETENTION_DAYS_MAX:
            raise InvalidInputError(f"days is {self.days}; 1 to {RETENTION_DAYS_MAX} are allowed.")

    @classmethod
    def read(cls, written: str) -> Self:
        """Parse words such as `kind=event days=30`.

        Raises:
            InvalidInputError: a word or a value is invalid.

        """
        values = dict(word.split("=", 1) for word in written.split() if "=" in word)
        is_whole = len(values) == len(written.split()) and {"kind", "days"} <= set(values)
        if not is_whole or not set(values) <= set(cls.__slots__) or not values["days"].isdecimal():
            raise InvalidInputError(
                f"{written[:80]!r} is no rule.", hint=f"Write it as: {_GRAMMAR}"
            )
        kind, subtype = parse_kind_filter(values["kind"])
        if subtype and values.get("label", subtype) != subtype:
            raise InvalidInputError(
                f"{subtype} is a label of {kind} already.", hint=f"Write kind={kind} label=..."
            )
        return cls(
            kind=kind,
            days=int(values["days"]),
            action=parse_choice(RetentionRule, values.get("action", RetentionRule.FORGET)),
            label=values.get("label", subtype),
            scope=parse_choice(Scope, values["scope"]) if "scope" in values else None,
        )

    def __str__(self) -> str:
        """Format it so that it can be parsed."""
        words = [("kind", self.kind), ("label", self.label), ("scope", self.scope)]
        words += [("days", str(self.days)), ("action", self.action)]
        return " ".join(f"{name}={value}" for name, value in words if value is not None)

    def recorded_before(self, now: datetime) -> datetime:
        """Return the time before which memories are too old."""
        return now - timedelta(days=self.days)

    def retained(self, memory: Memory, now: datetime) -> Memory | None:
        """Return the memory after this rule; None if it stays as it is.

        Pinned memories and open tasks stay regardless of age.
        """
        is_meant = (
            memory.kind is self.kind
            and self.label in {None, memory.label}
            and self.scope in {None, memory.scope}
            and memory.recorded_at <= self.recorded_before(now)
        )
        is_open_task = (
            isinstance(memory.detail, TaskDetail) and memory.detail.status in OPEN_STATUSES
        )
        if not is_meant or memory.pinned or is_open_task:
            return None
        match self.action:
            case RetentionRule.FORGET:
                is_there = memory.state in CURRENT_STATES
                return replace(memory, state=State.FORGOTTEN) if is_there else None
            case RetentionRule.ARCHIVE:
                is_awake = memory.state is State.ACTIVE
                return replace(memory, state=State.ARCHIVED) if is_awake else None
