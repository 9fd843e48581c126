"""Maintenance: write the changes that time causes.

Strength, dormancy and the archiving of unread memories are computed when reading and never written.
Maintenance writes what others must notice: expiries, stale tasks, retention policies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, cast

from commonbrain.consolidation.artifact_cleanup import (
    count_unused_artifacts,
    find_unused_artifacts,
    purge_artifacts,
    retry_discards,
)
from commonbrain.ingestion.suspects import duplicate_suspects
from commonbrain.invalidation.propagation import continue_propagation, propagate
from commonbrain.model import ids, limits
from commonbrain.model.kinds import Kind, TaskDetail, TaskStatus
from commonbrain.model.memory import CURRENT_STATES, FINDABLE_STATES, Memory, State, last_touched
from commonbrain.model.query import Filter
from commonbrain.model.revision import Action
from commonbrain.model.scope import NO_POLICY, Caller, is_visible
from commonbrain.model.tasks import OPEN_STATUSES
from commonbrain.model.timestamps import show_instant
from commonbrain.services import Capability, Services
from commonbrain.storage.change_log import ChangeContext, record_update
from commonbrain.storage.interface import DueBy, QueryScope
from commonbrain.storage.job_queue import EMBED, UPKEEP, JobContext, enqueue
from commonbrain.storage.retention_rules import Retention, RetentionRule
from commonbrain.text.search_words import indexed_text

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

OVERDUE: Final = timedelta(days=14)
"""A task is stale if it was due and nothing happened to it for two weeks, a usual sprint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChange:
    """The change of one memory; `after` is its new state."""

    action: Action
    before: Memory
    after: Memory
    reason: str

    @property
    def name(self) -> str:
        """The counter of this change."""
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
    """Return the change that is due for a memory; None if there is none.

    Only current memories change, and only towards expired, stale, archived or forgotten.
    `changed_at` is the time of the last change.
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
    reason = f"it expired on {show_instant(memory.expires_at)}"
    return StateChange(action=Action.EXPIRE, before=memory, after=after, reason=reason)


def _retained(memory: Memory, rules: Sequence[Retention], *, now: datetime) -> StateChange | None:
    # A memory that will be forgotten need not be archived first.
    for rule in sorted(rules, key=lambda one: one.action is not RetentionRule.FORGET):
        after = rule.retained(memory, now)
        if after is not None:
            return StateChange(
                action=Action.PRUNE, before=memory, after=after, reason=f"policy: {rule}"
            )
    return None


def _stale(memory: Memory, changed_at: datetime, *, now: datetime) -> StateChange | None:
    """Return a long overdue task as stale if it was not changed, read or leased since."""
    detail = memory.detail
    if (
        not isinstance(detail, TaskDetail)
        or detail.due_at is None
        or detail.status not in OPEN_STATUSES
    ):
        return None
    is_held = detail.lease_until is not None and detail.lease_until > now
    touched = max(detail.due_at, last_touched(memory), changed_at)
    # Tasks that require acknowledgement appear in every boot until one answers.
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
"""Progress key: the last memory checked; removed when all were."""
_CHECKED: Final = "checked"
"""The same for the search for missing bodies."""
_EMPTIED: Final = "emptied_before"
"""The same for models: the card before which the next page begins."""
_WORDED: Final = "worded_after"
"""The same for the search for rows missing from full text."""
_READ: Final = "read_after"
"""The same for the search for texts that are to be read."""
_TURNING: Final = 0.5
_DROPPING: Final = 0.8
_WORDING: Final = 0.9
"""Estimated progress after memories, old rows and the full-text check."""
RESULT_COUNTS: Final = (
    "expired", "stale", "archived", "forgotten", "affected", "jobs", "events", "evaluations",
    "page_sessions", "artifacts", "discards", "reworded", "reread", "bodiless", "unembedded",
    "suspects",
)  # fmt: skip
"""The counters of a run, in the order of its steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A memory that maintenance would change, and why."""

    id: str
    headline: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenancePreview:
    """What maintenance would do now: counts, and examples of each type."""

    counts: Mapping[str, int]
    examples: Mapping[str, tuple[Example, ...]]


class Maintain(Capability):
    """Previews maintenance for one caller."""

    def preview(self) -> MaintenancePreview:
        """Return what maintenance would do now, without changing anything.

        Includes old evaluations and models whose artifacts are no longer needed; old jobs, events
        and sessions of the web page are only counted when they are deleted.

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
                    before = turn.before
                    if len(shown) < limits.MAINTAINED_SHOWN_MAX and is_visible(self.caller, before):
                        example = Example(
                            id=ids.show(ids.MEMORY, before.id),
                            headline=before.headline,
                            reason=turn.reason,
                        )
                        examples[turn.name] = (*shown, example)
            counts += Counter(
                evaluations=tx.evaluations.surplus(newest=limits.EVALUATIONS_RETAINED),
                artifacts=count_unused_artifacts(tx, now=due_by.now),
            )
        return MaintenancePreview(counts=counts, examples=examples)


