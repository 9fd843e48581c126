"""What a trace tells."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean
from typing import Final

from commonbrain.causality.traversal import Hop
from commonbrain.model import ids
from commonbrain.model.kinds import Kind, MessageDetail
from commonbrain.model.memory import Memory, State
from commonbrain.retrieval.provenance import FORGOTTEN

PRECURSORS_MAX: Final = 5
DELAYS_MIN: Final = 2
"""One delay is no average."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Precursor:
    """What came before an outcome, by its subject."""

    subject: str
    count: int
    """Before how many of the occurrences."""
    share: float
    minutes_before: float
    """On average, the nearest of each occurrence."""
    is_candidate: bool = False
    """Whether what it is known to lead to reads like the outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecursorsResult:
    """One memory that came before one occurrence."""

    subject: str
    minutes: float
    is_candidate: bool = False


def precursors(before: Sequence[Iterable[PrecursorsResult]]) -> tuple[Precursor, ...]:
    """Count what came before the occurrences, each subject once for each, the commonest first."""
    nearest: defaultdict[str, list[float]] = defaultdict(list)
    named: dict[str, str] = {}
    candidates: set[str] = set()
    for those in before:
        here: dict[str, float] = {}
        for one in those:
            folded = one.subject.casefold()
            named.setdefault(folded, one.subject)
            here[folded] = min(one.minutes, here.get(folded, one.minutes))
            if one.is_candidate:
                candidates.add(folded)
        for folded, minutes in here.items():
            nearest[folded].append(minutes)
    ranked = sorted(nearest, key=lambda name: (-len(nearest[name]), name))
    return tuple(
        Precursor(
            subject=named[name],
            count=len(nearest[name]),
            share=len(nearest[name]) / len(before),
            minutes_before=fmean(nearest[name]),
            is_candidate=name in candidates,
        )
        for name in ranked[:PRECURSORS_MAX]
    )


def average(delays: Iterable[float | None]) -> float | None:
    """Give the mean of the delays that are known; None when it would rest on one or none."""
    known = [delay for delay in delays if delay is not None]
    return fmean(known) if len(known) >= DELAYS_MIN else None


def peak_hour(times: Iterable[datetime]) -> tuple[int, int] | None:
    """Give the hour of the day (UTC) in which most fall, and how many; None when none stands out.

    Of hours that are equal none stands out.
    """
    hours: Mapping[int, int] = Counter(time.hour for time in times)
    ranked = sorted(hours.items(), key=lambda one: (-one[1], one[0]))
    if not ranked or ranked[0][1] < DELAYS_MIN:
        return None
    is_tied = len(ranked) > 1 and ranked[1][1] == ranked[0][1]
    return None if is_tied else ranked[0]


VIA_LEXICAL: Final = "by words"
"""How a step was found that no link leads to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceStep:
    """One memory of a trace; a deeper one belongs to the nearest above it in the list."""

    depth: int
    """0: what was asked about."""
    id: str
    kind: Kind
    headline: str
    via: str | None = None
    """The type of the link that leads here; `by words` where only the texts are alike."""
    strength: float | None = None
    observations: int | None = None
    score: float | None = None
    """The share of words that are alike, where nothing else leads here."""
    is_root: bool = False
    agent: str
    occurred_at: datetime
    state: State
    source_ref: str | None = None
    source_message: str | None = None
    thread: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """Where chains begin, and how many of what was asked about it explains."""

    id: str
    headline: str
    explains: int
    is_guess: bool = False
    """Whether only alike words lead to it somewhere on the way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """What occurrences of an outcome have in common; what is not known is None."""

    observations: int
    outcome_delay_s: float | None
    consequence_delay_s: float | None
    peak_hour: int | None
    """Of the day, in UTC."""
    peak_count: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceResult:
    """The answer to every kind of trace; each fills what it has."""

    op: str
    asked: str
    steps: tuple[TraceStep, ...] = ()
    roots: tuple[Root, ...] = ()
    precursors: tuple[Precursor, ...] = ()
    pattern: Pattern | None = None
    because: str | None = None
    gaps: tuple[str, ...] = ()
    """Where the chain is thin, step by step."""
    limits: tuple[str, ...] = ()
    """What the evidence as a whole cannot carry."""
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
    """Show a memory as a step, with the message it is from, if seen; of a forgotten one no word."""
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
        via=(link.type if link else VIA_LEXICAL) if hop else None,
        strength=link.strength if link else None,
        observations=link.observations if link else None,
        score=hop.score if hop else None,
        is_root=is_root,
        agent=memory.speaker or memory.agent,
        occurred_at=memory.occurred_at,
        state=memory.state,
        source_ref=None if is_forgotten else memory.source_ref,
        source_message=format_id(message.id) if message is not None else None,
        thread=ids.show(ids.THREAD, thread) if thread is not None else None,
    )


def format_id(id_: int) -> str:
    """Write the id of a memory as people see it."""
    return ids.show(ids.MEMORY, id_)


def pluralize(count: int, one: str, *, many: str) -> str:
    """Say how many there are of something."""
    return f"{count} {one if count == 1 else many}"


def to_roots(
    roots: Mapping[int, int], memories: Mapping[int, Memory], *, guessed: Collection[int]
) -> tuple[Root, ...]:
    """Show roots with how many targets each explains, in the order given."""
    return tuple(
        Root(
            id=format_id(id_),
            headline=step_of(memories[id_], depth=0).headline,
            explains=count,
            is_guess=id_ in guessed,
        )
        for id_, count in roots.items()
    )
