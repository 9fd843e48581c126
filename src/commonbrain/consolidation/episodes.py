"""Episodes: group memories, and draft an episode and facts from each group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.model.kinds import (
    COMPACTED,
    SUMMARY,
    EpisodeDetail,
    EventDetail,
    Kind,
    MessageDetail,
    kinds_where,
)
from commonbrain.model.limits import REFLECT_PAGE, SOURCES_MAX
from commonbrain.model.links import LinkType
from commonbrain.model.memory import Draft, Memory, State, confidence
from commonbrain.model.scope import Caller, Role, Scope, is_visible, isolates
from commonbrain.text.headlines import shorten_to_headline
from commonbrain.text.normalisation import normalise_line
from commonbrain.text.summaries import Point, Reflection, SourceText, body_of
from commonbrain.text.tokens import estimate

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

CLUSTER_MIN: Final = 3
"""Fewer memories are not summarized."""
CLUSTER_TOKENS_MIN: Final = 300
"""A subject or session with less text shares an episode with the rest of its day.

A third of it has room for about five clauses below the headline.
"""
SUMMARY_TOKENS_MIN: Final = 90
"""Less text has no room for a headline and one clause in a third of it."""
_GAP: Final = timedelta(hours=6)
"""A pause of half a working day ends an episode."""
_TOGETHER: Final = 0.12
"""Cosine added for two memories of the same session: about half the relevance threshold (0.21)."""
_RECENT: Final = 8
"""Latest members of a cluster that a new memory is compared with, because topics shift."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """When a memory occurred, and in which session or thread."""

    at: datetime
    within: str | None = None
    tokens: int = CLUSTER_TOKENS_MIN
    """Of its text."""


def clusters(
    occurrences: Sequence[Occurrence], cosines: Sequence[Sequence[float]], *, alike_at: float
) -> list[list[int]]:
    """Group similar memories, oldest first; return the positions of each group in order.

    A group has at most as many members as a memory may have sources, at least three, and enough
    text for a summary. Memories that are left over form groups by session, then by stretch of time;
    single ones belong to none. Removing a whole group leaves the others unchanged, so that an
    interrupted run continues the same way.

    Args:
        occurrences: of the memories, by time.
        cosines: of every pair of them.
        alike_at: average cosine with the latest members from which a memory joins a group.

    """
    groups: list[list[int]] = []
    for place, occurrence in enumerate(occurrences):
        best, at = None, alike_at
        for cluster in groups:
            if len(cluster) < SOURCES_MAX and occurrence.at - occurrences[cluster[-1]].at <= _GAP:
                near = _nearness(place, cluster, occurrences=occurrences, cosines=cosines)
                if near >= at:
                    best, at = cluster, near
        if best is None:
            groups.append([place])
        else:
            best.append(place)
    whole = [one for one in groups if _is_enough(one, occurrences)]
    left = sorted(set(range(len(occurrences))) - {place for one in whole for place in one})
    of_session = [
        run
        for run in _runs(left, occurrences, key=lambda one: one.within)
        if _is_enough(run, occurrences)
    ]
    alone = sorted(set(left) - {place for one in of_session for place in one})
    rest = _runs(alone, occurrences, key=lambda _: "")
    short = [run for run in rest if _is_enough(run, occurrences, tokens_min=SUMMARY_TOKENS_MIN)]
    return sorted([*whole, *of_session, *short])


def _is_enough(
    places: Sequence[int],
    occurrences: Sequence[Occurrence],
    *,
    tokens_min: int = CLUSTER_TOKENS_MIN,
) -> bool:
    """Return whether a group has enough members and text."""
    tokens = sum(occurrences[place].tokens for place in places)
    return len(places) >= CLUSTER_MIN and tokens >= tokens_min


def _nearness(
    place: int,
    cluster: Sequence[int],
    *,
    occurrences: Sequence[Occurrence],
    cosines: Sequence[Sequence[float]],
) -> float:
    """Return the average cosine of a memory and the latest members of a cluster."""
    recent = cluster[-_RECENT:]
    within = occurrences[place].within
    shared = sum(within is not None and within == occurrences[one].within for one in recent)
    near = sum(cosines[place][one] for one in recent)
    return (near + _TOGETHER * shared) / len(recent)


def _runs(
    places: Sequence[int],
    occurrences: Sequence[Occurrence],
    *,
    key: Callable[[Occurrence], str | None],
) -> list[list[int]]:
    """Group memories with the same key without a long pause between them."""
    runs: defaultdict[str, list[list[int]]] = defaultdict(list)
    for place in places:
        of = key(occurrences[place])
        if of is None:
            continue
        last = runs[of][-1] if runs[of] else []
        is_near = last and occurrences[place].at - occurrences[last[-1]].at <= _GAP
        if is_near and len(last) < SOURCES_MAX:
            last.append(place)
        else:
            runs[of].append([place])
    return [run for all_ in runs.values() for run in all_]


_ROLES = frozenset({"assistant", "system", "tool", "user"})
"""Speaker names that are not people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafts:
    """An episode, and the facts and rules proposed with it."""

    sources: tuple[Memory, ...]
    episode: Draft
    facts: tuple[Draft, ...]


