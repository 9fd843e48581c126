"""What time makes of a memory, beyond what is computed whenever it is read.

Strength, dormancy and the archive of what nobody reads are computed (`domain.scoring`): no job
writes them, so that none can wake or lose anything by it. What is written is what has to be
noticed by somebody: a time that is over, a task that nobody took up, a rule of the tenant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, cast

from commonbrain.consolidation.artifacts import (
    count_unused_artifacts,
    find_unused_artifacts,
    purge_artifacts,
    retry_discards,
)
from commonbrain.invalidation.propagation import continue_propagation, propagate
from commonbrain.model import ids
from commonbrain.model.kinds import Kind, TaskDetail, TaskStatus
from commonbrain.model.limits import (
    CHECKED_AT_ONCE,
    DEAD_LETTERS_KEPT_DAYS,
    EVALUATIONS_KEPT,
    JOBS_KEPT_DAYS,
    MAINTAINED_AT_ONCE,
    MAINTAINED_SHOWN_MAX,
    OUTBOX_KEPT_DAYS,
    RETAINED_AT_ONCE,
)
from commonbrain.model.memory import CURRENT_STATES, FINDABLE_STATES, Memory, State
from commonbrain.model.retention import Retention, RetentionRule
from commonbrain.model.revision import Action
from commonbrain.model.scope import NO_POLICY, Caller, is_visible
from commonbrain.model.scoring import last_touched
from commonbrain.model.tasks import OWED
from commonbrain.model.timestamps import show_instant
from commonbrain.services import Services
from commonbrain.storage.change_log import ChangeContext, record_update
from commonbrain.storage.interface import DueBy
from commonbrain.storage.job_queue import EMBED, UPKEEP, JobContext, enqueue

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

OVERDUE: Final = timedelta(days=14)
"""A task is stale when it was due, and nobody has touched it, for so long: a usual sprint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChange:
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


def state_change_of(
    memory: Memory, rules: Sequence[Retention], *, now: datetime, changed_at: datetime | None = None
) -> StateChange | None:
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


def _expired(memory: Memory, now: datetime) -> StateChange | None:
    if memory.expires_at is None or not memory.is_over(now):
        return None
    after = replace(memory, state=State.EXPIRED)
    reason = f"its time was over on {show_instant(memory.expires_at)}"
    return StateChange(action=Action.EXPIRE, before=memory, after=after, reason=reason)


def _retained(memory: Memory, rules: Sequence[Retention], *, now: datetime) -> StateChange | None:
    # What is to be forgotten need not be archived first.
    for rule in sorted(rules, key=lambda one: one.action is not RetentionRule.FORGET):
        after = rule.retained(memory, now)
        if after is not None:
            return StateChange(
                action=Action.PRUNE, before=memory, after=after, reason=f"policy: {rule}"
            )
    return None


def _stale(memory: Memory, changed_at: datetime, *, now: datetime) -> StateChange | None:
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
    return StateChange(
        action=Action.STATUS,
        before=memory,
        after=replace(memory, detail=stale),
        reason=f"due on {show_instant(detail.due_at)}, untouched for {OVERDUE.days} days",
    )


_AFTER: Final = "after"
"""Of what was reached: the last memory that was looked at; it goes once all were."""
_CHECKED: Final = "checked"
"""The same of the look for what lacks its body."""
_EMPTIED: Final = "emptied_before"
"""The same of models: before which card the next page begins."""
_WORDED: Final = "worded_after"
"""The same of the look for what the full text lacks."""
_TURNING: Final = 0.5
_DROPPING: Final = 0.8
_WORDING: Final = 0.9
"""How far it has come when memories are done, old rows dropped, words looked for: a guess."""
RESULT_COUNTS: Final = (
    "expired", "stale", "archived", "forgotten", "affected", "jobs", "events", "evaluations",
    "artifacts", "discards", "reworded", "bodiless", "unembedded",
)  # fmt: skip
"""What a run counts, in the order of its steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One memory that upkeep would turn, and why."""

    id: str
    headline: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenancePreview:
    """What a run of upkeep would do to memories by now: counts, and examples of each sort."""

    counts: Mapping[str, int]
    examples: Mapping[str, tuple[Example, ...]]


