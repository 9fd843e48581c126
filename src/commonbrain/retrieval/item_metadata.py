"""Recalled memories as items, with their thread or episode, reasons, notes and conflicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from commonbrain.invalidation.reviews import review_notes
from commonbrain.model import ids
from commonbrain.model.escaping import inert_line
from commonbrain.model.kinds import KINDS, CausalField, Kind, MessageDetail
from commonbrain.model.limits import ANNOTATIONS_MAX
from commonbrain.model.links import (
    CONFLICTS_MAX,
    DISAGREEMENTS,
    Conflict,
    Link,
    LinkType,
    basis_of,
    conflict_of,
    conflict_with_source,
)
from commonbrain.model.memory import CURRENT_STATES, Memory, State, doubted
from commonbrain.model.query import FIELD, Candidate, Filter, is_allowed
from commonbrain.model.recall_result import Item
from commonbrain.model.scope import Caller
from commonbrain.model.skills import skill_of
from commonbrain.model.support import InvalidationReason, Review
from commonbrain.retrieval.fusion import LinkExpansion
from commonbrain.retrieval.query_plan import CLAIMS, QueryPlan
from commonbrain.retrieval.retrievers import RETRIEVERS
from commonbrain.retrieval.same_matter import EARLIER
from commonbrain.retrieval.source_turns import source_turns
from commonbrain.retrieval.value_history import ChangeReader
from commonbrain.storage.change_log import successors
from commonbrain.storage.interface import Annotation
from commonbrain.text.repetition import repeats_old_value
from commonbrain.text.time_expressions.mentions import notes_in

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

_REASON_AT: Final = 0.5
"""A feature from this value on is named as a reason, 0..1."""
_CONTEXT_GAIN_MIN: Final = 0.1
"""How much better its passage must match than the message itself to be named as a reason."""
_REASONS: Final = {
    **{name: one.reason for name, one in RETRIEVERS.items() if one.reason is not None},
    "date": "time",
    "speaker": "speaker",
    "same_project": "same project",
}
_FIELD_REASONS: Final = tuple(f"{FIELD}{field}" for field in CausalField)
DEPRECATED: Final = "DEPRECATED"
"""Marks a superseded rule."""
_NOTE_CHARS_MAX: Final = 120
"""Characters shown of an annotation; get shows all of it."""
_CONTEXT_CHARS_MAX: Final = 60
"""Characters shown of a thread's subject, which every item of the thread repeats."""


def attach_metadata(
    tx: Transaction,
    plan: QueryPlan,
    *,
    ranked: Sequence[Candidate],
    graph: LinkExpansion,
    reviews: Mapping[int, Sequence[Review]],
) -> list[Candidate]:
    """Add context, notes, history and source to the candidates that may become items."""
    near, rest = ranked[: 2 * plan.budget.max_items], ranked[2 * plan.budget.max_items :]
    annotations = tx.annotations.of([candidate.memory.id for candidate in near])
    close = {one.memory.id for one in near}
    review_notes_by_id = review_notes(
        tx, plan.caller, needs={id_: reviews[id_] for id_ in reviews if id_ in close}
    )
    episodes = dict(_episodes(plan, graph))
    contexts = _contexts(tx, plan, near=near, episodes=episodes)
    histories = _histories(tx, plan, near=near, graph=graph)
    turns = source_turns(tx, plan, near=near, graph=graph)
    results: list[Candidate] = []
    for one in near:
        id_ = one.memory.id
        lines = tuple(
            _notes(
                one,
                plan,
                annotations=annotations.get(id_, ()),
                review_note=review_notes_by_id.get(id_),
            )
        )
        context, context_id = contexts.get(id_, (None, None))
        earlier, source = histories.get(id_), turns.get(id_)
        # Most candidates have none; they are not copied.
        if context is None and earlier is None and source is None and not lines:
            results.append(one)
            continue
        results.append(
            replace(
                one,
                context=context,
                context_id=context_id,
                notes=lines,
                earlier=earlier,
                source=source,
            )
        )
    return [*results, *rest]