def to_reflection_inputs(sources: Sequence[Memory]) -> list[SourceText]:
    """Convert memories to the input of a summary."""
    return [
        SourceText(
            text=one.text,
            speaker=_speaker(one),
            weight=min(one.salience + _RECURRENCE * _recurrences(one), 1.0),
            at=one.occurred_at,
            author=_name(one.agent),
        )
        for one in sources
    ]


_RECURRENCE: Final = 0.1
_RECURRENCES_MAX: Final = 3
"""What each recurrence of an event adds to its salience, and how many count."""


def _recurrences(memory: Memory) -> int:
    detail = memory.detail
    return min(detail.recurrences, _RECURRENCES_MAX) if isinstance(detail, EventDetail) else 0


def drafts(reflection: Reflection, *, of: Sequence[Memory], caller: Caller) -> Drafts:
    """Draft memories from a summary; trust and scope follow from its sources."""
    return Drafts(
        sources=tuple(of),
        episode=_episode(reflection, of=of, caller=caller),
        facts=tuple(_facts(reflection.claims, of=of, caller=caller)),
    )


def _episode(reflection: Reflection, *, of: Sequence[Memory], caller: Caller) -> Draft:
    body = body_of(reflection.points)
    return Draft(
        body=body,
        headline=shorten_to_headline(normalise_line(reflection.headline) or body),
        kind=Kind.EPISODE,
        label=SUMMARY,
        project=of[0].project,
        scope=_scope(of[0], caller),
        trust=of[0].trust,
        confidence=_confidence(of, text=body, kind=Kind.EPISODE),
        occurred_at=max(one.occurred_at for one in of),
        auto_captured=True,
        detail=EpisodeDetail(
            started_at=min(one.occurred_at for one in of),
            ended_at=max(one.occurred_at for one in of),
        ),
        derived_from=tuple(one.id for one in of),
    )


def _facts(claims: Sequence[Point], *, of: Sequence[Memory], caller: Caller) -> Iterator[Draft]:
    for claim in claims:
        sources = [of[place] for place in claim.of]
        yield Draft(
            body=claim.text,
            kind=Kind.FACT,
            label=SUMMARY,
            project=sources[0].project,
            scope=_scope(sources[0], caller),
            trust=sources[0].trust,
            confidence=_confidence(sources, text=claim.text, kind=Kind.FACT),
            source_ref=next((one.source_ref for one in sources if one.source_ref), None),
            occurred_at=max(one.occurred_at for one in sources),
            auto_captured=True,
            is_candidate=True,
            derived_from=tuple(one.id for one in sources),
        )


def _confidence(sources: Sequence[Memory], *, text: str, kind: Kind) -> float:
    """Limit confidence to the sources' average and to what the text supports."""
    is_sourced = any(one.source_ref for one in sources)
    own = confidence(kind, text, trust=sources[0].trust, is_sourced=is_sourced)
    return round(min(own, sum(one.confidence for one in sources) / len(sources)), 4)


def _scope(source: Memory, caller: Caller) -> Scope:
    # Global memories were written by an admin; a reader may share them with the team.
    is_beyond = source.scope is Scope.GLOBAL and caller.role is not Role.ADMIN
    return Scope.TEAM if is_beyond else source.scope


def _speaker(memory: Memory) -> str | None:
    """Return the speaker of a message, or the agent of an event."""
    match memory.detail:
        case MessageDetail():
            name = memory.speaker
        case EventDetail(actor=actor):
            name = actor
        case _:
            name = None
    return _name(name)


