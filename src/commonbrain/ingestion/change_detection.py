"""Change detection: which stored memories does a new one change?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

from commonbrain.ingestion.batch import WriteContext
from commonbrain.ingestion.deduplication import (
    CHANGED_COSINE_MIN,
    CHANGED_MAX,
    CHANGING_CHARS_MAX,
    Neighbour,
)
from commonbrain.ingestion.result import SimilarMemory
from commonbrain.model import ids
from commonbrain.model.kinds import KINDS, FactDetail, Kind
from commonbrain.model.links import DISAGREEMENTS, Basis, Link, LinkType, basis_of, is_sure, link_of
from commonbrain.model.memory import AWAITING_STATES, CURRENT_STATES, Memory
from commonbrain.model.revision import Action
from commonbrain.model.scope import is_visible
from commonbrain.model.support import may_dispute, may_outdate
from commonbrain.storage.change_log import predecessors
from commonbrain.text.changes import find_change, may_change
from commonbrain.text.repetition import carries_out

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

CHANGES_MAX: Final = 5
"""Memories that one memory changes, at most: a change of more is a summary."""
_UNANNOUNCED: Final = frozenset({Basis.NUMBER, Basis.ENTITY, Basis.VALUE, Basis.NEGATION})
"""Both texts state what holds, and cannot both be right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectedChange:
    """An older memory that a new one changes, and the evidence."""

    older: Memory
    basis: Basis
    similarity: float
    """The cosine of the two."""
    is_claimed: bool
    """Whether the newer one has the authority to change the older; otherwise a person is asked."""

    def shown(self) -> SimilarMemory:
        """Return the older memory as it is shown to the author."""
        return SimilarMemory(
            id=ids.show(ids.MEMORY, self.older.id),
            headline=self.older.headline,
            similarity=round(self.similarity, 3),
        )

    @property
    def is_disputed(self) -> bool:
        """Whether someone has to decide: it is a rule, or unclaimed, or nothing says it is new."""
        is_unannounced = self.basis in _UNANNOUNCED or KINDS[self.older.kind].is_binding
        return is_unannounced or not self.is_claimed


def detect_changes(
    context: WriteContext, memory: Memory, *, near: Sequence[Neighbour]
) -> tuple[DetectedChange, ...]:
    """Find the memories that a new one changes, nearest first.

    Compared are the nearest memories that state what holds. A report that something is done changes
    the task that planned it. What is trusted less, or seen by fewer, changes nothing; a rule is
    changed by a rule alone. What a lower authority says otherwise is disputed once.
    """
    can_change = KINDS[memory.kind].can_change_others and memory.state not in AWAITING_STATES
    if not can_change or len(memory.body) > CHANGING_CHARS_MAX:
        return ()
    tx, exclude_ids = context.tx, context.options.exclude_ids
    if exclude_ids:
        exclude_ids |= _accepted_alongside(tx, exclude_ids)
    compared = [
        neighbour
        for neighbour in near
        if KINDS[neighbour.memory.kind].can_change and neighbour.similarity >= CHANGED_COSINE_MIN
    ][:CHANGED_MAX]
    changes = [
        DetectedChange(
            older=neighbour.memory,
            basis=basis,
            similarity=neighbour.similarity,
            is_claimed=may_outdate(memory, neighbour.memory),
        )
        for neighbour in compared
        if neighbour.memory.id not in exclude_ids
        and _is_changeable(context, neighbour.memory, newer=memory)
        and (basis := _basis(neighbour.memory, memory)) is not None
    ]
    # What another memory changed already is believed by nobody, and not disputed again.
    disputed = [change.older.id for change in changes if change.is_disputed]
    links = tx.links.touching(disputed, types=DISAGREEMENTS) if disputed else ()
    older = {change.older.id: change.older for change in changes}
    changed_ids = {link.to_id for link in links if link.to_id in older and _acts_on(older, link)}
    asked_ids = _disputed_already(context, links)
    open_ = (
        one
        for one in changes
        if not (one.is_disputed and one.older.id in changed_ids)
        and (one.is_claimed or one.older.id not in asked_ids)
    )
    return tuple(islice(open_, CHANGES_MAX))