@dataclass(frozen=True, slots=True)
class Maintain:
    """Upkeep of one tenant's memories, foreseen for one caller."""

    services: Services
    caller: Caller

    def preview(self) -> MaintenancePreview:
        """Say what upkeep would do now; changes nothing.

        Old jobs and events are counted by dropping them only, so that they are not foreseen. Old
        evaluations, and models that lose their artifact, are.

        Raises:
            UnavailableError: the store cannot be read.

        """
        counts: Counter[str] = Counter()
        examples: dict[str, tuple[Example, ...]] = {}
        with self.services.store.snapshot(self.caller.tenant) as tx:
            due_by = _build_due_by(tx, self.services)
            for page in _pages(tx, due_by):
                for turn in _turns(tx, page, due_by=due_by):
                    counts[turn.name] += 1
                    shown = examples.setdefault(turn.name, ())
                    if len(shown) < MAINTAINED_SHOWN_MAX and is_visible(self.caller, turn.before):
                        examples[turn.name] = (*shown, _example(turn))
            counts += Counter(
                evaluations=tx.evaluations.surplus(newest=EVALUATIONS_KEPT),
                artifacts=count_unused_artifacts(tx, now=due_by.now),
            )
        return MaintenancePreview(counts=counts, examples=examples)


def maintain(task: JobContext) -> None:
    """Turn what time has turned, drop old rows, and look for what lacks something."""
    if task.job.given.get("dry_run"):
        preview = Maintain(task.services, task.caller).preview()
        with task.step() as tx:
            task.finish(tx, dict(preview.counts))
        return
    while task.is_live:
        reached = dict(task.job.reached)
        if "turned" not in reached:
            _turn_page(task, reached)
        elif "dropped" not in reached:
            _drop_page(task, reached)
        elif "emptied" not in reached:
            _empty_page(task, reached)
        elif "worded" not in reached:
            _word_page(task, reached)
        else:
            _check_page(task, reached)


def _turn_page(task: JobContext, reached: dict[str, object]) -> None:
    """Turn some memories; what they unseated is marked with them, or right after."""
    services, after = task.services, cast("int", reached.get(_AFTER, 0))
    with services.store.snapshot(task.caller.tenant) as tx:
        due_by = _build_due_by(tx, services)
        # To find what is due reads much: no writer is to wait for that.
        page = tx.memories.due(due_by, after=after, limit=MAINTAINED_AT_ONCE)
    caller = Caller(tenant=task.caller.tenant, agent=UPKEEP)
    with task.step() as tx:
        is_cut = _apply_turns(tx, page, caller=caller, due_by=due_by, reached=reached)
        if len(page) < MAINTAINED_AT_ONCE:
            reached.pop(_AFTER, None)
            reached["turned"] = True
        else:
            reached[_AFTER] = page[-1]
        task.save_progress(tx, _TURNING if "turned" in reached else _TURNING / 2, reached=reached)
    if is_cut:
        continue_propagation(services, caller)


def _apply_turns(
    tx: Transaction,
    page: Sequence[int],
    *,
    caller: Caller,
    due_by: DueBy,
    reached: dict[str, object],
) -> bool:
    """Turn a page of memories; say whether not all that rests on them could be marked."""
    for turn in _turns(tx, page, due_by=due_by):
        change_context = ChangeContext(
            action=turn.action, caller=caller, at=due_by.now, reason=turn.reason
        )
        record_update(tx, turn.before, after=turn.after, change_context=change_context)
        _count(reached, turn.name, more=1)
    if not page:
        return False
    propagated = propagate(tx, ChangeContext(action=Action.CASCADE, caller=caller, at=due_by.now))
    _count(reached, "affected", more=len(propagated.affected))
    return propagated.is_cut


def _drop_page(task: JobContext, reached: dict[str, object]) -> None:
    """Drop what nobody looks at any more: jobs that ended, events, evaluations of long ago."""
    now = task.services.clock.now()
    with task.step() as tx:
        jobs = tx.jobs.drop(
            before=now - timedelta(days=JOBS_KEPT_DAYS),
            dead_before=now - timedelta(days=DEAD_LETTERS_KEPT_DAYS),
            limit=RETAINED_AT_ONCE,
        )
        before = now - timedelta(days=OUTBOX_KEPT_DAYS)
        events = tx.records.drop_events(before=before, limit=RETAINED_AT_ONCE)
        evaluations = tx.evaluations.drop(newest=EVALUATIONS_KEPT, limit=RETAINED_AT_ONCE)
        _count(reached, "jobs", more=jobs)
        _count(reached, "events", more=events)
        _count(reached, "evaluations", more=evaluations)
        if max(jobs, events, evaluations) < RETAINED_AT_ONCE:
            reached["dropped"] = True
        task.save_progress(tx, _DROPPING, reached=reached)