def _notes(
    candidate: Candidate,
    plan: QueryPlan,
    *,
    annotations: Sequence[Annotation],
    review_note: str | None,
) -> Iterator[str]:
    memory = candidate.memory
    yield from candidate.notes
    yield from notes_in(memory.topics)
    if candidate.features.get("skill") and (skill := skill_of(memory)):
        yield f"skill:{skill.name}"
    if memory.state is State.SUPERSEDED and KINDS[memory.kind].is_binding:
        yield DEPRECATED
    if memory.state not in CURRENT_STATES:
        yield f"{memory.state}"
    if candidate.features.get("contradicted") and not candidate.features.get(EARLIER):
        yield "contradicted"
    if review_note is not None:
        yield review_note
    trusted = [one for one in annotations if one.trust.weight >= plan.filter.trust_min]
    for one in trusted[-ANNOTATIONS_MAX:]:
        yield f"noted by {one.agent} ({one.trust}): {_truncate(one.text, _NOTE_CHARS_MAX)}"


def _histories(
    tx: Transaction, plan: QueryPlan, *, near: Sequence[Candidate], graph: LinkExpansion
) -> Mapping[int, str]:
    """Describe what candidates said before, as far as the links that were read anyway say it."""
    is_about_now = plan.filter.as_of is None and plan.overrides.is_enabled(CLAIMS)
    changing = {link.from_id for link in graph.links if link.type in DISAGREEMENTS}
    newest = [
        one.memory for one in near if one.memory.id in changing and not one.features.get(EARLIER)
    ]
    if not (is_about_now and newest):
        return {}
    criteria = Filter(project=plan.filter.project, trust_min=plan.filter.trust_min)
    reader = ChangeReader(
        tx=tx,
        caller=plan.caller,
        now=plan.now,
        criteria=criteria,
        known={**graph.ends, **{one.memory.id: one.memory for one in near}},
        links=graph.links,
    )
    return reader.histories(newest)


def _contexts(
    tx: Transaction,
    plan: QueryPlan,
    *,
    near: Sequence[Candidate],
    episodes: Mapping[int, Memory],
) -> Mapping[int, tuple[str, int]]:
    """Return the subject of the thread, the section or the episode of memories, with its source."""
    threads: dict[int, int] = {}
    for candidate in near:
        detail = candidate.memory.detail
        if isinstance(detail, MessageDetail) and detail.thread_id is not None:
            threads[candidate.memory.id] = detail.thread_id
    distinct = list(dict.fromkeys(threads.values()))
    subjects = tx.threads.subjects(distinct, plan.caller, now=plan.now)
    texts = {id_: (one.headline, one.id) for id_, one in episodes.items()} | {
        one.memory.id: (one.memory.section, one.memory.id) for one in near if one.memory.section
    }
    texts |= {
        id_: (subject.text, subject.message_id)
        for id_, thread in threads.items()
        if (subject := subjects.get(thread)) is not None
    }
    return {id_: (_truncate(text, _CONTEXT_CHARS_MAX), of) for id_, (text, of) in texts.items()}


def _episodes(plan: QueryPlan, graph: LinkExpansion) -> Iterator[tuple[int, Memory]]:
    for link in graph.links:
        episode = graph.ends.get(link.from_id)
        if link.type is not LinkType.DERIVED_FROM or episode is None:
            continue
        if episode.kind is Kind.EPISODE and is_allowed(
            episode, plan.caller, criteria=Filter(trust_min=plan.filter.trust_min), now=plan.now
        ):
            yield link.to_id, episode


def _truncate(text: str, chars_max: int) -> str:
    line = inert_line(text)
    return line if len(line) <= chars_max else f"{line[: chars_max - 1]}…"


def is_matching_skill(candidate: Candidate) -> bool:
    """Return whether it is a skill that the query names."""
    return bool(candidate.features.get("skill"))