def _disputed_already(context: WriteContext, links: Sequence[Link]) -> set[int]:
    """Return what a person is asked about already, or has decided.

    A question is gone once the memory that raised it is revised, has expired, or is withdrawn by
    its author. What a caller merely linked asks nothing.
    """
    ends = {id_ for link in links for id_ in (link.from_id, link.to_id)}
    known = context.tx.memories.get(sorted(ends - context.options.exclude_ids))
    asking = {
        one.id
        for one in known.values()
        if one.state in CURRENT_STATES and not one.is_over(context.now)
    }
    return {
        id_
        for link in links
        if basis_of(link) is not Basis.SAID
        for id_, other in ((link.from_id, link.to_id), (link.to_id, link.from_id))
        if other in asking or (other in known and known[other].superseded_by == id_)
    }


def _acts_on(memories: Mapping[int, Memory], link: Link) -> bool:
    is_change = link.type is LinkType.CHANGES and is_sure(link)
    return is_change and link.authority.covers(memories[link.to_id].authority)


def changed_by(tx: Transaction, id_: int) -> Memory | None:
    """Return the latest memory that changed another and still holds, if any did."""
    links = tx.links.touching([id_], types=[LinkType.CHANGES])
    known = tx.memories.get([id_])
    newer = tx.memories.get(
        [link.from_id for link in links if link.to_id in known and _acts_on(known, link)]
    )
    holding = [memory for memory in newer.values() if memory.state in CURRENT_STATES]
    return max(holding, key=lambda memory: memory.id, default=None)


def _basis(older: Memory, newer: Memory) -> Basis | None:
    if older.kind is Kind.TASK and carries_out(newer.body, plan=older.body):
        return Basis.ANNOUNCED
    stated, statement = _statement(older), _statement(newer)
    # Most neighbours speak of something else, as their stored words show, which lack the subject.
    if stated == older.body and not may_change(statement, words=older.reading.stems):
        return None
    return find_change(stated, statement)


def _statement(memory: Memory) -> str:
    """Return the body of a memory, after the subject that its author gave."""
    detail = memory.detail
    subject = detail.subject if isinstance(detail, FactDetail) else None
    return f"{subject}: {memory.body}" if subject else memory.body


def _is_changeable(context: WriteContext, older: Memory, *, newer: Memory) -> bool:
    is_bound = KINDS[older.kind].is_binding and not KINDS[newer.kind].is_binding
    return (
        not is_bound
        and older.state in CURRENT_STATES
        and not older.is_over(context.now)
        and is_visible(context.caller, older)
        and newer.trust.weight >= older.trust.weight
        and may_dispute(newer, older)
        and len(older.body) <= CHANGING_CHARS_MAX
    )


def _accepted_alongside(tx: Transaction, revised: Iterable[int]) -> frozenset[int]:
    """Return the memories that a caller decided to keep along with any revision of these."""
    chain = [
        id_
        for memory in tx.memories.get(list(revised)).values()
        for id_ in (memory.id, *(one.id for one in predecessors(tx, memory)))
    ]
    links = tx.links.touching(chain, types=[LinkType.RELATES_TO])
    ends = {frozenset((one.from_id, one.to_id)) for one in links}
    dismissed = {
        frozenset((link.from_id, link.to_id))
        for change in tx.changes.of(sorted(frozenset[int]().union(*ends)))
        if change.action is Action.KEEP_BOTH and "link" in change.after
        for link in [link_of(cast("Mapping[str, Any]", change.after["link"]))]
    }
    return frozenset[int]().union(*(ends & dismissed)).difference(chain)
