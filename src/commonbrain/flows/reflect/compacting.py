"""Compact: what is told of one question becomes one episode of its sentences, made at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from commonbrain.domain import ids
from commonbrain.domain.digest import digest
from commonbrain.domain.limits import COMPACT_SOURCES_MAX, COMPACT_TOKENS_MAX
from commonbrain.domain.memory import Memory
from commonbrain.domain.reflection import COMPACTED
from commonbrain.domain.scope import Caller
from commonbrain.domain.tokens import estimate
from commonbrain.flows.house import House
from commonbrain.flows.recall.pipeline import Recall
from commonbrain.flows.reflect.drafting import drafts, told_by
from commonbrain.flows.reflect.gathering import RAW, Wanted, class_of
from commonbrain.flows.remember.pipeline import Course, Remember

_SOURCES_MIN: Final = 2
"""One memory is as short as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """An episode of what was found, or what it would be; without a body there is none."""

    id: str | None = None
    status: str | None = None
    """What became of it, as `remember` says it; None of a preview."""
    headline: str = ""
    body: str = ""
    sources: tuple[str, ...] = ()
    reduction_ratio: float = 0.0
    """The share of the tokens of its sources that it does without, 0..1."""
    warnings: tuple[str, ...] = ()


def compact(
    house: House, caller: Caller, *, query: str, wanted: Wanted, is_preview: bool
) -> Compacted:
    """Sum up what a recall of events and messages finds, as far as most of it may stand together.

    Of two classes of as many memories it is the one with the best.
    """
    found = Recall(house, caller)(
        query,
        kinds=tuple(sorted(RAW)),
        project=wanted.project,
        max_items=COMPACT_SOURCES_MAX,
        max_tokens=COMPACT_TOKENS_MAX,
        bump=False,
    )
    with house.store.snapshot(caller.tenant) as tx:
        best = [ids.parse(ids.MEMORY, one.id) for one in found.items]
        known = tx.memories.get(best)
    # The store gives them in an order of its own, recall the best first.
    seen = [known[id_] for id_ in best if id_ in known and wanted.takes(known[id_])]
    [(most, _)] = Counter(map(class_of, seen)).most_common(1) or [((), 0)]
    alike = [one for one in seen if class_of(one) == most]
    whole = list(_within(alike))
    warnings = [*found.degraded, *_warnings(found=len(known), alike=len(alike), whole=len(whole))]
    sources = sorted(whole, key=lambda one: (one.occurred_at, one.id))
    told = digest(told_by(sources))
    if len(sources) < _SOURCES_MIN or not told.points:
        return Compacted(warnings=(*warnings, "There is too little to be summed up."))
    episode = replace(drafts(told, of=sources, caller=caller).episode, label=COMPACTED)
    kept = None
    if not is_preview:
        [kept] = Remember(house, caller).write([episode], Course(is_deed=False)).items
        warnings += [*kept.warnings, *([kept.reason] if kept.reason else [])]
    return Compacted(
        id=kept.id if kept else None,
        status=kept.status if kept else None,
        headline=episode.headline or "",
        body=episode.body,
        sources=tuple(ids.show(ids.MEMORY, one.id) for one in sources),
        reduction_ratio=_saved(episode.body, sources),
        warnings=tuple(warnings),
    )


def _within(memories: Sequence[Memory]) -> Iterator[Memory]:
    """Give the best of them, as many as may be read whole."""
    left = COMPACT_TOKENS_MAX
    for one in memories:
        left -= estimate(one.text)
        if left < 0:
            return
        yield one


def _warnings(*, found: int, alike: int, whole: int) -> Iterator[str]:
    if alike < found:
        yield f"{found - alike} are of another project, scope or trust, and left out."
    if whole < alike:
        yield f"{alike - whole} are past {COMPACT_TOKENS_MAX:,} tokens, and left out."


def _saved(body: str, sources: Sequence[Memory]) -> float:
    return round(max(1 - estimate(body) / sum(estimate(one.text) for one in sources), 0.0), 4)
