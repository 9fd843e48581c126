"""Clusters: which of many memories tell of one thing, by what they say and when they say it.

Each memory in its turn joins the cluster that it is most like, or begins one. Whatever cluster is
taken away whole, the others come out the same: what was kept before an interruption changes none
of what is still to be kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from commonbrain.model.limits import SOURCES_MAX

CLUSTER_MIN: Final = 3
"""Fewer memories need nobody to sum them up."""
_GAP: Final = timedelta(hours=6)
"""Half a working day without a word ends what was told of."""
_TOGETHER: Final = 0.12
"""How much nearer to each other memories of one session are than their words are.

Half of what tells an answer from a stranger in the default space, where that begins at 0.21.
"""
_RECENT: Final = 8
"""The latest members of a cluster that a new one is held against: a talk moves on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """When a memory occurred, and what it was told in: a session or a thread."""

    at: datetime
    within: str | None = None


def clusters(
    occurrences: Sequence[Occurrence], cosines: Sequence[Sequence[float]], *, alike_at: float
) -> list[list[int]]:
    """Put memories together, oldest first; give the places of each cluster in their order.

    No cluster has more members than a memory may have sources, none fewer than three: what was
    left over of one session is put together, and what is then still alone is in none.

    Args:
        occurrences: of the memories, by their time.
        cosines: of every two of them.
        alike_at: how like its latest members a memory must be on average to join a cluster.

    """
    found: list[list[int]] = []
    for place, occurrence in enumerate(occurrences):
        best, at = None, alike_at
        for cluster in found:
            if len(cluster) < SOURCES_MAX and occurrence.at - occurrences[cluster[-1]].at <= _GAP:
                near = _nearness(place, cluster, occurrences=occurrences, cosines=cosines)
                if near >= at:
                    best, at = cluster, near
        if best is None:
            found.append([place])
        else:
            best.append(place)
    whole = [one for one in found if len(one) >= CLUSTER_MIN]
    left = [place for one in found if len(one) < CLUSTER_MIN for place in one]
    return sorted([*whole, *_by_session(sorted(left), occurrences)])


def _nearness(
    place: int,
    cluster: Sequence[int],
    *,
    occurrences: Sequence[Occurrence],
    cosines: Sequence[Sequence[float]],
) -> float:
    """Say how like a cluster's latest members a memory is on average."""
    recent = cluster[-_RECENT:]
    within = occurrences[place].within
    shared = sum(within is not None and within == occurrences[one].within for one in recent)
    near = sum(cosines[place][one] for one in recent)
    return (near + _TOGETHER * shared) / len(recent)


def _by_session(places: Sequence[int], occurrences: Sequence[Occurrence]) -> list[list[int]]:
    """Put together what was told in one session, as long as no half day lies between."""
    runs: defaultdict[str, list[list[int]]] = defaultdict(list)
    for place in places:
        within = occurrences[place].within
        if within is None:
            continue
        last = runs[within][-1] if runs[within] else []
        is_near = last and occurrences[place].at - occurrences[last[-1]].at <= _GAP
        if is_near and len(last) < SOURCES_MAX:
            last.append(place)
        else:
            runs[within].append([place])
    return [run for all_ in runs.values() for run in all_ if len(run) >= CLUSTER_MIN]
