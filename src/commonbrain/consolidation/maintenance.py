"""What time makes of a memory, beyond what is computed whenever it is read.

Strength, dormancy and the archive of what nobody reads are computed (`domain.scoring`): no job
writes them, so that none can wake or lose anything by it. What is written is what has to be
noticed by somebody: a time that is over, a task that nobody took up, a rule of the tenant.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, cast

from commonbrain.consolidation.artifacts import count_ended, discard_again, empty, ended
from commonbrain.invalidation.propagation import follow_up, spread
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
from commonbrain.model.retention import Ageing, Retention
from commonbrain.model.revision import Action
from commonbrain.model.scope import NO_POLICY, Caller, is_visible
from commonbrain.model.scoring import last_touched
from commonbrain.model.tasks import OWED
from commonbrain.model.timestamps import show_instant
from commonbrain.services import House
from commonbrain.storage.change_log import Deed, amend
from commonbrain.storage.interface import DueBy, Transaction
from commonbrain.storage.job_queue import EMBED, UPKEEP, Task, add_job

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
COUNTED: Final = (
    "expired", "stale", "archived", "forgotten", "unseated", "jobs", "events", "evaluations",
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
class Foreseen:
    """What a run of upkeep would do to memories by now: counts, and examples of each sort."""

    counts: Mapping[str, int]
    examples: Mapping[str, tuple[Example, ...]]


@dataclass(frozen=True, slots=True)
class Maintain:
    """Upkeep of one tenant's memories, foreseen for one caller."""

    house: House
    caller: Caller

    def preview(self) -> Foreseen:
        """Say what upkeep would do now; changes nothing.

        Old jobs and events are counted by dropping them only, so that they are not foreseen. Old
        evaluations, and models that lose their artifact, are.

        Raises:
            Unavailable: the store cannot be read.

        """
        counts: Counter[str] = Counter()
        examples: dict[str, tuple[Example, ...]] = {}
        with self.house.store.snapshot(self.caller.tenant) as tx:
            wanted = _wanted(tx, self.house)
            for page in _pages(tx, wanted):
                for turn in _turns(tx, page, wanted=wanted):
                    counts[turn.name] += 1
                    shown = examples.setdefault(turn.name, ())
                    if len(shown) < MAINTAINED_SHOWN_MAX and is_visible(self.caller, turn.before):
                        examples[turn.name] = (*shown, _example(turn))
            counts += Counter(
                evaluations=tx.evaluations.surplus(keep=EVALUATIONS_KEPT),
                artifacts=count_ended(tx, now=wanted.now),
            )
        return Foreseen(counts=counts, examples=examples)


def maintain(task: Task) -> None:
    """Turn what time has turned, drop old rows, and look for what lacks something."""
    if task.job.given.get("dry_run"):
        foreseen = Maintain(task.house, task.caller).preview()
        with task.step() as tx:
            task.finish(tx, dict(foreseen.counts))
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


def _turn_page(task: Task, reached: dict[str, object]) -> None:
    """Turn some memories; what they unseated is marked with them, or right after."""
    house, after = task.house, cast("int", reached.get(_AFTER, 0))
    with house.store.snapshot(task.caller.tenant) as tx:
        wanted = _wanted(tx, house)
        # To find what is due reads much: no writer is to wait for that.
        page = tx.memories.due(wanted, after=after, limit=MAINTAINED_AT_ONCE)
    caller = Caller(tenant=task.caller.tenant, agent=UPKEEP)
    with task.step() as tx:
        is_cut = _turned(tx, page, caller=caller, wanted=wanted, reached=reached)
        if len(page) < MAINTAINED_AT_ONCE:
            reached.pop(_AFTER, None)
            reached["turned"] = True
        else:
            reached[_AFTER] = page[-1]
        task.reach(tx, _TURNING if "turned" in reached else _TURNING / 2, reached=reached)
    if is_cut:
        follow_up(house, caller)


def _turned(
    tx: Transaction,
    page: Sequence[int],
    *,
    caller: Caller,
    wanted: DueBy,
    reached: dict[str, object],
) -> bool:
    """Turn a page of memories; say whether not all that rests on them could be marked."""
    for turn in _turns(tx, page, wanted=wanted):
        deed = Deed(action=turn.action, caller=caller, at=wanted.now, reason=turn.reason)
        amend(tx, turn.before, after=turn.after, deed=deed)
        _count(reached, turn.name, more=1)
    if not page:
        return False
    fallen = spread(tx, Deed(action=Action.CASCADE, caller=caller, at=wanted.now))
    _count(reached, "unseated", more=len(fallen.unseated))
    return fallen.is_cut


