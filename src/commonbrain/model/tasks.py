"""Tasks: action items, acknowledgements and leases."""

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final, cast

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import KINDS, Detail, Kind, RuleDetail, TaskDetail, TaskStatus
from commonbrain.model.scope import Caller
from commonbrain.model.timestamps import show_instant
from commonbrain.model.values import dataclass, replace

DEFERRED_DAYS_MAX: Final = 30
"""Deferring for longer means that it is not relevant."""
NEVER_DUE: Final = datetime(9999, 12, 31, tzinfo=UTC)
"""Orders tasks without a due date after all others."""
HANDOFF: Final = "handoff"
"""The label of a handoff."""
OPEN_STATUSES: Final = frozenset({TaskStatus.OPEN, TaskStatus.BLOCKED})
"""Statuses of tasks that are still to be done."""


WITHDRAW: Final = "withdraw"
"""Given as the decision on an action item, it lifts the requirement for everyone."""


class Decision(StrEnum):
    """The decision of an agent on an action item."""

    WILL_EXECUTE = "will_execute"
    ALREADY_DONE = "already_done"
    """Tasks only, with a reason."""
    NOT_RELEVANT = "not_relevant"
    """With a reason."""
    DEFERRED = "deferred"
    """Until a time."""


_REASONED: Final = frozenset({Decision.ALREADY_DONE, Decision.NOT_RELEVANT})


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDecision:
    """A decision on an action item; a caller without a session uses an empty one."""

    memory_id: int
    agent: str
    session: str = ""
    decision: Decision
    reason: str | None = None
    until: datetime | None = None
    """When a deferred item is binding again."""
    at: datetime

    @property
    def whose(self) -> tuple[int, str, str]:
        """The unique key: item, agent and session."""
        return self.memory_id, self.agent, self.session

    def says_the_same(self, other: "TaskDecision") -> bool:
        """Return whether another decision is the same apart from its time."""
        return self == replace(other, at=self.at)

    def describe(self) -> str:
        """The decision in words, for the audit."""
        until = f" until {show_instant(self.until)}" if self.until else ""
        return f"{self.decision}{until}{f': {self.reason}' if self.reason else ''}"


def must_be_acknowledged(detail: Detail) -> bool:
    """Return whether a memory with this detail is an action item, done or not."""
    return isinstance(detail, RuleDetail | TaskDetail) and detail.must_ack


def needs_ack(detail: Detail) -> bool:
    """Return whether a memory with this detail is an open task that must be acknowledged."""
    return isinstance(detail, TaskDetail) and detail.must_ack and detail.status in OPEN_STATUSES


def is_report(kind: Kind, label: str | None) -> bool:
    """Return whether a blocked agent may still write it, to ask and to hand over."""
    is_handoff = kind is Kind.EPISODE and label == HANDOFF
    return KINDS[kind].allowed_when_blocked or is_handoff


def check_decision(ack: TaskDecision, kind: Kind) -> None:
    """Validate a decision.

    Raises:
        InvalidInputError: a rule is done, a reason or a time is missing, or the time is out of
            range.

    """
    if ack.decision is Decision.ALREADY_DONE and KINDS[kind].is_binding:
        raise InvalidInputError(
            "A rule is never done: it binds as long as it holds.",
            hint="Say will_execute, or not_relevant with the reason.",
        )
    if ack.decision in _REASONED and not ack.reason:
        raise InvalidInputError(
            f"{ack.decision} needs a reason.", hint="Say in a sentence why; it is kept."
        )
    is_deferred = ack.decision is Decision.DEFERRED
    if is_deferred is (ack.until is None):
        raise InvalidInputError(
            "deferred needs a time, the other decisions take none.",
            hint=f"Give when it binds again, at most {DEFERRED_DAYS_MAX} days from now.",
        )
    if ack.until is not None:
        _check_until(ack.until, now=ack.at)


def ack_image(ack: TaskDecision) -> dict[str, object]:
    """Convert an acknowledgement to the JSON of a before-image."""
    return {
        "memory_id": ack.memory_id,
        "agent": ack.agent,
        "session": ack.session,
        "decision": str(ack.decision),
        "reason": ack.reason,
        "until": ack.until.isoformat() if ack.until else None,
        "at": ack.at.isoformat(),
    }


def ack_of(image: object) -> TaskDecision:
    """Convert an acknowledgement from a before-image."""
    given = cast("dict[str, Any]", image)
    read: dict[str, Any] = {
        "decision": Decision(given["decision"]),
        "until": datetime.fromisoformat(given["until"]) if given["until"] else None,
        "at": datetime.fromisoformat(given["at"]),
    }
    return TaskDecision(**{**given, **read})


def _check_until(until: datetime, *, now: datetime) -> None:
    if not now < until <= now + timedelta(days=DEFERRED_DAYS_MAX):
        raise InvalidInputError(
            f"{show_instant(until)} is not within the next {DEFERRED_DAYS_MAX} days.",
            hint="Give a later or nearer time; what will never be done is not_relevant.",
        )


LEASE_MINUTES_DEFAULT: Final = 30
LEASE_MINUTES_MAX: Final = 24 * 60
"""Renew for longer; an agent that is gone must not block others for days."""


def holder_of(caller: Caller) -> str:
    """Return the name under which a caller leases tasks: its session key, or the agent."""
    return caller.session or caller.agent


def is_leased(detail: TaskDetail, *, now: datetime) -> bool:
    """Return whether a task has a valid lease."""
    holder, until = detail.lease_holder, detail.lease_until
    return holder is not None and until is not None and until > now


def lease_end(minutes: int, *, now: datetime) -> datetime:
    """Return the end of a lease of so many minutes.

    Raises:
        InvalidInputError: it is not positive, or too long.

    """
    if not 1 <= minutes <= LEASE_MINUTES_MAX:
        raise InvalidInputError(
            f"minutes is {minutes}; 1 to {LEASE_MINUTES_MAX} are allowed.",
            hint="Claim again before the time is up to keep it for longer.",
        )
    return now + timedelta(minutes=minutes)
