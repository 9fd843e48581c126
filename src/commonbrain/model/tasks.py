"""Action items: tasks and rules that must be acknowledged before anything else is written."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, cast

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import Detail, Kind, RuleDetail, TaskDetail, TaskStatus
from commonbrain.model.scope import Caller
from commonbrain.model.timestamps import show_instant

DEFERRED_DAYS_MAX: Final = 30
"""What is put off for longer is not meant to be done; say that it is not relevant."""
HANDOFF: Final = "handoff"
"""The label of an episode that hands over to whoever comes next."""
OWED: Final = frozenset({TaskStatus.OPEN, TaskStatus.BLOCKED})
"""Where a task stands that is still to be done."""


class Decision(StrEnum):
    """What an agent says of an action item."""

    WILL_EXECUTE = "will_execute"
    ALREADY_DONE = "already_done"
    """Of tasks only, with a reason: a rule is never done."""
    NOT_RELEVANT = "not_relevant"
    """With a reason."""
    DEFERRED = "deferred"
    """Until a time."""


_REASONED: Final = frozenset({Decision.ALREADY_DONE, Decision.NOT_RELEVANT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Ack:
    """What somebody decided on an action item; who has no session decides under an empty one."""

    memory_id: int
    agent: str
    session: str = ""
    decision: Decision
    reason: str | None = None
    until: datetime | None = None
    """When a deferred one binds again."""
    at: datetime

    @property
    def whose(self) -> tuple[int, str, str]:
        """What there is one of: the item, and the agent and session that answer it."""
        return self.memory_id, self.agent, self.session

    def says_the_same(self, other: "Ack") -> bool:
        """Say whether another decision is the same but for its moment."""
        return self == replace(other, at=self.at)

    def told(self) -> str:
        """Say the decision in words, as the audit keeps it."""
        until = f" until {show_instant(self.until)}" if self.until else ""
        return f"{self.decision}{until}{f': {self.reason}' if self.reason else ''}"


def must_be_acknowledged(detail: Detail) -> bool:
    """Say whether what has this detail is an action item, done or not."""
    return isinstance(detail, RuleDetail | TaskDetail) and detail.must_ack


def needs_ack(detail: Detail) -> bool:
    """Say whether what has this detail is a task that must be acknowledged and is to be done."""
    return isinstance(detail, TaskDetail) and detail.must_ack and detail.status in OWED


def is_report(kind: Kind, label: str | None) -> bool:
    """Say whether it is what somebody who is blocked may still write, to ask and to hand over."""
    is_handoff = kind is Kind.EPISODE and label == HANDOFF
    return kind in {Kind.MESSAGE, Kind.INCIDENT} or is_handoff


def check_decision(ack: Ack, kind: Kind) -> None:
    """Hold a decision to what it needs.

    Raises:
        InvalidInputError: a rule is done, a reason or a time is missing, or the time is out of
            bounds.

    """
    if ack.decision is Decision.ALREADY_DONE and kind is Kind.RULE:
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


def ack_image(ack: Ack) -> dict[str, object]:
    """Write an acknowledgement as the JSON values that a before-image holds."""
    return {
        "memory_id": ack.memory_id,
        "agent": ack.agent,
        "session": ack.session,
        "decision": str(ack.decision),
        "reason": ack.reason,
        "until": ack.until.isoformat() if ack.until else None,
        "at": ack.at.isoformat(),
    }


def ack_of(image: object) -> Ack:
    """Read an acknowledgement back from a before-image."""
    given = cast("dict[str, Any]", image)
    read: dict[str, Any] = {
        "decision": Decision(given["decision"]),
        "until": datetime.fromisoformat(given["until"]) if given["until"] else None,
        "at": datetime.fromisoformat(given["at"]),
    }
    return Ack(**{**given, **read})


def _check_until(until: datetime, *, now: datetime) -> None:
    if not now < until <= now + timedelta(days=DEFERRED_DAYS_MAX):
        raise InvalidInputError(
            f"{show_instant(until)} is not within the next {DEFERRED_DAYS_MAX} days.",
            hint="Give a later or nearer time; what will never be done is not_relevant.",
        )


LEASE_MINUTES_DEFAULT: Final = 30
LEASE_MINUTES_MAX: Final = 24 * 60
"""Whoever needs longer claims again; whoever is gone does not keep it from others for days."""


def holder_of(caller: Caller) -> str:
    """Give the name a caller claims tasks under: its session's key, else the agent's own."""
    return caller.session or caller.agent


def is_leased(detail: TaskDetail, *, now: datetime) -> bool:
    """Say whether somebody has claimed a task whose time is not up."""
    holder, until = detail.lease_holder, detail.lease_until
    return holder is not None and until is not None and until > now


def lease_end(minutes: int, *, now: datetime) -> datetime:
    """Give the moment at which a lease of so many minutes ends.

    Raises:
        InvalidInputError: it is none, or too long.

    """
    if not 1 <= minutes <= LEASE_MINUTES_MAX:
        raise InvalidInputError(
            f"minutes is {minutes}; 1 to {LEASE_MINUTES_MAX} are allowed.",
            hint="Claim again before the time is up to keep it for longer.",
        )
    return now + timedelta(minutes=minutes)