def _name(name: str | None) -> str | None:
    return None if name is None or name.casefold() in _ROLES else name


RAW_KINDS: Final = kinds_where(lambda policy: policy.is_reflected)
"""Kinds that report single events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPage:
    """A page of memories, grouped, and where to continue."""

    clusters: tuple[tuple[Memory, ...], ...]
    """Each group in order of occurrence."""
    read: int
    """The number of memories that report events."""
    last: int | None
    """The last id read; None at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFilter:
    """The caller, project and time of a summary."""

    caller: Caller
    project: str | None
    now: datetime
    space: EmbeddingSpace

    def accepts(self, memory: Memory) -> bool:
        """Return whether a memory may be a source.

        Private memories are sources for their author only. Memories with more trust than the caller
        may claim are left to callers who may, because the episode would lose that trust.
        """
        caller = self.caller
        is_own = memory.scope is not Scope.PRIVATE or memory.agent == caller.agent
        is_claimed = memory.trust.weight <= caller.trust_ceiling.weight
        is_here = not (self.project and isolates(self.project, memory.project))
        holds = memory.state is State.ACTIVE and not memory.is_over(self.now)
        is_raw = memory.kind in RAW_KINDS and holds and is_visible(caller, memory)
        return is_raw and is_own and is_claimed and is_here


def gather_events(
    tx: Transaction, source_filter: SourceFilter, *, after: int, until: int
) -> EventPage:
    """Read the next page of a range of ids, and group related memories.

    Memories that already have an episode are skipped, so repeating a run continues it.
    """
    there = tx.memories.page(after=after, limit=REFLECT_PAGE)
    listed = [id_ for id_ in there if id_ <= until]
    raw = [one for one in tx.memories.get(listed).values() if source_filter.accepts(one)]
    known = already_summarized(tx, [one.id for one in raw])
    fresh = sorted(
        (one for one in raw if one.id not in known), key=lambda one: (one.occurred_at, one.id)
    )
    return EventPage(
        clusters=tuple(_clusters(tx, fresh, alike_at=source_filter.space.relevance_threshold)),
        read=len(raw),
        last=listed[-1] if len(listed) == REFLECT_PAGE else None,
    )


def already_summarized(
    tx: Transaction, ids: Sequence[int], *, exclude_ids: Collection[int] = ()
) -> Collection[int]:
    """Return the memories that have another episode, in whatever state.

    Summaries of a question do not count, because reflection also proposes facts.
    """
    source_filter = set(ids)
    links = tx.links.touching(ids, types=[LinkType.DERIVED_FROM]) if ids else []
    made = [one for one in links if one.to_id in source_filter and one.from_id not in exclude_ids]
    known = tx.memories.get([one.from_id for one in made])
    episodes = {
        id_ for id_, one in known.items() if one.kind is Kind.EPISODE and one.label != COMPACTED
    }
    return {one.to_id for one in made if one.from_id in episodes}


def _clusters(
    tx: Transaction, memories: Sequence[Memory], *, alike_at: float
) -> list[tuple[Memory, ...]]:
    """Group similar memories among those that may share an episode."""
    classes: defaultdict[tuple[object, ...], list[Memory]] = defaultdict(list)
    for one in memories:
        classes[compatibility_key(one)].append(one)
    groups: list[tuple[Memory, ...]] = []
    for those in classes.values():
        places = [
            Occurrence(at=one.occurred_at, within=_within(one), tokens=estimate(one.text))
            for one in those
        ]
        cosines = tx.index.cosines([one.id for one in those])
        groups += [
            tuple(those[place] for place in cluster)
            for cluster in clusters(places, cosines, alike_at=alike_at)
        ]
    return groups


def compatibility_key(memory: Memory) -> tuple[object, ...]:
    """Return what all sources of an episode must share, so that none limits another.

    Lower trust would lower the trust of the rest, and a private memory would hide them.
    """
    author = memory.agent if memory.scope is Scope.PRIVATE else None
    return memory.project, memory.scope, memory.trust, author, memory.audience if author else ()


def _within(memory: Memory) -> str | None:
    """Return the thread of a memory, or else its session."""
    detail = memory.detail
    if isinstance(detail, MessageDetail) and detail.thread_id is not None:
        return f"thread:{detail.thread_id}"
    return f"session:{memory.agent}:{memory.session}" if memory.session else None
