"""The third stage of a recall: read everything that the store knows of the candidates.

Whatever is needed later is read here, in a few statements for all candidates at once: their rows,
links and the memories at the other ends, reviews, times, annotations and threads.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from commonbrain.invalidation.dependents import open_reviews, review_notes
from commonbrain.model.kinds import SUMMARY, Kind
from commonbrain.model.limits import EXPANSION_MAX
from commonbrain.model.links import DISAGREEMENTS, Link, LinkType, is_sure
from commonbrain.model.memory import Memory
from commonbrain.model.query import Filter, is_allowed
from commonbrain.model.recall_result import Order
from commonbrain.retrieval.conflicts import outdated_of
from commonbrain.retrieval.occurrences import at_latest, mentioned_times, times_of
from commonbrain.retrieval.plan import CHANGES, CLAIMS, TOGETHER
from commonbrain.retrieval.value_history import ChangeReader

if TYPE_CHECKING:
    from commonbrain.retrieval.table import Column, Table
    from commonbrain.storage.store import Transaction

LINKS: Final = "links"
SOURCE_TURNS: Final = "source_turns"
SEEDS_MAX: Final = 12
"""The best candidates, whose links bring others."""
_LINKS_MAX: Final = 200
"""Links read of these, strongest first; one memory may have thousands."""
_REACHED_MAX: Final = 24
"""Neighbours read, to find the few worth adding."""
_SOURCES_MAX: Final = 4
"""Sources read of one memory; one with more is a summary of them."""
RECENCY_HALF_LIFE: Final = timedelta(hours=168)
# A stated reason counts more than a similarity; a contradiction supports nothing.
TYPE_WEIGHTS: Final[Mapping[LinkType, float]] = {
    LinkType.DERIVED_FROM: 1.0,
    LinkType.DEPENDS_ON: 1.0,
    LinkType.SUPPORTS: 1.0,
    LinkType.CAUSES: 1.0,
    LinkType.CHANGES: 1.0,
    LinkType.ENABLES: 0.8,
    LinkType.ABOUT: 0.8,
    LinkType.PRECEDES: 0.6,
    LinkType.CORRELATES: 0.5,
    LinkType.RELATES_TO: 0.5,
}


def load(tx: Transaction, table: Table) -> None:
    """Read the candidates and what belongs to them, and add the best that their links lead to."""
    plan = table.plan
    fused = dict(zip(table.rows, table.columns["fused"].tolist(), strict=True))
    best = sorted(fused, key=fused.__getitem__, reverse=True)[:SEEDS_MAX]
    seeds = {id_: fused[id_] for id_ in best}
    table.links = _links(tx, table, seeds=seeds)
    pull = _pull(table, seeds=seeds)
    ends = sorted(pull.keys() - set(table.rows), key=lambda id_: (-pull[id_], -id_))[:_REACHED_MAX]
    table.known = known = tx.memories.get(list(dict.fromkeys([*table.rows, *ends])))
    places = [place for place, id_ in enumerate(table.rows) if id_ in known]
    if not places:
        table.rows, table.columns = [], {name: one[:0] for name, one in table.columns.items()}
        table.is_empty = not tx.memories.any(plan.wider_scope or plan.query_scope)
        return
    if len(places) < len(table.rows):
        # A memory without its body cannot be shown.
        table.rows = [table.rows[place] for place in places]
        table.columns = {name: one[places] for name, one in table.columns.items()}
    _add_linked(table, ends=[id_ for id_ in ends if id_ in known], pull=pull)
    table.memories = [known[id_] for id_ in table.rows]
    messages = [one for one in table.memories if one.kind is Kind.MESSAGE]
    table.speakers = {one.id: one.speaker.casefold() for one in messages if one.speaker}
    table.reviews = open_reviews(tx, table.rows, as_of=plan.filter.as_of or plan.now)
    table.review_notes = review_notes(tx, plan.caller, needs=table.reviews)
    if plan.filter.as_of:
        table.believed = tx.changes.believed(table.rows)
    else:
        table.outdated = outdated_of(
            tx,
            plan.caller,
            memories=[one for one in table.memories if one.id in table.reviews],
            reviews=table.reviews,
            now=plan.now,
        )
    _read_times(tx, table)
    _read_changes(tx, table)
    if plan.query and plan.period is None and not plan.filter.as_of:
        table.similarity = _similarity(tx, table)
    _read_sources(tx, table)
    table.annotations = tx.annotations.of(table.rows)
    threads = dict.fromkeys(memory.thread_id for memory in messages)
    distinct = [id_ for id_ in threads if id_ is not None]
    table.subjects = tx.threads.subjects(distinct, plan.caller, now=plan.now)


def recency(memory: Memory, now: datetime) -> float:
    """Return the recency of a memory, 0..1, halved for each week since it occurred."""
    return 2.0 ** -max((now - memory.occurred_at) / RECENCY_HALF_LIFE, 0.0)


def _links(tx: Transaction, table: Table, *, seeds: Mapping[int, float]) -> list[Link]:
    plan = table.plan
    if not (plan.query and plan.overrides.is_enabled(LINKS)):
        return []
    is_used = plan.overrides.is_enabled(CHANGES)
    return [
        link
        for link in tx.links.touching(list(seeds), limit=_LINKS_MAX)
        if link.trust.weight >= plan.filter.trust_min
        and (is_used or link.type is not LinkType.CHANGES)
    ]


def _pull(table: Table, *, seeds: Mapping[int, float]) -> Mapping[int, float]:
    """Return how much the links of the best candidates speak for each memory at their ends."""
    pull: dict[int, float] = {}
    for link in table.links:
        for seed, end in ((link.from_id, link.to_id), (link.to_id, link.from_id)):
            if seed in seeds:
                weight = link.strength * TYPE_WEIGHTS.get(link.type, 0.0)
                pull[end] = max(pull.get(end, 0.0), seeds[seed] * weight)
    return pull


def _add_linked(table: Table, *, ends: Sequence[int], pull: Mapping[int, float]) -> None:
    """Add the memories with the strongest links, favouring recent ones.

    A search in one field of atoms adds none.
    """
    import numpy as np  # noqa: PLC0415 replies are described without it

    plan = table.plan
    known, rows = table.known, table.rows
    worth = {
        id_: pull[id_] * recency(known[id_], plan.now)
        for id_ in ends
        if pull[id_] > 0
        and plan.filter.field is None
        and is_allowed(known[id_], plan.caller, criteria=plan.filter, now=plan.now)
    }
    limit = min(EXPANSION_MAX, plan.budget.max_items // 2)
    added = sorted(worth, key=lambda id_: (-worth[id_], -id_))[:limit]
    nothing = np.zeros(len(added))
    table.rows = [*rows, *added]
    table.columns = {
        **{name: np.concatenate([one, nothing]) for name, one in table.columns.items()},
        "linked": np.concatenate([np.zeros(len(rows)), [worth[id_] for id_ in added]]),
    }


def _similarity(tx: Transaction, table: Table) -> tuple[Mapping[int, int], Column] | None:
    """Return the cosines of candidates to each other, as far as they have vectors."""
    import numpy as np  # noqa: PLC0415 replies are described without it

    plan = table.plan
    compared = [id_ for id_ in table.rows if id_ in table.cosines]
    if len(compared) < 2 or not plan.overrides.is_enabled(TOGETHER):  # noqa: PLR2004 a pair
        return None
    places = {id_: place for place, id_ in enumerate(compared)}
    return places, np.asarray(tx.index.cosines(compared))


def _read_sources(tx: Transaction, table: Table) -> None:
    """Read what candidates were derived from, checked like a candidate.

    What was extracted always has sources, and so has an episode of a reflection; the links of the
    best are known.
    """
    plan, rows = table.plan, set(table.rows)
    links = [
        one for one in table.links if one.type is LinkType.DERIVED_FROM and one.from_id in rows
    ]
    linked = {link.from_id for link in links}
    unknown = [
        one.id
        for one in table.memories
        if one.id not in linked and one.source_message_id is None
        if one.auto_captured or one.label == SUMMARY
    ]
    if unknown:
        more = tx.links.touching(unknown, types=[LinkType.DERIVED_FROM], limit=_LINKS_MAX)
        links += [link for link in more if link.from_id in rows]
    derived: defaultdict[int, list[int]] = defaultdict(list)
    for link in links:
        derived[link.from_id].append(link.to_id)
    table.derived = {id_: frozenset(those) for id_, those in derived.items()}
    if plan.filter.as_of or not plan.overrides.is_enabled(SOURCE_TURNS):
        return
    sources: dict[int, Sequence[int]] = {}
    for memory in table.memories:
        own = [] if memory.source_message_id is None else [memory.source_message_id]
        if named := list(dict.fromkeys([*own, *derived.get(memory.id, ())]))[:_SOURCES_MAX]:
            sources[memory.id] = named
    unread = {id_ for those in sources.values() for id_ in those} - table.known.keys()
    known = {**table.known, **tx.memories.get(sorted(unread))}
    criteria = Filter(project=plan.filter.project, trust_min=plan.filter.trust_min)
    table.sources = {
        id_: [
            known[source]
            for source in those
            if source in known
            and is_allowed(known[source], plan.caller, criteria=criteria, now=plan.now)
        ]
        for id_, those in sources.items()
    }


def _read_changes(tx: Transaction, table: Table) -> None:
    """Read what surely changed candidates, and what the candidates surely changed."""
    plan = table.plan
    links = [link for link in table.links if link.type in DISAGREEMENTS]
    if not links or plan.filter.as_of is not None or not plan.overrides.is_enabled(CLAIMS):
        return
    reader = ChangeReader(
        tx=tx,
        caller=plan.caller,
        now=plan.now,
        criteria=Filter(project=plan.filter.project, trust_min=plan.filter.trust_min),
        known=table.known,
    )
    if plan.is_about_now and plan.period is None:
        changed = {link.to_id for link in links if is_sure(link)}
        table.changes = reader.successors([one for one in table.memories if one.id in changed])
    changing = {link.from_id for link in links} - table.changes.keys()
    newest = [one for one in table.memories if one.id in changing]
    table.histories = replace(reader, links=table.links).histories(newest)


def _read_times(tx: Transaction, table: Table) -> None:
    """Read when events came again, and what memories say of the time that the query names.

    An event that came again is at its latest time in the period that the query names, or else in
    that of the filter.
    """
    plan = table.plan
    if plan.has_period or plan.budget.order is Order.TIMELINE:
        table.times = times_of(tx, table.memories, until=plan.filter.as_of or plan.now)
        if table.times and plan.query:
            table.memories = [at_latest(plan, one, times=table.times) for one in table.memories]
    if plan.period is not None:
        table.mentioned = mentioned_times(table.memories, period=plan.period, coming=plan.coming)