def _drop_page(task: Task, reached: dict[str, object]) -> None:
    """Drop what nobody looks at any more: jobs that ended, events, evaluations of long ago."""
    now = task.house.clock.now()
    with task.step() as tx:
        jobs = tx.jobs.drop(
            before=now - timedelta(days=JOBS_KEPT_DAYS),
            dead_before=now - timedelta(days=DEAD_LETTERS_KEPT_DAYS),
            limit=RETAINED_AT_ONCE,
        )
        before = now - timedelta(days=OUTBOX_KEPT_DAYS)
        events = tx.records.drop_events(before=before, limit=RETAINED_AT_ONCE)
        evaluations = tx.evaluations.drop(keep=EVALUATIONS_KEPT, limit=RETAINED_AT_ONCE)
        _count(reached, "jobs", more=jobs)
        _count(reached, "events", more=events)
        _count(reached, "evaluations", more=evaluations)
        if max(jobs, events, evaluations) < RETAINED_AT_ONCE:
            reached["dropped"] = True
        task.reach(tx, _DROPPING, reached=reached)


def _empty_page(task: Task, reached: dict[str, object]) -> None:
    """Take the artifacts from models that ended long ago; retry what could not be dropped."""
    house, before = task.house, cast("int | None", reached.get(_EMPTIED))
    caller = Caller(tenant=task.caller.tenant, agent=UPKEEP)
    with task.step() as tx:
        page = ended(tx, before=before, now=house.clock.now())
        _count(reached, "artifacts", more=empty(tx, house, cards=page.cards, caller=caller))
        reached[_EMPTIED] = page.following
        if page.following is None:
            _count(reached, "discards", more=discard_again(tx, house))
            reached["emptied"] = True
        task.reach(tx, _DROPPING, reached=reached)


def _word_page(task: Task, reached: dict[str, object]) -> None:
    """Write the words that the full text lacks; a program that was killed may have lost some."""
    after = cast("int", reached.get(_WORDED, 0))
    with task.house.store.snapshot(task.caller.tenant) as tx:
        page = tx.index.unworded(after=after, limit=MAINTAINED_AT_ONCE)
    with task.step() as tx:
        found = [one for one in tx.memories.get(page).values() if one.state in FINDABLE_STATES]
        for one in found:
            tx.index.reword(one)
        _count(reached, "reworded", more=len(found))
        if len(page) == MAINTAINED_AT_ONCE:
            reached[_WORDED] = page[-1]
        else:
            reached["worded"] = True
        task.reach(tx, _WORDING, reached=reached)


def _check_page(task: Task, reached: dict[str, object]) -> None:
    """Count what lacks its body, and have embedded what lacks vectors."""
    house, after = task.house, cast("int", reached.get(_CHECKED, 0))
    with house.store.snapshot(task.caller.tenant) as tx:
        page = tx.memories.bodiless(after=after, limit=CHECKED_AT_ONCE)
        pending = tx.index.pending()
    with task.step() as tx:
        _count(reached, "bodiless", more=len(page))
        if len(page) == CHECKED_AT_ONCE:
            reached[_CHECKED] = page[-1]
            task.reach(tx, _WORDING, reached=reached)
            return
        if pending:
            now = house.clock.now()
            caller = Caller(tenant=task.caller.tenant, agent=UPKEEP)
            add_job(tx, house, caller=caller, kind=EMBED, given={}, due_at=now)
        reached["unembedded"] = pending
        task.finish(tx, {name: reached.get(name, 0) for name in COUNTED})


def _wanted(tx: Transaction, house: House) -> DueBy:
    now, tenant = house.clock.now(), tx.credentials.tenant()
    policy = tenant.policy if tenant else NO_POLICY
    rules = tuple(map(Retention.read, policy.retention))
    return DueBy(now=now, tasks_before=now - OVERDUE, rules=rules)


def _pages(tx: Transaction, wanted: DueBy) -> Iterator[Sequence[int]]:
    """Give all that is due, page by page."""
    after = 0
    while page := tx.memories.due(wanted, after=after, limit=MAINTAINED_AT_ONCE):
        yield page
        after = page[-1]


def _turns(tx: Transaction, page: Sequence[int], *, wanted: DueBy) -> Iterator[Turn]:
    """Decide what becomes of a page of memories, as they are now."""
    found = tx.memories.get(page).values()
    tasks = [one.id for one in found if one.kind is Kind.TASK]
    changed = {one.memory_id: one.at for one in tx.changes.of(tasks)}
    for one in found:
        turn = turn_of(one, wanted.rules, now=wanted.now, changed_at=changed.get(one.id))
        if turn is not None:
            yield turn


def _example(turn: Turn) -> Example:
    one = turn.before
    return Example(id=ids.show(ids.MEMORY, one.id), headline=one.headline, reason=turn.reason)


def _count(reached: dict[str, object], name: str, *, more: int) -> None:
    """Add to a count of what was reached."""
    reached[name] = cast("int", reached.get(name, 0)) + more
