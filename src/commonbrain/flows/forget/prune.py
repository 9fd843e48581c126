"""Prune: old memories that nobody reads are forgotten, few at a time and never what binds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from commonbrain.domain.cascade import Fall
from commonbrain.domain.choice import one_of
from commonbrain.domain.errors import Refused
from commonbrain.domain.kinds import KINDS, Kind, TaskDetail, TaskStatus
from commonbrain.domain.limits import PRUNE_AT_ONCE_MAX, PRUNE_DAYS_MIN, SCANNED_MAX
from commonbrain.domain.memory import CURRENT_STATES, Memory, State
from commonbrain.domain.query import Filter
from commonbrain.domain.revision import Action
from commonbrain.domain.scope import Caller, Scope, check_may_write
from commonbrain.domain.scoring import is_archived, last_touched
from commonbrain.flows.act import Act
from commonbrain.flows.duty import check_changes
from commonbrain.flows.forget.selection import preview_of, resting_on, within_reach
from commonbrain.flows.forget.swept import Stage, Swept, followed_up, how_confirmed
from commonbrain.flows.house import House
from commonbrain.ports.store import Transaction

_DAYS_DEFAULT = 90
_CLOSED = frozenset({TaskStatus.DONE, TaskStatus.STALE})


@dataclass(frozen=True, slots=True)
class Prune:
    """Pruning for one caller."""

    house: House
    caller: Caller

    def __call__(
        self,
        *,
        days: int = _DAYS_DEFAULT,
        kinds: Sequence[Kind | str] = (),
        min_access: int = 0,
        limit: int = PRUNE_AT_ONCE_MAX,
        confirm: int | None = None,
    ) -> Swept:
        """Forget memories that nobody has touched for so many days, longest untouched first.

        Never pinned ones, rules and messages; of facts only those read at most `min_access` times,
        of incidents and episodes the archived, of tasks the done and stale.

        Args:
            days: at least 30, counted from the later of recording and last access.
            kinds: only these.
            min_access: facts read more often stay.
            limit: at most 50.
            confirm: the count that the preview told; without it nothing is changed.

        Raises:
            Refused: `prune_guard` with the rule that stopped it, or the caller is a reader.
            Unavailable: the store stayed locked; everything is as it was.

        """
        only = tuple(one_of(Kind, kind) for kind in kinds)
        check_may_write(self.caller, Scope.TEAM)
        _check_guards(days, limit=limit, kinds=only)
        ask = _Ask(days=days, kinds=only, min_access=min_access, limit=limit, confirm=confirm)
        with self.house.store.snapshot(self.caller.tenant) as tx:
            preview, _ = _plan(self._act(tx), ask)
        if confirm is None or confirm != preview.count:
            return preview
        with self.house.store.begin(self.caller.tenant) as tx:
            act = self._act(tx)
            done = replace(_prune(act, ask), unseated=act.cascade())
        return followed_up(self.house, self.caller, done=done)

    def _act(self, tx: Transaction) -> Act:
        return Act(tx=tx, house=self.house, caller=self.caller, now=self.house.clock.now())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ask:
    days: int
    kinds: tuple[Kind, ...]
    min_access: int
    limit: int
    confirm: int | None

    @property
    def reason(self) -> str:
        return f"pruned: untouched for {self.days} days"


def _check_guards(days: int, *, limit: int, kinds: Sequence[Kind]) -> None:
    spared = [kind for kind in kinds if not KINDS[kind].is_pruned]
    for is_broken, rule in (
        (days < PRUNE_DAYS_MIN, f"days is {days}; at least {PRUNE_DAYS_MIN} are demanded."),
        (
            not 0 < limit <= PRUNE_AT_ONCE_MAX,
            f"limit is {limit}; 1 to {PRUNE_AT_ONCE_MAX} a call are allowed.",
        ),
        (bool(spared), f"{', '.join(spared)} is never pruned."),
    ):
        if is_broken:
            raise Refused(rule, code="prune_guard", hint="Forget single memories by their ids.")


def _prune(act: Act, ask: _Ask) -> Swept:
    preview, taken = _plan(act, ask)
    if ask.confirm != preview.count:
        return preview
    check_changes(act.tx, act.caller, memories=taken, now=act.now)
    deed = act.deed(Action.PRUNE, ask.reason)
    for one in taken:
        act.amend(one, replace(one, state=State.FORGOTTEN), deed=deed)
    left = "More are left: prune again." if preview.is_more else None
    return replace(preview, status=Stage.DONE if taken else Stage.UNCHANGED, hint=left)


def _plan(act: Act, ask: _Ask) -> tuple[Swept, list[Memory]]:
    old = sorted(_candidates(act, ask), key=last_touched)
    found = within_reach(act, old)
    taken = found.taken[: ask.limit]
    is_more = found.is_more or len(found.taken) > len(taken)
    preview = preview_of(
        replace(found, taken=taken, is_more=is_more),
        action=Action.PRUNE,
        dependents=resting_on(act, taken, fall=Fall.PRUNED),
        reason=ask.reason,
        hint=how_confirmed(len(taken), ask.confirm) if taken else "Nothing is to be pruned.",
    )
    return preview, list(taken)


def _candidates(act: Act, ask: _Ask) -> list[Memory]:
    since = act.now - timedelta(days=ask.days)
    kinds = ask.kinds or tuple(kind for kind in Kind if KINDS[kind].is_pruned)
    wanted = Filter(kinds=kinds, states=tuple(sorted(CURRENT_STATES)), trust_min=0.0)
    hits = act.tx.memories.newest(act.look(wanted), limit=SCANNED_MAX)
    found = act.tx.memories.get([hit.id for hit in hits]).values()
    return [
        one
        for one in found
        if last_touched(one) <= since and not one.pinned and _is_spent(act, one, ask=ask)
    ]


def _is_spent(act: Act, memory: Memory, *, ask: _Ask) -> bool:
    """Say whether a memory of its kind may go at this age."""
    match memory.detail:
        case TaskDetail(status=status):
            return status in _CLOSED
        case _ if memory.kind is Kind.FACT:
            return memory.access_count <= ask.min_access
        case _ if KINDS[memory.kind].archived_after is not None:
            return is_archived(memory, act.now)
        case _:
            return True