def _empty_page(task: JobContext, reached: dict[str, object]) -> None:
    """Take the artifacts from models that ended long ago; retry what could not be dropped."""
    services, before = task.services, cast("int | None", reached.get(_EMPTIED))
    caller = Caller(tenant=task.caller.tenant, agent=UPKEEP)
    with task.step() as tx:
        page = find_unused_artifacts(tx, before=before, now=services.clock.now())
        _count(
            reached,
            "artifacts",
            more=purge_artifacts(tx, services, cards=page.cards, caller=caller),
        )
        reached[_EMPTIED] = page.next_id
        if page.next_id is None:
            _count(reached, "discards", more=retry_discards(tx, services))
            reached["emptied"] = True
        task.save_progress(tx, _DROPPING, reached=reached)


def _word_page(task: JobContext, reached: dict[str, object]) -> None:
    """Write the words that the full text lacks; a program that was killed may have lost some."""
    after = cast("int", reached.get(_WORDED, 0))
    with task.services.store.snapshot(task.caller.tenant) as tx:
        page = tx.index.unworded(after=after, limit=MAINTAINED_AT_ONCE)
    with task.step() as tx:
        memories = [one for one in tx.memories.get(page).values() if one.state in FINDABLE_STATES]
        for one in memories:
            tx.index.reword(one)
        _count(reached, "reworded", more=len(memories))
        if len(page) == MAINTAINED_AT_ONCE:
            reached[_WORDED] = page[-1]
        else:
            reached["worded"] = True
        task.save_progress(tx, _WORDING, reached=reached)


def _check_page(task: JobContext, reached: dict[str, object]) -> None:
    """Count what lacks its body, and have embedded what lacks vectors."""
    services, after = task.services, cast("int", reached.get(_CHECKED, 0))
    with services.store.snapshot(task.caller.tenant) as tx:
        page = tx.memories.bodiless(after=after, limit=CHECKED_AT_ONCE)
        pending = tx.index.pending()
    with task.step() as tx:
        _count(reached, "bodiless", more=len(page))
        if len(page) == CHECKED_AT_ONCE:
            reached[_CHECKED] = page[-1]
            task.save_progress(tx, _WORDING, reached=reached)
            return
        if pending:
            now = services.clock.now()
            caller = Caller(tenant=task.caller.tenant, agent=UPKEEP)
            enqueue(tx, services, caller=caller, kind=EMBED, given={}, due_at=now)
        reached["unembedded"] = pending
        task.finish(tx, {name: reached.get(name, 0) for name in RESULT_COUNTS})


def _build_due_by(tx: Transaction, services: Services) -> DueBy:
    now, tenant = services.clock.now(), tx.credentials.tenant()
    policy = tenant.policy if tenant else NO_POLICY
    rules = tuple(map(Retention.read, policy.retention))
    return DueBy(now=now, tasks_before=now - OVERDUE, rules=rules)


def _pages(tx: Transaction, due_by: DueBy) -> Iterator[Sequence[int]]:
    """Give all that is due, page by page."""
    after = 0
    while page := tx.memories.due(due_by, after=after, limit=MAINTAINED_AT_ONCE):
        yield page
        after = page[-1]


def _turns(tx: Transaction, page: Sequence[int], *, due_by: DueBy) -> Iterator[StateChange]:
    """Decide what becomes of a page of memories, as they are now."""
    memories = tx.memories.get(page).values()
    tasks = [one.id for one in memories if one.kind is Kind.TASK]
    changed = {one.memory_id: one.at for one in tx.changes.of(tasks)}
    for one in memories:
        turn = state_change_of(one, due_by.rules, now=due_by.now, changed_at=changed.get(one.id))
        if turn is not None:
            yield turn


def _example(turn: StateChange) -> Example:
    one = turn.before
    return Example(id=ids.show(ids.MEMORY, one.id), headline=one.headline, reason=turn.reason)


def _count(reached: dict[str, object], name: str, *, more: int) -> None:
    """Add to a count of what was reached."""
    reached[name] = cast("int", reached.get(name, 0)) + more
