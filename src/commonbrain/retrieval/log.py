"""The recall log: what recalls considered, and the feedback on what they returned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from commonbrain.model import ids
from commonbrain.model.errors import NotFoundError, RejectedError
from commonbrain.model.kinds import Kind
from commonbrain.model.limits import LEDGER_PAGE_DEFAULT, LEDGER_PAGE_MAX
from commonbrain.model.memory import Memory, State
from commonbrain.model.paging import Listing
from commonbrain.model.query import (
    ExclusionReason,
    FeedbackMark,
    RankedCandidate,
    RecallLogEntry,
    ShownExtent,
)
from commonbrain.model.scope import Caller, Role, is_visible
from commonbrain.retrieval.get import fetch
from commonbrain.services import Services
from commonbrain.storage.interface import EntryFilter

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

_SLIGHT: Final = 0.01
"""Weight assumed for features that only learned models use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateView:
    """A candidate of a recall; its headline is the current one."""

    id: str
    place: int
    """Its rank, from 1."""
    kind: Kind | None
    headline: str | None
    """None if it was erased or the caller may not see it."""
    score: float
    features: Mapping[str, float]
    """Its features, those with most weight first; omitted ones were 0."""
    left_out: str | None
    """Why it was not in the result; None if it was."""
    shown: ShownExtent | None
    """How much of it the result contained; None if it was not in it."""
    marks: tuple[FeedbackMark, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallView:
    """One recall of the log."""

    id: str
    asked_at: datetime
    agent: str
    session: str | None
    query: str
    """Empty without a query, or after an erase."""
    verdict: str
    ranker: str | None
    """The model that ranked it; None for fixed weights."""
    considered: int
    packed: int
    marks: Mapping[FeedbackMark, int]
    """The number of memories by mark."""
    degraded: tuple[str, ...]
    stages_ms: Mapping[str, float]
    candidates: tuple[CandidateView, ...] | None = None
    """Best first; None in lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallPage:
    """A page of recalls, newest first."""

    recalls: tuple[RecallView, ...]
    next: str | None = None
    """The cursor of the next page; None on the last one."""
    more: int = 0
    """Recalls after this page; 1,000 means 1,000 or more."""


@dataclass(frozen=True, slots=True)
class ListRecalls:
    """Reads the recall log: admins read all, other agents their own.

    Candidates that the caller of a recall was not allowed to see are shown to admins only, by id
    and figures; texts only to those who may see the memory.
    """

    services: Services
    caller: Caller

    def __call__(
        self,
        *,
        agent: str | None = None,
        session: str | None = None,
        memory: str | None = None,
        marked: bool = False,
        limit: int = LEDGER_PAGE_DEFAULT,
        cursor: str | None = None,
    ) -> RecallPage:
        """List recalls, newest first.

        Args:
            agent: only recalls by this agent.
            session: only recalls in this session.
            memory: only recalls that returned this memory.
            marked: only recalls of which a memory was used or rated.
            limit: 1 to 100 recalls.
            cursor: `next` of the page before.

        Raises:
            NotFoundError: there is no such memory, or the caller may not see it.
            RejectedError: `limit_exceeded`; `insufficient_role`, only an admin may read those of
                others.
            InvalidInputError: the cursor is malformed.

        """
        filters = {"agent": agent, "session": session, "memory": memory, "marked": marked}
        listing = Listing(name="recalls", limit=limit, cursor=cursor, filters=filters)
        after = listing.checked(LEDGER_PAGE_MAX).after(int)
        below = ids.LAST if after is None else int(after[0])
        criteria = EntryFilter(
            agent=self._whose(agent),
            session=session,
            is_marked=marked,
            memory=None if memory is None else ids.parse(ids.MEMORY, memory),
        )
        # Recent recalls may still wait to be written.
        self.services.journal.flush()
        with self.services.store.snapshot(self.caller.tenant) as tx:
            if criteria.memory is not None:
                fetch(tx, self.caller, id_=criteria.memory)
            page = listing.page(
                tx.recall_log.latest(criteria, before=below, limit=limit + 1),
                key=lambda entry: (entry.id,),
                count=lambda most: tx.recall_log.count(criteria, before=below, at_most=most),
            )
            shown = tuple(self._shown(tx, one) for one in page.rows)
        return RecallPage(recalls=shown, next=page.next, more=page.more)

    def one(self, trace: str) -> RecallView:
        """Return one recall with all its candidates.

        Raises:
            InvalidInputError: the id is malformed.
            NotFoundError: there is no such recall, or the caller may not read it.

        """
        id_ = ids.parse(ids.TRACE, trace)
        self.services.journal.flush()
        with self.services.store.snapshot(self.caller.tenant) as tx:
            entries = tx.recall_log.entries(EntryFilter(), after=max(id_ - 1, 0), limit=1)
            entry = entries[0] if entries and entries[0].id == id_ else None
            if entry is None or not (self._is_admin or entry.agent == self.caller.agent):
                raise NotFoundError(
                    f"No recall {ids.show(ids.TRACE, id_)}.",
                    hint="Traces are kept for a time, and a share of them where settings say so.",
                )
            return self._shown(tx, entry, is_whole=True)

    @property
    def _is_admin(self) -> bool:
        return self.caller.role is Role.ADMIN

    def _whose(self, agent: str | None) -> str | None:
        if self._is_admin:
            return agent
        if agent not in {None, self.caller.agent}:
            raise RejectedError(
                "What other agents recalled is an admin's to read.",
                code="insufficient_role",
                hint="Leave agent out.",
            )
        return self.caller.agent

    def _shown(
        self, tx: Transaction, entry: RecallLogEntry, *, is_whole: bool = False
    ) -> RecallView:
        known = tx.memories.get([one.memory_id for one in entry.considered])
        visible = [
            one for one in entry.considered if self._is_visible(one, known.get(one.memory_id))
        ]
        each = [mark for one in visible for mark in entry.marks.get(one.memory_id, ())]
        candidates = tuple(
            self._candidate(one, known.get(one.memory_id), place=place, entry=entry)
            for place, one in enumerate(visible, start=1)
        )
        return RecallView(
            id=ids.show(ids.TRACE, entry.id),
            asked_at=entry.asked_at,
            agent=entry.agent,
            session=entry.session,
            query=entry.query,
            verdict=entry.status,
            ranker=None if entry.ranker is None else ids.show(ids.MODEL, entry.ranker),
            considered=len(visible),
            packed=sum(one.shown is not None for one in candidates),
            marks={mark: each.count(mark) for mark in FeedbackMark if mark in each},
            degraded=entry.degraded,
            stages_ms=entry.stages_ms,
            candidates=candidates if is_whole else None,
        )

    def _is_visible(self, one: RankedCandidate, memory: Memory | None) -> bool:
        """Hide candidates from callers who may not see them, even from the count."""
        if self._is_admin:
            return True
        is_seen = memory is not None and is_visible(self.caller, memory)
        return is_seen and one.left_out != ExclusionReason.NOT_ALLOWED

    def _candidate(
        self, one: RankedCandidate, memory: Memory | None, *, place: int, entry: RecallLogEntry
    ) -> CandidateView:
        seen = memory if memory is not None and is_visible(self.caller, memory) else None
        worded = seen if seen and seen.state is not State.FORGOTTEN else None
        return CandidateView(
            id=ids.show(ids.MEMORY, one.memory_id),
            place=place,
            kind=seen.kind if seen else None,
            headline=worded.headline if worded else None,
            score=one.score,
            features=_by_weight(one.features),
            left_out=one.left_out,
            # Traces of older programs do not store the extent.
            shown=one.shown or (ShownExtent.BARE if one.memory_id in entry.packed else None),
            marks=tuple(sorted(entry.marks.get(one.memory_id, ()))),
        )


def _by_weight(features: Mapping[str, float]) -> Mapping[str, float]:
    """Return features, those that weigh most first."""
    # The replies of this module are described without numpy.
    from commonbrain.retrieval.score import FEATURE_WEIGHTS  # noqa: PLC0415

    weights = {
        name: abs(one * FEATURE_WEIGHTS.get(name, _SLIGHT)) for name, one in features.items()
    }
    return {name: features[name] for name in sorted(weights, key=weights.__getitem__, reverse=True)}