def maintain(task: JobContext) -> None:
    """Apply due changes, delete old rows, and find what is missing."""
    if task.job.given.get("dry_run"):
        preview = Maintain(task.services, task.caller).preview()
        with task.step() as tx:
            task.finish(tx, dict(preview.counts))
        return
    while task.is_live:
        reached = dict(task.job.reached)
        step = next((step for name, step in _STEPS.items() if name not in reached), _check_page)
        step(task, reached)


def _turn_page(task: JobContext, reached: dict[str, object]) -> None:
    """Change some memories; their dependents are marked in the same or the next transaction."""
    services, after = task.services, cast("int", reached.get(_AFTER, 0))
    with services.store.snapshot(task.caller.tenant) as tx:
        due_by = _build_due_by(tx, services)
        # Finding what is due reads a lot, so it happens outside the write transaction.
        page = tx.memories.due(due_by, after=after, limit=limits.MAINTAINED_AT_ONCE)
    caller = Caller(tenant=task.caller.tenant, agent=UPKEEP)
    with task.step() as tx:
        is_cut = _apply_turns(tx, page, caller=caller, due_by=due_by, reached=reached)
        _go_on(reached, page, key=_AFTER, end="turned")
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
    """Apply a page of changes; return whether some dependents remain to be marked."""
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
    """Delete finished jobs, events, old evaluations and ended sessions of the web page."""
    now = task.services.clock.now()
    with task.step() as tx:
        jobs = tx.jobs.drop(
            before=now - timedelta(days=limits.JOB_RETENTION_DAYS),
            dead_before=now - timedelta(days=limits.DEAD_LETTER_RETENTION_DAYS),
            limit=limits.RETAINED_AT_ONCE,
        )
        before = now - timedelta(days=limits.OUTBOX_RETENTION_DAYS)
        events = tx.records.drop_events(before=before, limit=limits.RETAINED_AT_ONCE)
        evaluations = tx.evaluations.drop(
            newest=limits.EVALUATIONS_RETAINED, limit=limits.RETAINED_AT_ONCE
        )
        _count(reached, "jobs", more=jobs)
        _count(reached, "events", more=events)
        logins = tx.credentials.drop_ended_logins(now=now, limit=limits.RETAINED_AT_ONCE)
        _count(reached, "evaluations", more=evaluations)
        _count(reached, "page_sessions", more=logins)
        if max(jobs, events, evaluations, logins) < limits.RETAINED_AT_ONCE:
            reached["dropped"] = True
        task.save_progress(tx, _DROPPING, reached=reached)


def _empty_page(task: JobContext, reached: dict[str, object]) -> None:
    """Detach the artifacts of retired models; retry failed deletions."""
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
    """Add missing rows to full text; a killed process may have lost some."""
    after = cast("int", reached.get(_WORDED, 0))
    with task.services.store.snapshot(task.caller.tenant) as tx:
        page = tx.index.unworded(after=after, limit=limits.MAINTAINED_AT_ONCE)
    with task.step() as tx:
        memories = [one for one in tx.memories.get(page).values() if one.state in FINDABLE_STATES]
        for one in memories:
            tx.index.reword(one)
        _count(reached, "reworded", more=len(memories))
        _go_on(reached, page, key=_WORDED, end="worded")
        task.save_progress(tx, _WORDING, reached=reached)