def to_item(candidate: Candidate) -> Item:
    """Convert a candidate to a complete item, with the reasons for its rank."""
    memory = candidate.memory
    return Item(
        id=ids.show(ids.MEMORY, memory.id),
        kind=memory.kind,
        headline=memory.headline,
        body=memory.body,
        score=round(min(candidate.score, 1.0), 4),
        why=tuple(_reasons(candidate)),
        label=memory.label,
        project=memory.project,
        scope=memory.scope,
        agent=memory.speaker or memory.agent,
        trust=memory.trust,
        confidence=doubted(memory.confidence, candidate.features),
        source_ref=memory.source_ref,
        occurred_at=memory.occurred_at,
        recorded_at=memory.recorded_at,
        superseded_count=memory.superseded_count,
        salience=memory.salience,
        rating=memory.rating,
        tags=memory.tags,
        context=candidate.context,
        notes=candidate.notes,
    )


def _reasons(candidate: Candidate) -> Iterator[str]:
    features = candidate.features
    if is_matching_skill(candidate) and (skill := skill_of(candidate.memory)):
        yield f"skill:{skill.name}"
    yield from [name for name in _FIELD_REASONS if name in features]
    for name, reason in _REASONS.items():
        if features.get(name, 0.0) >= _REASON_AT:
            yield reason
    own, context = features.get("self_score", 0.0), features.get("context_score", 0.0)
    if own < _REASON_AT and own + _CONTEXT_GAIN_MIN <= context:
        yield "passage"
    if candidate.features.get("linked"):
        yield "linked"


_LINKS_MAX = 50
"""Conflict links followed of one memory, strongest first."""


def find_conflicts(
    tx: Transaction,
    caller: Caller,
    *,
    memories: Sequence[Memory],
    reviews: Mapping[int, Sequence[Review]],
    now: datetime,
) -> Mapping[int, tuple[Conflict, ...]]:
    """Map memories to the current ones that disagree with them and that the caller may see.

    `reviews` are their open ones. Memories without a conflict are absent.
    """

    def holds(one: Memory) -> bool:
        return is_allowed(one, caller, criteria=Filter(trust_min=0.0), now=now)

    current = {one.id: one for one in memories if holds(one)}
    ends: dict[int, dict[int, Link]] = {id_: {} for id_ in current}
    for link in tx.links.touching(list(current), types=DISAGREEMENTS):
        for one, other in ((link.from_id, link.to_id), (link.to_id, link.from_id)):
            if one in ends and (other in ends[one] or len(ends[one]) < _LINKS_MAX):
                ends[one][other] = link
    others = tx.memories.get(list({other for linked in ends.values() for other in linked}))
    conflicts: dict[int, tuple[Conflict, ...]] = {}
    for id_, memory in current.items():
        linked = [
            conflict_of(memory, others[other], basis=basis_of(link))
            for other, link in ends[id_].items()
            if holds(others[other])
        ]
        stale = outdated_of(tx, caller, memories=[memory], reviews=reviews, now=now)
        conflicts[id_] = (*linked, *stale)[:CONFLICTS_MAX]
    return {id_: those for id_, those in conflicts.items() if those}


def outdated_of(
    tx: Transaction,
    caller: Caller,
    *,
    memories: Sequence[Memory],
    reviews: Mapping[int, Sequence[Review]],
    now: datetime,
) -> tuple[Conflict, ...]:
    """List conflicts of memories that repeat what a source said before it was superseded.

    Only memories with an open review are checked, and nothing is written: the conflict ends when
    the memory is reviewed or superseded.
    """
    return tuple(
        conflict
        for memory in memories
        for conflict in _outdated(
            tx, caller, memory=memory, reviews=reviews.get(memory.id, ()), now=now
        )
    )


def _outdated(
    tx: Transaction, caller: Caller, *, memory: Memory, reviews: Sequence[Review], now: datetime
) -> Iterator[Conflict]:
    causes = [one.cause_id for one in reviews if one.fall is InvalidationReason.SUPERSEDED][
        :CONFLICTS_MAX
    ]
    criteria = Filter(trust_min=0.0)
    for source in tx.memories.get(causes).values():
        *_, head = (source, *successors(tx, source))
        is_seen = is_allowed(head, caller, criteria=criteria, now=now)
        if is_seen and repeats_old_value(memory.text, old=source.text, new=head.text):
            yield conflict_with_source(memory, head=head)
