"""The results of traces."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean, median
from typing import Final

from commonbrain.causality.actions import ActionKey, action_key, action_label
from commonbrain.causality.traversal import Hop
from commonbrain.model import ids
from commonbrain.model.kinds import Kind, MessageDetail
from commonbrain.model.memory import Memory, State
from commonbrain.model.messages import author_of
from commonbrain.retrieval.provenance import FORGOTTEN

PRECURSORS_MAX: Final = 5
DELAYS_MIN: Final = 2
"""An average needs at least two delays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Precursor:
    """What preceded an outcome: reports of the same subject and action."""

    subject: str
    """As written; parts that differ between its reports are shown as "…"."""
    count: int
    """The number of occurrences that it preceded."""
    share: float
    minutes_before: float
    """The median over occurrences of the nearest one."""
    minutes_min: float
    minutes_max: float
    is_candidate: bool = False
    """Whether its stated effect reads like the outcome."""
    without: int | None = None
    """How often it happened without the outcome within the window; None if that is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecursorsResult:
    """A memory that preceded an occurrence."""

    subject: str
    minutes: float
    is_candidate: bool = False


def precursors(before: Sequence[Iterable[PrecursorsResult]]) -> Mapping[ActionKey, Precursor]:
    """Count what preceded occurrences, each group once per occurrence, most frequent first.

    Reports of the same subject and action are one group, whatever their numbers and dates. The
    order of the reports does not matter. Labels are for readers; only the keys identify groups.
    """
    nearest: defaultdict[ActionKey, list[float]] = defaultdict(list)
    subjects: defaultdict[ActionKey, set[str]] = defaultdict(set)
    candidates: set[ActionKey] = set()
    for those in before:
        here: dict[ActionKey, float] = {}
        for one in those:
            key = action_key(one.subject)
            subjects[key].add(one.subject)
            here[key] = min(one.minutes, here.get(key, one.minutes))
            if one.is_candidate:
                candidates.add(key)
        for key, minutes in here.items():
            nearest[key].append(minutes)
    ranked = sorted(nearest, key=lambda key: (-len(nearest[key]), key))
    return {
        key: Precursor(
            subject=_name_of(subjects[key]),
            count=len(nearest[key]),
            share=len(nearest[key]) / len(before),
            minutes_before=median(nearest[key]),
            minutes_min=min(nearest[key]),
            minutes_max=max(nearest[key]),
            is_candidate=key in candidates,
        )
        for key in ranked[:PRECURSORS_MAX]
    }


def _name_of(subjects: Collection[str]) -> str:
    """Name a group by its one text, or by what its texts have in common."""
    first = min(subjects)
    is_one = len({subject.casefold() for subject in subjects}) == 1
    return first if is_one else min(map(action_label, subjects))


def average(delays: Iterable[float | None]) -> float | None:
    """Return the mean of the known delays; None for fewer than two."""
    known = [delay for delay in delays if delay is not None]
    return fmean(known) if len(known) >= DELAYS_MIN else None


def peak_hour(times: Iterable[datetime]) -> tuple[int, int] | None:
    """Return the hour of the day (UTC) with the most occurrences, and their number.

    None if two hours tie.
    """
    hours: Mapping[int, int] = Counter(time.hour for time in times)
    ranked = sorted(hours.items(), key=lambda one: (-one[1], one[0]))
    if not ranked or ranked[0][1] < DELAYS_MIN:
        return None
    is_tied = len(ranked) > 1 and ranked[1][1] == ranked[0][1]
    return None if is_tied else ranked[0]


VIA_NAME: Final = "by name"
"""The type of a step without a link."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceStep:
    """One memory of a trace; a deeper one belongs to the nearest shallower one above it."""

    depth: int
    """0 for the start."""
    id: str
    kind: Kind
    headline: str
    via: str | None = None
    """The type of the link that leads here; `by name` for a guess without a link."""
    strength: float | None = None
    observations: int | None = None
    score: float | None = None
    """The confidence of a guess, 0..1."""
    basis: str | None = None
    """What the link or the guess is based on."""
    is_root: bool = False
    agent: str
    occurred_at: datetime
    state: State
    source_ref: str | None = None
    source_message: str | None = None
    thread: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """A root cause, and how many of the targets it explains."""

    id: str
    headline: str
    explains: int
    is_guess: bool = False
    """Whether the chain to it contains a guessed step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """What the occurrences of an outcome have in common; None where unknown."""

    observations: int
    outcome_delay_s: float | None
    consequence_delay_s: float | None
    peak_hour: int | None
    """The hour of the day in UTC."""
    peak_count: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceResult:
    """The result of any trace; each operation fills its own fields."""

    op: str
    asked: str
    steps: tuple[TraceStep, ...] = ()
    roots: tuple[Root, ...] = ()
    precursors: tuple[Precursor, ...] = ()
    pattern: Pattern | None = None
    because: str | None = None
    changes: tuple[str, ...] = ()
    """Steps that a newer memory changed, with the calls that confirm and deny it."""
    gaps: tuple[str, ...] = ()
    """Weak steps of the chain."""
    limits: tuple[str, ...] = ()
    """Limits of the evidence as a whole."""
    is_cut: bool = False
    """Whether there is more than is shown."""


def step_of(
    memory: Memory,
    *,
    depth: int,
    hop: Hop | None = None,
    is_root: bool = False,
    message: Memory | None = None,
) -> TraceStep:
    """Convert a memory to a step, with its source message if visible; hides forgotten text."""
    is_forgotten = memory.state is State.FORGOTTEN
    link = hop.link if hop else None
    threads = (
        one.detail.thread_id
        for one in (memory, message)
        if one is not None and isinstance(one.detail, MessageDetail)
    )
    thread = next((one for one in threads if one is not None), None)
    return TraceStep(
        depth=depth,
        id=format_id(memory.id),
        kind=memory.kind,
        headline=FORGOTTEN if is_forgotten else memory.headline,
        via=(link.type if link else VIA_NAME) if hop else None,
        strength=link.strength if link else None,
        observations=link.observations if link else None,
        score=hop.score if hop else None,
        basis=(link.basis if link else hop.basis) if hop else None,
        is_root=is_root,
        agent=author_of(memory),
        occurred_at=memory.occurred_at,
        state=memory.state,
        source_ref=None if is_forgotten else memory.source_ref,
        source_message=format_id(message.id) if message is not None else None,
        thread=ids.show(ids.THREAD, thread) if thread is not None else None,
    )


def format_id(id_: int) -> str:
    """Format the id of a memory."""
    return ids.show(ids.MEMORY, id_)


def to_roots(
    roots: Mapping[int, int], memories: Mapping[int, Memory], *, guessed: Collection[int]
) -> tuple[Root, ...]:
    """Convert roots with the number of targets they explain, in order."""
    return tuple(
        Root(
            id=format_id(id_),
            headline=step_of(memories[id_], depth=0).headline,
            explains=count,
            is_guess=id_ in guessed,
        )
        for id_, count in roots.items()
    )
