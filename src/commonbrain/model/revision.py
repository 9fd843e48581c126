"""Changes: before-images, and the periods in which revisions were believed."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final

from commonbrain.model.kinds import KINDS
from commonbrain.model.memory import CURRENT_STATES, Memory, State
from commonbrain.model.scope import Authority
from commonbrain.model.values import asdict, dataclass, field, fields, replace

_UNCHANGING: Final = frozenset(
    {"id", "kind", "headline", "body", "semantic_hash", "recorded_at", "read"}
)
"""Fields that never change before an erase, and what is derived."""


DEPRECATED: Final = "DEPRECATED"
"""Shown instead of the severity of a superseded rule; the row keeps it."""


SYSTEM_AGENT: Final = "commonbrain"
"""The agent of changes made by time or by the continuation of another change."""


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
    """It expired, and maintenance removed it from the index."""
    UNDO = "undo"
    ANNOTATE = "annotate"
    RATE = "rate"
    PIN = "pin"
    RETAG = "retag"
    SET_EXPIRY = "set_expiry"
    LINK = "link"
    UNLINK = "unlink"
    STATUS = "status"
    APPROVE = "approve"
    REJECT = "reject"
    RESOLVE = "resolve"
    RECUR = "recur"
    REVIEW = "review"
    CASCADE = "cascade"
    """A consequence of another change, undone with that change."""
    ACK = "ack"
    CLAIM = "claim"
    RELEASE = "release"


TEXT_PRESERVING_ACTIONS: Final = frozenset(
    {
        Action.ANNOTATE,
        Action.RATE,
        Action.SET_EXPIRY,
        Action.LINK,
        Action.UNLINK,
        Action.ACK,
        Action.CLAIM,
        Action.RELEASE,
    }
)
"""Actions that leave the text valid for those who read it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BeliefPeriod:
    """From `since`, inclusive, to `until`, exclusive."""

    since: datetime
    until: datetime

    def holds(self, time: datetime) -> bool:
        """Return whether it contains a time."""
        return self.since <= time < self.until


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """One change of one memory; `before` and `after` hold only changed fields.

    Keys are fields of `Memory`, or `link` and `annotation` for related data.
    """

    id: int = 0
    """Assigned on storing; changes of one memory sort by it."""
    memory_id: int
    action: Action
    agent: str
    session: str | None = None
    authority: Authority = Authority.PERSON
    """Who made it; no lower authority undoes it."""
    reason: str | None = None
    at: datetime
    before: Mapping[str, object] = field(default_factory=dict[str, object])
    after: Mapping[str, object] = field(default_factory=dict[str, object])
    believed: BeliefPeriod | None = None
    """The period in which it was believed, if this change ended it."""


def difference(before: Memory, after: Memory) -> tuple[dict[str, object], dict[str, object]]:
    """Return the fields in which two states of a memory differ, before and after."""
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
    """Return a memory as superseded."""
    return replace(memory, state=State.SUPERSEDED, superseded_by=by, superseded_at=at)


def restored(memory: Memory, *, at: datetime) -> Memory | None:
    """Return an archived or expired memory as current; None if it is current."""
    is_over = memory.is_over(at)
    if memory.state is State.ACTIVE and not is_over:
        return None
    since = at if memory.state not in CURRENT_STATES else memory.believed_since
    expires_at = None if is_over else memory.expires_at
    return replace(memory, state=State.ACTIVE, expires_at=expires_at, believed_since=since)


def own_state(state: State, changes: Iterable[Revision]) -> State:
    """Return the state to restore, without the effects of propagation.

    `changes` are those of the memory, oldest first. Whether it is archived again depends on
    its current supports.
    """
    if state is not State.ARCHIVED:
        return state
    archived = [one.action for one in changes if one.after.get("state") == State.ARCHIVED]
    return State.ACTIVE if archived and archived[-1] is Action.CASCADE else state


def shown_detail(memory: Memory) -> dict[str, object]:
    """Return the columns of its kind; a superseded rule is shown as deprecated."""
    columns: dict[str, object] = asdict(memory.detail)
    if KINDS[memory.kind].is_binding and memory.state is State.SUPERSEDED:
        columns["severity"] = DEPRECATED
    return columns


def ended_belief(before: Memory, after: Memory, *, at: datetime) -> BeliefPeriod | None:
    """Return the period in which a memory was believed, if this change ends it."""
    since = before.believed_since or before.recorded_at
    is_ended = before.state in CURRENT_STATES and after.state not in CURRENT_STATES
    # A source may say that it was superseded long before the import.
    until = max(since, after.superseded_at or at)
    return BeliefPeriod(since=since, until=until) if is_ended else None
