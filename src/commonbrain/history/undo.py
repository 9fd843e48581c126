"""Undo: everything an agent, a session or a time span changed, taken back as one change."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, cast

from commonbrain.history.selection import (
    Stage,
    Swept,
    followed_up,
    how_confirmed,
    kinds_of,
    named,
    shown,
)
from commonbrain.history.undo_plan import (
    BESIDE,
    Reversal,
    built_on,
    reverse,
    settled_by,
    with_links,
)
from commonbrain.history.unit_of_work import Act, checked_reason, vectors_of
from commonbrain.ingestion.pending_acks import check_changes
from commonbrain.model import ids
from commonbrain.model.errors import Invalid, Refused
from commonbrain.model.limits import REASON_CHARS_MAX, UNDO_CHANGES_MAX, UNDO_DAYS_MAX
from commonbrain.model.links import link_of
from commonbrain.model.memory import FINDABLE_STATES, Memory
from commonbrain.model.revision import Action, Change
from commonbrain.model.scope import Caller, Scope, check_may_write, is_visible
from commonbrain.model.tasks import ack_of
from commonbrain.model.timestamps import show_instant
from commonbrain.services import House
from commonbrain.storage.change_log import (
    annotation_image,
    annotation_of,
    record_beside,
    settled_of,
)
from commonbrain.storage.interface import Transaction
from commonbrain.text.normalisation import normalise_line
from commonbrain.text.time_expressions.parser import moment_of

_LONGEST: Final = timedelta(days=UNDO_DAYS_MAX)


@dataclass(frozen=True, slots=True)
class Undo:
    """Undoing for one caller."""

    house: House
    caller: Caller

    def __call__(
        self,
        *,
        reason: str,
        agent: str | None = None,
        session: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        confirm: int | None = None,
    ) -> Swept:
        """Take back what was written and changed, newest first; previewed before it acts.

        What it made is forgotten, what it changed is as before. What others have built on since
        (changed, superseded, annotated or derived from) is spared and listed with the reason. All
        of it is one transaction whose changes share one reason, and can be undone in turn.

        Args:
            reason: why; it is kept.
            agent: only what this agent did.
            session: only what was done in this session.
            since: from then on, ISO 8601 or words such as yesterday; 31 days before `until`
                when left out.
            until: up to then; now when left out.
            confirm: the count that the preview told; without it nothing is changed.

        Raises:
            Invalid: there is no reason, or nothing says whose changes are meant.
            Refused: `limit_exceeded`, the span or the number of changes is too large.
            Unavailable: the store stayed locked; everything is as it was.

        """
        why = checked_reason(reason, self.house)
        check_may_write(self.caller, Scope.TEAM)
        now = self.house.clock.now()
        ask = _Ask.of(agent=agent, session=session, since=since, until=until, now=now)
        with self.house.store.snapshot(self.caller.tenant) as tx:
            reversals = _plan(self._act(tx), ask)
            preview = _preview(reversals, confirm=confirm, reason=why)
        if confirm is None or confirm != preview.count:
            return preview
        back = [one.before for one in reversals if _comes_back(one)]
        vectors = vectors_of(self.house, back)
        with self.house.store.begin(self.caller.tenant) as tx:
            act = replace(self._act(tx), vectors=vectors)
            done = _undo(act, ask, confirm=confirm, reason=why)
            done = replace(done, unseated=act.cascade())
        return followed_up(self.house, self.caller, done=done)

    def _act(self, tx: Transaction) -> Act:
        return Act(tx=tx, house=self.house, caller=self.caller, now=self.house.clock.now())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ask:
    """Whose changes of which time are meant."""

    agent: str | None
    session: str | None
    since: datetime
    until: datetime

    @classmethod
    def of(
        cls,
        *,
        agent: str | None,
        session: str | None,
        since: datetime | str | None,
        until: datetime | str | None,
        now: datetime,
    ) -> _Ask:
        if agent is None and session is None and since is None and until is None:
            raise Invalid("Nothing says whose changes.", hint="Give agent, session or since.")
        end = moment_of(until, now, ends=True) if until else now
        start = moment_of(since, now) if since else end - _LONGEST
        if start > end:
            raise Invalid(f"since {show_instant(start)} is after until {show_instant(end)}.")
        if end - start > _LONGEST:
            raise Refused(
                f"The span is {(end - start).days} days; {UNDO_DAYS_MAX} are allowed.",
                code="limit_exceeded",
                hint="Undo the last days first, then those before.",
            )
        who, where = normalise_line(agent), normalise_line(session)
        if (agent is not None and who is None) or (session is not None and where is None):
            raise Invalid("The agent or session is blank.", hint="Give its name.")
        return cls(agent=who, session=where, since=start, until=end)

    def shown(self) -> str:
        whose = [f"agent {self.agent}"] if self.agent else []
        whose += [f"session {self.session}"] if self.session else []
        return f"{' in '.join(whose) or 'everybody'} since {show_instant(self.since)}"


def _plan(act: Act, ask: _Ask) -> list[Reversal]:
    """Say for every memory that was touched what taking back does to it."""
    changes = act.tx.changes.by(
        agent=ask.agent,
        session=ask.session,
        since=ask.since,
        until=ask.until,
        limit=UNDO_CHANGES_MAX + 1,
    )
    if len(changes) > UNDO_CHANGES_MAX:
        raise Refused(
            f"There are more than {UNDO_CHANGES_MAX} changes; so many at once are allowed.",
            code="limit_exceeded",
            hint="Undo the last hours first, with a later since.",
        )
    by_memory: defaultdict[int, list[Change]] = defaultdict(list)
    for change in changes:
        by_memory[change.memory_id].append(change)
    found = act.tx.memories.get(list(by_memory))
    seen = [one for one in found.values() if is_visible(act.caller, one)]
    resting = built_on(act, seen)
    reversals = [
        reverse(act, one, wanted=by_memory[one.id], resting=resting.get(one.id, ())) for one in seen
    ]
    while True:
        # Who stays whole keeps its links too, on which the links of others may depend.
        planned = _together(with_links(act, reversals))
        if all(
            len(a.candidates) == len(b.candidates) for a, b in zip(reversals, planned, strict=True)
        ):
            return planned
        reversals = planned


def _together(reversals: Sequence[Reversal]) -> list[Reversal]:
    """Keep a chain whole: who stays keeps what it took the place of, and the other way round."""
    kept = {one.before.id: one.kept for one in reversals if one.kept is not None}
    whole: list[Reversal] = []
    for one in reversals:
        bound = [id_ for id_ in one.peers if id_ in kept]
        if bound:
            why = f"{ids.show(ids.MEMORY, bound[0])} took its place and stays."
            whole.append(Reversal(before=one.before, after=one.before, kept=one.kept or why))
        else:
            whole.append(one)
    return whole


def _comes_back(one: Reversal) -> bool:
    was, is_ = one.before.state, one.after.state
    return was not in FINDABLE_STATES and is_ in FINDABLE_STATES


def _undo(act: Act, ask: _Ask, *, confirm: int, reason: str) -> Swept:
    reversals = _plan(act, ask)
    preview = _preview(reversals, confirm=confirm, reason=reason)
    if confirm != preview.count:
        return preview
    due = [one.before for one in reversals if one.is_due]
    check_changes(act.tx, act.caller, memories=due, now=act.now, is_settling=True)
    token = ids.show("und", ids.make_id(act.now, act.house.chance.bits(ids.RANDOM_BITS)))
    one_reason = f"{token}, undo of {ask.shown()}: {reason}"[:REASON_CHARS_MAX]
    deed = act.deed(Action.UNDO, one_reason)
    # What leaves a chain makes room for what joins it again.
    for one in sorted(reversals, key=lambda one: one.after.superseded_by is not None):
        if one.after != one.before:
            act.amend(one.before, one.after, deed=deed)
    changed = ((change, one.after) for one in reversals for change in one.beside)
    for change, memory in sorted(changed, key=lambda pair: pair[0].id, reverse=True):
        before, after = _put_back(act, change)
        record_beside(act.tx, memory, deed=deed, before=before, after=after)
    status = Stage.DONE if preview.count else Stage.UNCHANGED
    return replace(preview, status=status, reason=one_reason, hint=None)


def _put_back(act: Act, change: Change) -> tuple[Mapping[str, object], Mapping[str, object]]:
    """Set what stands beside a memory to what it was; give both as they are now called."""
    old, new = _image(change.before), _image(change.after)
    if "ack" in {*change.before, *change.after}:
        if old is not None:
            act.tx.duties.put(ack_of(old))
        elif new is not None:
            act.tx.duties.drop(ack_of(new))
        return change.after, change.before
    if "annotation" in {*change.before, *change.after}:
        if new is not None:
            act.tx.annotations.drop(int(new["id"]))
            return change.after, {}
        noted = annotation_of(old or {})
        again = replace(noted, id=act.tx.annotations.add(noted))
        return {}, {"annotation": annotation_image(again)}
    if "review" in change.after:
        opened = {"settled_at": None, "settled_by": None, "reason": None}
        act.tx.reviews.put([replace(one, **opened) for one in settled_by(act.tx, change)])
        act.tx.reviews.touch([change.memory_id], at=act.now)
        return change.after, {}
    if "review" in change.before:
        # What is not marked again in the end is taken away with the marks that went.
        act.tx.reviews.put(settled_of(change.before["review"], change.memory_id))
        act.tx.reviews.touch([change.memory_id], at=act.now)
        return {}, change.before
    if old is not None:
        act.tx.links.replace(link_of(old))
    elif new is not None:
        link = link_of(new)
        act.tx.links.drop(link.from_id, link.to_id, type_=link.type)
    return change.after, change.before


def _image(images: Mapping[str, object]) -> Mapping[str, Any] | None:
    return cast(
        "Mapping[str, Any] | None", next((images[one] for one in BESIDE if one in images), None)
    )


def _preview(reversals: Sequence[Reversal], *, confirm: int | None, reason: str) -> Swept:
    due = [one for one in reversals if one.is_due]
    spared = [named(one.before, one.kept) for one in reversals if one.kept is not None]
    taken: list[Memory] = [one.before for one in due]
    return Swept(
        action=Action.UNDO,
        status=Stage.PREVIEW,
        count=len(due),
        by_kind=kinds_of(taken),
        items=shown([named(one.before, _what(one)) for one in due]),
        spared_count=len(spared),
        spared=shown(spared),
        reason=reason,
        hint=how_confirmed(len(due), confirm) if due else "There is nothing to take back.",
    )


def _what(one: Reversal) -> str:
    """Say what taking back does to a memory."""
    was, is_ = one.before.state, one.after.state
    beside = f"{len(one.beside)} beside it" if one.beside else ""
    state = f"{was} -> {is_}" if was is not is_ else ""
    own = state or ("changed back" if one.after != one.before else "")
    return ", ".join(part for part in (own, beside) if part)