def _read_page(task: JobContext, reached: dict[str, object]) -> None:
    """Read texts that another version of this program stored, so that no recall has to.

    Its full text may have other words of a text, too.
    """
    after = cast("int", reached.get(_READ, 0))
    with task.services.store.snapshot(task.caller.tenant) as tx:
        page = tx.memories.unread(after=after, limit=limits.MAINTAINED_AT_ONCE)
    with task.step() as tx:
        _count(reached, "reread", more=tx.memories.read_again(page))
        for one in tx.memories.get(page).values():
            words = f"{one.text} {one.keywords}"
            if one.state in FINDABLE_STATES and indexed_text(words) != words:
                tx.index.reword(one)
        _go_on(reached, page, key=_READ, end="read")
        task.save_progress(tx, _WORDING, reached=reached)


def _check_page(task: JobContext, reached: dict[str, object]) -> None:
    """Count memories without a body, and schedule the embedding of those without vectors."""
    services, after = task.services, cast("int", reached.get(_CHECKED, 0))
    with services.store.snapshot(task.caller.tenant) as tx:
        page = tx.memories.bodiless(after=after, limit=limits.CHECKED_AT_ONCE)
        pending = tx.missing_embeddings.pending()
        is_last = len(page) < limits.CHECKED_AT_ONCE
        suspects = count_suspects(tx, services, caller=task.caller) if is_last else 0
    with task.step() as tx:
        _count(reached, "bodiless", more=len(page))
        if not is_last:
            reached[_CHECKED] = page[-1]
            task.save_progress(tx, _WORDING, reached=reached)
            return
        if pending:
            now = services.clock.now()
            caller = Caller(tenant=task.caller.tenant, agent=UPKEEP)
            enqueue(tx, services, caller=caller, kind=EMBED, given={}, due_at=now)
        reached |= {"unembedded": pending, "suspects": suspects}
        task.finish(tx, {name: reached.get(name, 0) for name in RESULT_COUNTS})


_STEPS: Final[Mapping[str, Callable[[JobContext, dict[str, object]], None]]] = {
    "turned": _turn_page,
    "dropped": _drop_page,
    "emptied": _empty_page,
    "worded": _word_page,
    "read": _read_page,
}
"""The steps before the last, each under the name of its end in the progress of a job."""


def _go_on(reached: dict[str, object], page: Sequence[int], *, key: str, end: str) -> None:
    """Note where the next page begins, or the end of a step."""
    if len(page) == limits.MAINTAINED_AT_ONCE:
        reached[key] = page[-1]
    else:
        reached.pop(key, None)
        reached[end] = True


def count_suspects(tx: Transaction, services: Services, *, caller: Caller) -> int:
    """Count the pairs of rules that may say the same, as far as the caller may see them."""
    everything = Filter(trust_min=0.0)
    query_scope = QueryScope(caller=caller, filter=everything, now=services.clock.now())
    suspects = duplicate_suspects(tx, query_scope, space=services.space_for(caller))
    return sum(1 for _ in suspects)


def _build_due_by(tx: Transaction, services: Services) -> DueBy:
    now, tenant = services.clock.now(), tx.credentials.tenant()
    policy = tenant.policy if tenant else NO_POLICY
    rules = tuple(map(Retention.read, policy.retention))
    return DueBy(now=now, tasks_before=now - OVERDUE, rules=rules)


def _pages(tx: Transaction, due_by: DueBy) -> Iterator[Sequence[int]]:
    """Return everything that is due, page by page."""
    after = 0
    while page := tx.memories.due(due_by, after=after, limit=limits.MAINTAINED_AT_ONCE):
        yield page
        after = page[-1]


def _turns(tx: Transaction, page: Sequence[int], *, due_by: DueBy) -> Iterator[StateChange]:
    """Decide the changes of a page of memories by their current state."""
    memories = tx.memories.get(page).values()
    tasks = [one.id for one in memories if one.kind is Kind.TASK]
    changed = {one.memory_id: one.at for one in tx.changes.of(tasks)}
    for one in memories:
        turn = state_change_of(one, due_by.rules, now=due_by.now, changed_at=changed.get(one.id))
        if turn is not None:
            yield turn


def _count(reached: dict[str, object], name: str, *, more: int) -> None:
    """Add to a counter of the progress."""
    reached[name] = cast("int", reached.get(name, 0)) + more
