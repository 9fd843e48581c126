"""What time makes of a memory, beyond what is computed whenever it is read.

Strength, dormancy and the archive of what nobody reads are computed (`domain.scoring`): no job
writes them, so that none can wake or lose anything by it. What is written is what has to be
noticed by somebody: a time that is over, a task that nobody took up, a rule of the tenant.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from commonbrain.domain.action_items import OWED
from commonbrain.domain.kinds import TaskDetail, TaskStatus
from commonbrain.domain.memory import CURRENT_STATES, Memory, State
from commonbrain.domain.retention import Ageing, Retention
from commonbrain.domain.revision import Action
from commonbrain.domain.scoring import last_touched
from commonbrain.domain.times import show_instant

OVERDUE: Final = timedelta(days=14)
"""A task is stale when it was due, and nobody has touched it, for so long: a usual sprint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What becomes of one memory; `after` is how it is then."""

    action: Action
    before: Memory
    after: Memory
    reason: str

    @property
    def name(self) -> str:
        """The count that it is part of."""
        match self.action:
            case Action.EXPIRE:
                return "expired"
            case Action.STATUS:
                return "stale"
            case _:
                return str(self.after.state)


def turn_of(
    memory: Memory, rules: Sequence[Retention], *, now: datetime, changed_at: datetime | None = None
) -> Turn | None:
    """Say what becomes of a memory by now; None when it stays as it is.

    Only what holds is turned, and only towards rest: nothing that was superseded, forgotten or
    awaits review is touched, nothing comes back. `changed_at` is when it was last changed.
    """
    if memory.state not in CURRENT_STATES:
        return None
    return (
        _expired(memory, now)
        or _retained(memory, rules, now=now)
        or _stale(memory, changed_at or memory.recorded_at, now=now)
    )


def _expired(memory: Memory, now: datetime) -> Turn | None:
    if memory.expires_at is None or not memory.is_over(now):
        return None
    after = replace(memory, state=State.EXPIRED)
    reason = f"its time was over on {show_instant(memory.expires_at)}"
    return Turn(action=Action.EXPIRE, before=memory, after=after, reason=reason)


def _retained(memory: Memory, rules: Sequence[Retention], *, now: datetime) -> Turn | None:
    # What is to be forgotten need not be archived first.
    for rule in sorted(rules, key=lambda one: one.action is not Ageing.FORGET):
        after = rule.retained(memory, now)
        if after is not None:
            return Turn(action=Action.PRUNE, before=memory, after=after, reason=f"policy: {rule}")
    return None


def _stale(memory: Memory, changed_at: datetime, *, now: datetime) -> Turn | None:
    """Find a task that was due long ago and that nobody has looked at, changed or taken since."""
    detail = memory.detail
    if not isinstance(detail, TaskDetail) or detail.due_at is None or detail.status not in OWED:
        return None
    is_held = detail.lease_until is not None and detail.lease_until > now
    touched = max(detail.due_at, last_touched(memory), changed_at)
    # What must be acknowledged is asked for at every boot until somebody answers.
    if is_held or detail.must_ack or memory.pinned or touched + OVERDUE > now:
        return None
    stale = replace(detail, status=TaskStatus.STALE, lease_holder=None, lease_until=None)
    return Turn(
        action=Action.STATUS,
        before=memory,
        after=replace(memory, detail=stale),
        reason=f"due on {show_instant(detail.due_at)}, untouched for {OVERDUE.days} days",
    )
