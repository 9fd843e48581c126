"""Archiving what rests on nothing that holds, and bringing it back once something does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from commonbrain.domain.cascade import Fall, Review, Standing, Support, bears, unsupported
from commonbrain.domain.kinds import Kind
from commonbrain.domain.memory import CURRENT_STATES, State
from commonbrain.domain.revision import Action, Change
from commonbrain.flows.recording import Deed
from commonbrain.ports.records import AuditEntry
from commonbrain.ports.store import Transaction


def weigh(tx: Transaction, changed: Sequence[int], *, deed: Deed) -> tuple[int, ...]:
    """Archive or bring back what the changed and all that rests on them deserve; give the former.

    Rules are never archived, nor is what somebody has vouched for.
    """
    region = tx.reviews.shaken(changed)
    reviews = tx.reviews.of(region)
    if not reviews:
        return ()
    standings = tx.graph.standings(list(reviews))
    candidates = {
        id_
        for id_, one in standings.items()
        if not one.is_over(deed.at) and _may_be_archived(one, reviews[id_])
    }
    supports = tx.graph.supports(sorted(candidates))
    bearing = _bearing(tx, supports, candidates=candidates, region=set(region), deed=deed)
    gone = unsupported(candidates, supports, bearing=bearing)
    selves = {id_: one for id_, those in reviews.items() for one in those if one.is_of_itself}
    fresh = [standings[id_] for id_ in sorted(gone - selves.keys())]
    archived = _archive(tx, fresh, deed=deed)
    back = [selves[id_] for id_ in sorted(selves.keys() - gone)]
    _revive(tx, back, standings=standings, deed=deed)
    return archived


def _may_be_archived(one: Standing, reviews: Sequence[Review]) -> bool:
    told = [review.is_open for review in reviews if not review.is_of_itself]
    is_open = bool(told) and all(told)
    return is_open and one.kind is not Kind.RULE and one.state in CURRENT_STATES


def _bearing(
    tx: Transaction,
    supports: Sequence[Support],
    *,
    candidates: set[int],
    region: set[int],
    deed: Deed,
) -> Mapping[Support, bool]:
    """Say of the supports that lead out of the candidates which hold."""
    leading = [one for one in supports if one.to_id not in candidates]
    targets = sorted({one.to_id for one in leading})
    standings = tx.graph.standings(targets)
    beyond = tx.reviews.of([id_ for id_ in targets if id_ not in region])
    lost = {id_ for id_, those in beyond.items() if any(one.is_of_itself for one in those)}
    return {
        one: bears(one, standings.get(one.to_id), is_unsupported=one.to_id in lost, now=deed.at)
        for one in leading
    }


def _archive(tx: Transaction, fresh: Sequence[Standing], *, deed: Deed) -> tuple[int, ...]:
    tx.reviews.add(
        [
            Review(
                memory_id=one.id,
                cause_id=one.id,
                fall=Fall.UNSUPPORTED,
                via_id=one.id,
                depth=0,
                at=deed.at,
                earlier=one.state,
            )
            for one in fresh
        ]
    )
    active = tuple(one.id for one in fresh if one.state is State.ACTIVE)
    _turn(tx, active, before=State.ACTIVE, after=State.ARCHIVED, deed=deed)
    return active


def _revive(
    tx: Transaction,
    back: Sequence[Review],
    *,
    standings: Mapping[int, Standing],
    deed: Deed,
) -> None:
    """Bring back what was archived for want of support, unless it was changed since."""
    tx.reviews.drop(back)
    resting = [one.memory_id for one in back if one.earlier is State.ACTIVE]
    archived = [id_ for id_ in resting if standings[id_].state is State.ARCHIVED]
    _turn(tx, archived, before=State.ARCHIVED, after=State.ACTIVE, deed=deed)


def _turn(tx: Transaction, ids: Sequence[int], *, before: State, after: State, deed: Deed) -> None:
    """Change the state of many, and record it of each."""
    if not ids:
        return
    tx.memories.turn(ids, after)
    texts = tx.memories.texts(ids)
    caller, at = deed.caller, deed.at
    tx.changes.add_all(
        [
            Change(
                memory_id=id_,
                action=Action.CASCADE,
                agent=caller.agent,
                session=caller.session,
                at=at,
                before={"state": before},
                after={"state": after},
            )
            for id_ in ids
        ]
    )
    tx.records.audit_all(
        [
            AuditEntry(
                action=Action.CASCADE,
                memory_id=id_,
                agent=caller.agent,
                session=caller.session,
                reason=None,
                content=texts[id_],
                at=at,
            )
            for id_ in ids
        ]
    )
