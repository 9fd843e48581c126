"""Retention: what a tenant keeps of a kind, a label or a scope only for so long."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, Self

from commonbrain.model.errors import InvalidInputError, parse_choice
from commonbrain.model.kinds import Kind, TaskDetail
from commonbrain.model.limits import RETENTION_DAYS_MAX
from commonbrain.model.memory import CURRENT_STATES, Memory, State
from commonbrain.model.scope import Scope
from commonbrain.model.tasks import OWED

_GRAMMAR: Final = "kind=event label=log scope=team days=30 action=forget"


class RetentionRule(StrEnum):
    """What becomes of a memory that is older than its tenant keeps it."""

    ARCHIVE = "archive"
    FORGET = "forget"


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """One rule of a tenant: what of a kind, and where told of a label and a scope, is too old."""

    kind: Kind
    days: int
    """Since it was recorded: reading a memory does not make it younger."""
    action: RetentionRule = RetentionRule.FORGET
    label: str | None = None
    scope: Scope | None = None

    def __post_init__(self) -> None:
        """Refuse what would let what binds go by its age.

        Raises:
            InvalidInputError: it is about rules, or the days are out of bounds.

        """
        if self.kind is Kind.RULE:
            raise InvalidInputError(
                "Rules are kept at any age.", hint="Supersede or forget them one by one."
            )
        if not 1 <= self.days <= RETENTION_DAYS_MAX:
            raise InvalidInputError(f"days is {self.days}; 1 to {RETENTION_DAYS_MAX} are allowed.")

    @classmethod
    def read(cls, written: str) -> Self:
        """Read a rule from words such as `kind=event days=30`.

        Raises:
            InvalidInputError: a word is none of these, or a value is none.

        """
        told = dict(word.split("=", 1) for word in written.split() if "=" in word)
        is_whole = len(told) == len(written.split()) and {"kind", "days"} <= set(told)
        if not is_whole or not set(told) <= set(cls.__slots__) or not told["days"].isdecimal():
            raise InvalidInputError(
                f"{written[:80]!r} is no rule.", hint=f"Write it as: {_GRAMMAR}"
            )
        return cls(
            kind=parse_choice(Kind, told["kind"]),
            days=int(told["days"]),
            action=parse_choice(RetentionRule, told.get("action", RetentionRule.FORGET)),
            label=told.get("label"),
            scope=parse_choice(Scope, told["scope"]) if "scope" in told else None,
        )

    def __str__(self) -> str:
        """Write it as it is read."""
        told = [("kind", self.kind), ("label", self.label), ("scope", self.scope)]
        told += [("days", str(self.days)), ("action", self.action)]
        return " ".join(f"{name}={value}" for name, value in told if value is not None)

    def recorded_before(self, now: datetime) -> datetime:
        """Give the moment before which a memory of this sort is too old."""
        return now - timedelta(days=self.days)

    def retained(self, memory: Memory, now: datetime) -> Memory | None:
        """Give a memory as it is once this is done to it; None where there is nothing to do.

        What is pinned and what is still owed stays, whatever its age.
        """
        is_meant = (
            memory.kind is self.kind
            and self.label in {None, memory.label}
            and self.scope in {None, memory.scope}
            and memory.recorded_at <= self.recorded_before(now)
        )
        is_owed = isinstance(memory.detail, TaskDetail) and memory.detail.status in OWED
        if not is_meant or memory.pinned or is_owed:
            return None
        match self.action:
            case RetentionRule.FORGET:
                is_there = memory.state in CURRENT_STATES
                return replace(memory, state=State.FORGOTTEN) if is_there else None
            case RetentionRule.ARCHIVE:
                is_awake = memory.state is State.ACTIVE
                return replace(memory, state=State.ARCHIVED) if is_awake else None
