"""Patterns over occurrences of an outcome: delays, what came before, the hour of the day."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean
from typing import Final

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
class Before:
    """One memory that came before one occurrence."""

    subject: str
    minutes: float
    is_candidate: bool = False


def precursors(before: Sequence[Iterable[Before]]) -> tuple[Precursor, ...]:
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
