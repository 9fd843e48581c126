"""Patterns: what usually precedes an outcome, and what its occurrences have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from commonbrain.causality.actions import ActionKey, action_key
from commonbrain.causality.result import (
    Pattern,
    Precursor,
    PrecursorsResult,
    TraceResult,
    average,
    peak_hour,
    precursors,
    step_of,
)
from commonbrain.causality.traversal import (
    ALIKE_MIN,
    EPISODES_MIN,
    causes_of,
    covers_words,
    subject_of,
)
from commonbrain.model.escaping import pluralize
from commonbrain.model.kinds import AtomDetail, Kind, kinds_where
from commonbrain.model.memory import Memory
from commonbrain.model.query import Filter
from commonbrain.model.scope import Caller
from commonbrain.model.timestamps import show_instant
from commonbrain.retrieval.occurrences import Times, at_each_time, times_of
from commonbrain.retrieval.plan import search_terms
from commonbrain.retrieval.provenance import seen
from commonbrain.security.guard import note_shown
from commonbrain.storage.interface import QueryScope
from commonbrain.text.time_expressions.calendar import EARLIEST

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

OCCURRENCES_MAX: Final = 50
_WINDOW_MAX: Final = 20
"""Memories read before one occurrence, nearest first."""
_WINDOWS_MAX: Final = 20
"""Occurrences examined, latest first."""
_SHOWN_MAX: Final = 50
_INSTANT: Final = timedelta(milliseconds=1)
"""The shortest time between two different times."""
_OUTCOMES: Final = kinds_where(lambda policy: policy.is_outcome)
_EVENT_KINDS: Final = kinds_where(lambda policy: policy.reports_events)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    """What happened in a period, also again in the same words."""

    since: datetime
    until: datetime
    memory_ids: tuple[int, ...]

    def nearest(self, memories: Mapping[int, Memory], times: Times) -> Sequence[Memory]:
        """List the memories at their times within the period, latest first."""
        inside = [
            one
            for one in at_each_time(
                [memories[id_] for id_ in self.memory_ids if id_ in memories], times
            )
            if self.since <= one.occurred_at <= self.until
        ]
        latest = sorted(inside, key=lambda one: (one.occurred_at, one.id), reverse=True)
        return latest[:_WINDOW_MAX]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeWindow:
    """The period before an outcome, for one caller."""

    tx: Transaction
    caller: Caller
    now: datetime
    hours: float
    trust_min: float

    def occurrences(self, outcome: str) -> Sequence[Memory]:
        """Find occurrences of an outcome: memories whose outcome shares most of these words."""
        terms = search_terms(outcome)
        query_scope = self._query_scope(
            Filter(trust_min=self.trust_min, kinds=_OUTCOMES, project=self.caller.project)
        )
        hits = [hit.id for hit in self.tx.index.lexical(terms, query_scope, limit=OCCURRENCES_MAX)]
        memories = seen(self.tx, self.caller, memory_ids=hits).values()
        matching = [
            one
            for one in memories
            if covers_words(terms, search_terms(causes_of(one))) >= ALIKE_MIN
        ]
        return self.at_each_time(matching)

    def at_each_time(self, those: Sequence[Memory]) -> Sequence[Memory]:
        """Repeat events that came again in the same words for each time, earliest first."""
        dated = at_each_time(those, times_of(self.tx, those, until=self.now))
        return sorted(dated, key=lambda one: (one.occurred_at, one.id))

    def reports_of(self, key: ActionKey, *, label: str) -> Sequence[Memory]:
        """Find the reports with a key by the words of its label, each event once, best only."""
        criteria = Filter(trust_min=self.trust_min, kinds=_EVENT_KINDS, project=self.caller.project)
        terms = search_terms(label)
        hits = self.tx.index.lexical(terms, self._query_scope(criteria), limit=OCCURRENCES_MAX)
        memories = seen(self.tx, self.caller, memory_ids=[hit.id for hit in hits]).values()
        same = [one for one in memories if action_key(subject_of(one)) == key]
        return self.at_each_time(episodes(self.tx, same))

    def is_without(self, at: datetime, *, outcomes: Sequence[datetime]) -> bool:
        """Return whether no outcome followed within the window, which has passed."""
        window = timedelta(hours=self.hours)
        has_passed = self.now - at > window
        return has_passed and not any(timedelta() < one - at <= window for one in outcomes)

    def leading_to(self, those: Sequence[Memory]) -> Sequence[Sequence[Memory]]:
        """List what preceded each occurrence, nearest first."""
        return self._fetched([self._until(one.occurred_at, one.project) for one in those])

    def until(self, at: datetime, *, project: str | None) -> Sequence[Memory]:
        """List what preceded a time, nearest first."""
        [earlier] = self._fetched([self._until(at, project)])
        return earlier

    def _fetched(self, windows: Sequence[_Window]) -> Sequence[Sequence[Memory]]:
        memory_ids = dict.fromkeys(id_ for window in windows for id_ in window.memory_ids)
        memories = seen(self.tx, self.caller, memory_ids=list(memory_ids))
        times = times_of(self.tx, memories.values(), until=self.now)
        return [window.nearest(memories, times) for window in windows]

    def _until(self, at: datetime, project: str | None) -> _Window:
        # Nothing precedes the earliest representable time.
        since = at - min(timedelta(hours=self.hours), at - EARLIEST)
        until = max(at, EARLIEST + _INSTANT) - _INSTANT
        criteria = Filter(
            trust_min=self.trust_min, kinds=_EVENT_KINDS, project=project, since=since, until=until
        )
        scope = self._query_scope(criteria)
        newest = self.tx.memories.newest(scope, limit=_WINDOW_MAX)
        again = self.tx.memories.recurred(scope, limit=_WINDOW_MAX)
        memory_ids = dict.fromkeys(hit.id for hit in (*newest, *again))
        return _Window(since=since, until=until, memory_ids=tuple(memory_ids))

    def _query_scope(self, criteria: Filter) -> QueryScope:
        return QueryScope(caller=self.caller, filter=criteria, now=self.now)


def find_precursors(
    window: OutcomeWindow, those: Sequence[Memory], *, query: str, are_all: bool = True
) -> TraceResult:
    """Return what preceded each occurrence, and what usually does.

    Unless `are_all` occurrences are given, it is unknown how often a precursor came without one.
    """
    latest = those[-_WINDOWS_MAX:]
    leading = window.leading_to(latest)
    steps = [
        step
        for one, earlier in zip(latest, leading, strict=True)
        for step in [step_of(one, depth=0), *(step_of(other, depth=1) for other in earlier)]
    ]
    return TraceResult(
        op="before",
        asked=query,
        steps=tuple(steps[:_SHOWN_MAX]),
        precursors=_precursors(window, those, leading=leading, are_all=are_all),
        limits=(
            *_limits(those, is_empty=not any(leading), hours=window.hours),
            *_limit_notes(those),
        ),
        is_cut=len(steps) > _SHOWN_MAX or len(those) > len(latest) or any(map(_is_full, leading)),
    )


def before_time(window: OutcomeWindow, at: datetime, *, query: str) -> TraceResult:
    """Return what preceded a time, nearest first."""
    earlier = window.until(at, project=window.caller.project)
    line_ = f"Before {show_instant(at)}, {window.hours:g} hours; no outcome was given."
    nothing = () if earlier else (f"Nothing is recorded for the {window.hours:g} hours before.",)
    return TraceResult(
        op="before",
        asked=query,
        steps=tuple(step_of(one, depth=0) for one in earlier),
        limits=(line_, *nothing),
        is_cut=_is_full(earlier),
    )


def patterns(window: OutcomeWindow, outcome: str) -> TraceResult:
    """Return delays, precursors and the time of day, if there are enough occurrences."""
    occurrences = window.occurrences(outcome)
    details = [one.detail for one in occurrences if isinstance(one.detail, AtomDetail)]
    those = episodes(window.tx, occurrences)
    count = len(those)
    if count < EPISODES_MIN:
        line_ = pluralize(count, "observation", many="observations")
        line = f"{line_} of this outcome; a pattern needs at least {EPISODES_MIN}."
        return TraceResult(op="patterns", asked=outcome, limits=(line,))
    peak = peak_hour(one.occurred_at for one in those)
    latest = those[-_WINDOWS_MAX:]
    limits = ["Times and orders are counted; sequence does not prove a cause."]
    limits += [] if peak else ["No hour of the day stands out."]
    return TraceResult(
        op="patterns",
        asked=outcome,
        steps=tuple(step_of(one, depth=0) for one in those[:_SHOWN_MAX]),
        precursors=_precursors(window, those, leading=window.leading_to(latest)),
        pattern=Pattern(
            observations=count,
            outcome_delay_s=average(one.outcome_delay_s for one in details),
            consequence_delay_s=average(one.consequence_delay_s for one in details),
            peak_hour=peak[0] if peak else None,
            peak_count=peak[1] if peak else None,
        ),
        limits=(*limits, *_limit_notes(those)),
        is_cut=count > _SHOWN_MAX or count >= OCCURRENCES_MAX,
    )


def episodes(tx: Transaction, those: Sequence[Memory]) -> Sequence[Memory]:
    """Drop atoms whose source is in the list too, so that no event is counted twice."""
    here = {one.id for one in those}
    sources = {(one.from_id, one.to_id) for one in tx.graph.supports(sorted(here))}
    line_ = {from_id for from_id, to_id in sources if to_id in here}
    line_ |= {one.id for one in those if one.source_message_id in here}
    return [one for one in those if one.kind is not Kind.ATOM or one.id not in line_]


def _is_full(window: Sequence[Memory]) -> bool:
    return len(window) >= _WINDOW_MAX


def _precursors(
    window: OutcomeWindow,
    those: Sequence[Memory],
    *,
    leading: Sequence[Sequence[Memory]],
    are_all: bool = True,
) -> tuple[Precursor, ...]:
    """Group what led to the latest occurrences, and count how often it led to none."""
    latest = those[-_WINDOWS_MAX:]
    known = precursors(
        [_precursor_events(one, ones) for one, ones in zip(latest, leading, strict=True)]
    )
    note_shown(
        report.id for ones in leading for report in ones if action_key(subject_of(report)) in known
    )
    if not are_all:
        return tuple(known.values())
    outcomes = [one.occurred_at for one in those]
    return tuple(
        replace(
            one,
            without=sum(
                window.is_without(report.occurred_at, outcomes=outcomes)
                for report in window.reports_of(key, label=one.subject)
            ),
        )
        for key, one in known.items()
    )


def _limit_notes(those: Sequence[Memory]) -> tuple[str, ...]:
    """Note that not every occurrence was examined."""
    count = len(those)
    line = f"Precursors are counted for the latest {_WINDOWS_MAX} of {count} occurrences."
    return (line,) if count > _WINDOWS_MAX else ()


def _precursor_events(one: Memory, earlier: Sequence[Memory]) -> list[PrecursorsResult]:
    """Return the subjects of preceding memories, and whether each reads like a cause."""
    terms = search_terms(causes_of(one))
    return [
        PrecursorsResult(
            subject=subject_of(other),
            minutes=(one.occurred_at - other.occurred_at).total_seconds() / 60,
            is_candidate=isinstance(other.detail, AtomDetail)
            and covers_words(terms, search_terms(causes_of(other))) >= ALIKE_MIN,
        )
        for other in earlier
    ]


def _limits(those: Sequence[Memory], *, is_empty: bool, hours: float) -> tuple[str, ...]:
    if not those:
        return ("Depth 0: no memory records this outcome.",)
    lines = [f"Nothing is recorded for the {hours:g} hours before."] if is_empty else []
    if len(those) < EPISODES_MIN:
        some = pluralize(len(those), "occurrence", many="occurrences")
        lines.append(f"Only {some}; a pattern needs at least {EPISODES_MIN}.")
    return tuple(lines)
