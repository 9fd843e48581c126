"""What a change leaves behind: its before-image, and the span in which a revision was believed."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from enum import StrEnum
from typing import Final

from commonbrain.model.kinds import Kind
from commonbrain.model.memory import CURRENT_STATES, Memory, State

_UNCHANGING: Final = frozenset({"id", "kind", "headline", "body", "semantic_hash", "recorded_at"})
"""What a memory keeps from its birth to its erasure."""


DEPRECATED: Final = "DEPRECATED"
"""What stands where the severity of a superseded rule would; the row keeps what it was."""


HOUSE_AGENT: Final = "commonbrain"
"""Who is named for what time did, or what another's change left to be followed up."""


class Action(StrEnum):
    """Everything that can be done to a memory."""

    CREATE = "create"
    SUPERSEDE = "supersede"
    RESTORE = "restore"
    KEEP_BOTH = "keep_both"
    FORGET = "forget"
    ERASE = "erase"
    PRUNE = "prune"
    EXPIRE = "expire"
    """Its time was over, and upkeep took it out of the index."""
    UNDO = "undo"
    ANNOTATE = "annotate"
    RATE = "rate"
    PIN = "pin"
    RETAG = "retag"
    LINK = "link"
    UNLINK = "unlink"
    STATUS = "status"
    APPROVE = "approve"
    REJECT = "reject"
    RESOLVE = "resolve"
    RECUR = "recur"
    REVIEW = "review"
    CASCADE = "cascade"
    """What followed from another change, and follows its taking back: nobody's own deed."""
    ACK = "ack"
    CLAIM = "claim"
    RELEASE = "release"


BESIDE: Final = frozenset(
    {
        Action.ANNOTATE,
        Action.RATE,
        Action.LINK,
        Action.UNLINK,
        Action.ACK,
        Action.CLAIM,
        Action.RELEASE,
    }
)
"""What leaves a memory saying what it said: it makes nothing out of date that was read of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BeliefPeriod:
    """From `since`, that moment included, to `until`, that moment left out."""

    since: datetime
    until: datetime

    def holds(self, moment: datetime) -> bool:
        """Say whether a moment lies in it."""
        return self.since <= moment < self.until


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One thing done to one memory; `before` and `after` hold only what it changed.

    Their keys are fields of `Memory`, or `link` and `annotation` for what stands beside it.
    """

    id: int = 0
    """Drawn by the shelf; changes of one memory sort by it."""
    memory_id: int
    action: Action
    agent: str
    session: str | None = None
    reason: str | None = None
    at: datetime
    before: Mapping[str, object] = field(default_factory=dict[str, object])
    after: Mapping[str, object] = field(default_factory=dict[str, object])
    believed: BeliefPeriod | None = None
    """The time in which it was believed, when this change ended it."""


def difference(before: Memory, after: Memory) -> tuple[dict[str, object], dict[str, object]]:
    """Give the fields in which two states of one memory differ, as they were and as they are."""
    changed = [
        name
        for name in (field.name for field in fields(Memory))
        if name not in _UNCHANGING and getattr(before, name) != getattr(after, name)
    ]
    return (
        {name: getattr(before, name) for name in changed},
        {name: getattr(after, name) for name in changed},
    )


def superseded(memory: Memory, *, by: int, at: datetime) -> Memory:
    """Give a memory as it is once another holds in its place."""
    return replace(memory, state=State.SUPERSEDED, superseded_by=by, superseded_at=at)


def restored(memory: Memory, *, at: datetime) -> Memory | None:
    """Give an archived or expired memory as it is once it holds again; None when it does."""
    is_over = memory.is_over(at)
    if memory.state is State.ACTIVE and not is_over:
        return None
    since = at if memory.state not in CURRENT_STATES else memory.believed_since
    expires_at = None if is_over else memory.expires_at
    return replace(memory, state=State.ACTIVE, expires_at=expires_at, believed_since=since)


def own_state(state: State, told: Iterable[Change]) -> State:
    """Give a state that a memory is brought back to, without what a cascade had made of it.

    `told` is what was done to it, oldest first. Whether it is archived again follows from what it
    rests on now.
    """
    if state is not State.ARCHIVED:
        return state
    archived = [one.action for one in told if one.after.get("state") == State.ARCHIVED]
    return State.ACTIVE if archived and archived[-1] is Action.CASCADE else state


def shown_detail(memory: Memory) -> dict[str, object]:
    """Give the columns that only its kind has; a superseded rule reads as deprecated."""
    columns: dict[str, object] = asdict(memory.detail)
    if memory.kind is Kind.RULE and memory.state is State.SUPERSEDED:
        columns["severity"] = DEPRECATED
    return columns


def ended_belief(before: Memory, after: Memory, *, at: datetime) -> BeliefPeriod | None:
    """Give the span in which a memory was believed, if this change ends it."""
    since = before.believed_since or before.recorded_at
    is_ended = before.state in CURRENT_STATES and after.state not in CURRENT_STATES
    return BeliefPeriod(since=since, until=max(since, at)) if is_ended else None
