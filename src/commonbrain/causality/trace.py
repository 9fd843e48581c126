"""Trace: follow a memory back to its causes and on to its effects."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from commonbrain.causality.chains import build_chain, find_roots, memories_of, open_ends, steps_of
from commonbrain.causality.patterns import (
    OutcomeWindow,
    before_time,
    episodes,
    find_precursors,
    patterns,
)
from commonbrain.causality.result import TraceResult, TraceStep, step_of
from commonbrain.causality.traversal import CAUSAL, ChainWalker
from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.kinds import kinds_where
from commonbrain.model.links import LinkType
from commonbrain.model.memory import Memory
from commonbrain.model.query import TRUST_MIN_DEFAULT
from commonbrain.model.scope import Caller
from commonbrain.model.support import SUPPORTS
from commonbrain.retrieval.get import fetch
from commonbrain.retrieval.provenance import provenance, seen
from commonbrain.retrieval.service import Recall, check_length
from commonbrain.services import Services
from commonbrain.storage.interface import Transaction
from commonbrain.storage.knowledge import Direction
from commonbrain.text.normalisation import normalise
from commonbrain.text.time_expressions.parser import find_instant


def dependents_of(walker: ChainWalker, start: Memory, *, asked: str) -> TraceResult:
    """Return the direct and indirect dependents of a memory."""
    chain = walker.chain(start)
    memories = memories_of(walker, [chain], starts=[start])
    limits = (
        open_ends(chain, depth_max=walker.depth_max) if chain.hops else ["Nothing rests on it."]
    )
    return TraceResult(
        op="dependents",
        asked=asked,
        steps=tuple(steps_of(walker, chain, memories=memories)),
        limits=tuple(limits),
        is_cut=chain.is_cut or chain.is_deeper,
    )


def provenance_of(walker: ChainWalker, start: Memory, *, asked: str) -> TraceResult:
    """Return the sources of a memory, step by step, to messages and thread."""
    known = provenance(walker.tx, walker.caller, memory=start, now=walker.now)
    steps = (
        TraceStep(
            depth=one.depth,
            id=one.id,
            kind=one.kind,
            headline=one.headline,
            via=one.via,
            agent=one.agent,
            occurred_at=one.occurred_at,
            state=one.state,
            source_ref=one.source_ref,
            thread=one.thread,
        )
        for one in known.origins
    )
    return TraceResult(
        op="provenance",
        asked=asked,
        steps=(step_of(start, depth=0), *steps),
        because=known.because,
        limits=() if known.origins else ("Depth 0: no source of it is known.",),
        is_cut=known.is_cut,
    )


DEPTH_MAX: Final = 10
DEEPEN_DEPTH: Final = 5
HOURS_DEFAULT: Final = 4.0
_HOURS_MAX: Final = 24 * 31
_TARGETS_MAX: Final = 5
SEARCHES_MAX: Final = 3
"""Searches by words in one chain; each costs as much as a lexical recall."""
_ID_MARK: Final = f"{ids.MEMORY}_"
_SEARCHED_KINDS: Final = kinds_where(lambda policy: policy.is_trace_target)
_NOTHING: Final = "Depth 0: nothing stored answers this."


@dataclass(frozen=True, slots=True)
class Trace:
    """Traces for one caller.

    All methods raise `InvalidInputError` for an empty query or a malformed id, `NotFoundError` for
    an id that the caller may not see, `RejectedError` for a depth or time out of range, and
    `UnavailableError` if the store cannot be read. A trace stops at memories that the caller may
    not see, without mentioning them.
    """

    services: Services
    caller: Caller

    def causes(self, what: str, *, depth: int = DEPTH_MAX) -> TraceResult:
        """Follow a memory, given by id or words, back to its causes."""
        return self._chain("causes", what, way=Direction.AGAINST, depth=depth)

    def effects(self, what: str, *, depth: int = DEPTH_MAX) -> TraceResult:
        """Follow a memory, given by id or words, to its effects."""
        return self._chain("effects", what, way=Direction.ALONG, depth=depth)

    def before(self, what: str, *, hours: float = HOURS_DEFAULT) -> TraceResult:
        """Return what preceded an outcome in words, a memory, or a time ("yesterday at 3pm")."""
        asked = _checked_query(what)
        _check(hours, "hours", low=0, high=_HOURS_MAX)
        at = find_instant(asked, self.services.clock.now())
        with self._snapshot() as tx:
            window = self._window(tx, hours=hours)
            if at is not None:
                return before_time(window, at, asked=asked)
            is_id = asked.startswith(_ID_MARK)
            those = [self._fetch(tx, asked)] if is_id else window.occurrences(asked)
            return find_precursors(window, episodes(tx, those), asked=asked)

    def patterns(self, outcome: str, *, hours: float = HOURS_DEFAULT) -> TraceResult:
        """Return what at least three occurrences of an outcome have in common."""
        asked = _checked_query(outcome)
        _check(hours, "hours", low=0, high=_HOURS_MAX)
        with self._snapshot() as tx:
            return patterns(self._window(tx, hours=hours), asked)

    def deepen(self, query: str, *, depth: int = DEEPEN_DEPTH) -> TraceResult:
        """Rank the root causes of up to five episodes that match a query."""
        asked = _checked_query(query)
        _check(depth, "depth", low=1, high=DEPTH_MAX)
        wanted = self._recalled(asked, limit=_TARGETS_MAX)
        with self._snapshot() as tx:
            targets = episodes(tx, list(seen(tx, self.caller, wanted=wanted).values()))
            if not targets:
                return TraceResult(op="deepen", asked=asked, limits=(_NOTHING,))
            walker = self._trail(tx, way=Direction.AGAINST, depth=depth)
            return find_roots(walker, targets, op="deepen", asked=asked)

    def dependents(self, id: str, *, depth: int = DEPTH_MAX) -> TraceResult:  # noqa: A002 the public name is id
        """Return the memories that would need review if a memory became invalid."""
        _check(depth, "depth", low=1, high=DEPTH_MAX)
        with self._snapshot() as tx:
            start = self._fetch(tx, id)
            walker = self._trail(tx, way=Direction.AGAINST, depth=depth, types=SUPPORTS)
            return dependents_of(walker, start, asked=id)

    def provenance(self, id: str) -> TraceResult:  # noqa: A002 the public name is id
        """Return the origin of a memory: sources, messages and thread."""
        with self._snapshot() as tx:
            start = self._fetch(tx, id)
            walker = self._trail(tx, way=Direction.AGAINST, depth=DEPTH_MAX)
            return provenance_of(walker, start, asked=id)

    def _chain(self, op: str, what: str, *, way: Direction, depth: int) -> TraceResult:
        asked = _checked_query(what)
        _check(depth, "depth", low=1, high=DEPTH_MAX)
        is_id = asked.startswith(_ID_MARK)
        wanted = [] if is_id else self._recalled(asked, limit=1)
        with self._snapshot() as tx:
            found = seen(tx, self.caller, wanted=wanted).values()
            starts = [self._fetch(tx, asked)] if is_id else list(found)
            if not starts:
                return TraceResult(op=op, asked=asked, limits=(_NOTHING,))
            return build_chain(self._trail(tx, way=way, depth=depth), starts[0], op=op, asked=asked)

    def _recalled(self, query: str, *, limit: int) -> list[int]:
        """Return what recall finds for a query, without counting accesses."""
        recall = Recall(self.services, self.caller)
        found = recall(query, kinds=list(_SEARCHED_KINDS), max_items=limit, bump=False)
        return [ids.parse(ids.MEMORY, item.id) for item in found.items]

    def _snapshot(self) -> AbstractContextManager[Transaction]:
        return self.services.store.snapshot(self.caller.tenant)

    def _fetch(self, tx: Transaction, id_: str) -> Memory:
        return fetch(tx, self.caller, id_=ids.parse(ids.MEMORY, id_))

    def _trail(
        self, tx: Transaction, *, way: Direction, depth: int, types: tuple[LinkType, ...] = CAUSAL
    ) -> ChainWalker:
        return ChainWalker(
            tx=tx,
            caller=self.caller,
            way=way,
            now=self.services.clock.now(),
            depth_max=depth,
            types=types,
            trust_min=TRUST_MIN_DEFAULT if types == CAUSAL else 0.0,
            searches_max=SEARCHES_MAX if types == CAUSAL else 0,
        )

    def _window(self, tx: Transaction, *, hours: float) -> OutcomeWindow:
        return OutcomeWindow(tx=tx, caller=self.caller, now=self.services.clock.now(), hours=hours)


def _checked_query(text: str) -> str:
    """Normalize a query.

    Raises:
        InvalidInputError: it is empty.
        RejectedError: `limit_exceeded`, it is too long.

    """
    plain = normalise(text)
    if not plain:
        raise InvalidInputError(
            "Nothing to trace.", hint="Give an id, or say in words what happened."
        )
    check_length(plain)
    return plain


def _check(given: float, what: str, *, low: float, high: float) -> None:
    if not low <= given <= high:
        raise RejectedError(
            f"{what} is {given:g}; {low:g} to {high:g} is allowed.",
            code="limit_exceeded",
            hint=f"Leave {what} out for its default.",
        )
