"""Handing over: what a session leaves to the next, and what the one before left."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from commonbrain.domain.handoff import LABEL, Handoff, text_of
from commonbrain.domain.kinds import EpisodeDetail, Kind
from commonbrain.domain.memory import Draft, Memory
from commonbrain.domain.query import Filter
from commonbrain.domain.scope import Caller
from commonbrain.flows.act import Act
from commonbrain.flows.house import House
from commonbrain.flows.remember.outcome import Outcome, exists, rejected
from commonbrain.flows.remember.pipeline import Course, Remember
from commonbrain.flows.remember.prepare import Prepared, embed, prepare
from commonbrain.flows.revise.supersede import Heritage, replace_by
from commonbrain.flows.sessions.registry import own_session
from commonbrain.ports.store import Look, Transaction

_LATER: Final = "A later handoff of the same session."
_OWN: Final = "The session left a handoff of its own."
_LOOKED_AT: Final = 8
"""Handoffs looked at first; more only when all of these are the caller's own."""


@dataclass(frozen=True, slots=True)
class HandingOver:
    """One handoff on its way through the write path; it is made before a transaction opens."""

    ready: Prepared | Outcome
    is_automatic: bool = False

    def store(self, act: Act) -> Outcome:
        """Store it in place of what the session left before, or say why it does not get in."""
        if isinstance(self.ready, Outcome):
            return self.ready
        own = Filter(
            kinds=(Kind.EPISODE,),
            labels=(LABEL,),
            agent=act.caller.agent,
            session=act.caller.session,
            trust_min=0,
        )
        known = act.tx.memories.newest(act.look(own), limit=1)
        before = act.tx.memories.get([hit.id for hit in known])
        for id_, old in before.items():
            if self.is_automatic and not old.auto_captured:
                return replace(exists(old), reason=_OWN)
            if old.text != self.ready.text:
                return replace_by(act, self.ready, old_id=id_, reason=_LATER, heritage=Heritage())
        writer = Remember(act.house, act.caller)
        # What hands over repeats what was done: whether it resembles something helps nobody.
        course = Course(compares_meaning=False)
        return writer.settle(act.tx, self.ready, look=act.look(Filter()), course=course)


def hand_over(house: House, caller: Caller, *, handoff: Handoff) -> HandingOver:
    """Take a handoff through the gate; the span that it tells of is its session's so far.

    Raises:
        Invalid: it has no summary.
        Refused: it says too much, or the caller may not write.

    """
    text = text_of(handoff)
    with house.store.snapshot(caller.tenant) as tx:
        act = Act(tx=tx, house=house, caller=caller, now=house.clock.now())
        session = own_session(act)
    began = min(session.started_at, act.now)
    draft = Draft(
        body=text,
        kind=Kind.EPISODE,
        label=LABEL,
        project=caller.project or session.project,
        source_ref=f"session:{session.key}",
        auto_captured=handoff.is_automatic,
        detail=EpisodeDetail(started_at=began, ended_at=act.now),
    )
    prepared = prepare(draft, caller, house=house)
    if not isinstance(prepared, Prepared):
        return HandingOver(rejected(prepared))
    [ready] = embed([prepared], house.embedder)
    return HandingOver(ready, is_automatic=handoff.is_automatic)


def last_handoff(
    tx: Transaction, caller: Caller, *, project: str | None, now: datetime
) -> Memory | None:
    """Give the newest handoff of a project, or of all, that another session left the caller.

    What holds for every project counts for each.
    """
    wanted = Filter(kinds=(Kind.EPISODE,), labels=(LABEL,), project=project)
    look, limit = Look(caller=caller, filter=wanted, now=now), _LOOKED_AT
    while True:
        newest = tx.board.latest(look, limit=limit)
        known = tx.memories.get(newest)
        for id_ in newest:
            if not _is_own(known[id_], caller):
                return known[id_]
        if len(newest) < limit:
            return None
        limit *= 4


def _is_own(memory: Memory, caller: Caller) -> bool:
    own = (caller.agent, caller.session)
    return caller.session is not None and (memory.agent, memory.session) == own
