"""Deduplication, the last step of validation: does a memory of this kind already say it?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.ingestion.batch import WriteOptions
from commonbrain.ingestion.preparation import PreparedDraft
from commonbrain.model import limits
from commonbrain.model.kinds import (
    KINDS,
    DuplicatePolicy,
    DuplicateScope,
    EventDetail,
    Kind,
    kinds_where,
)
from commonbrain.model.memory import Memory
from commonbrain.model.query import Filter
from commonbrain.model.scope import Scope, is_visible
from commonbrain.model.timestamps import instant
from commonbrain.storage.interface import QueryScope
from commonbrain.text.frames import is_of_time
from commonbrain.text.normalisation import differ_in_capitals, is_same_text
from commonbrain.text.repetition import adds_nothing
from commonbrain.text.words import Sort, read_words

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateMemory:
    """A similar stored memory of the same kind; `similarity` is a cosine."""

    id: int
    headline: str
    text: str
    similarity: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Unique:
    """The draft is new; `similar` lists up to five similar memories, nearest first."""

    similar: tuple[CandidateMemory, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicate:
    """A memory already says it; `is_refused` tells whether that rejects the draft."""

    of: CandidateMemory
    is_refused: bool


def classify_duplicate(
    kind: Kind,
    text: str,
    *,
    near: Sequence[CandidateMemory],
    space: EmbeddingSpace,
) -> Unique | Duplicate:
    """Compare a draft with similar memories by the thresholds of the embedding space.

    A draft is a duplicate only if it adds nothing to a similar memory: similarity alone refuses
    nothing.
    """
    ranked = sorted(near, key=lambda neighbour: -neighbour.similarity)
    similar = tuple(n for n in ranked if n.similarity >= space.similar_threshold)
    for neighbour in similar:
        is_repeated = adds_nothing(text, known=neighbour.text)
        if is_repeated and not differ_in_capitals(text, neighbour.text):
            policy = KINDS[kind].on_duplicate
            if policy in {DuplicatePolicy.REFUSE, DuplicatePolicy.WARN}:
                return Duplicate(of=neighbour, is_refused=policy is DuplicatePolicy.REFUSE)
    return Unique(similar=similar[: limits.SIMILAR_HINTS_MAX])


def is_comparable(
    memory: Memory, scope: Scope, *, project: str | None, readers: Sequence[str] = ()
) -> bool:
    """Return whether a memory may be compared with a draft of that scope and project.

    Every later reader of the draft must be allowed to see the memory, and it must belong to the
    same project or to none. `readers` see a private draft as its author does.
    """
    is_seen = scope is Scope.PRIVATE and {memory.agent, *memory.audience}.issuperset(readers)
    shared = memory.scope is not Scope.PRIVATE or is_seen
    return shared and memory.project in {None, project}


def is_repetition(text: str, other: str) -> bool:
    """Return whether two events differ only in numbers and times: one happened again."""
    one = _timeless(text)
    return any(one) and one == _timeless(other)


def _timeless(text: str) -> list[str]:
    """Return the stems of a text, each number and time as an empty one."""
    words = (one for one in read_words(text) if one.sort is not Sort.STOP)
    return ["" if is_of_time(one) or one.written[0].isdecimal() else one.key for one in words]


_SIMILAR_MAX = 40
"""Similar memories to compare; more would need a second search."""
CHANGED_MAX: Final = 24
"""The nearest memories, of which a draft may change some."""
CHANGED_COSINE_MIN: Final = 0.3
"""Texts further apart speak of different things."""
CHANGING_CHARS_MAX: Final = 600
"""A longer text states many things, and neither changes another as a whole nor is changed."""
_CHANGEABLE: Final = kinds_where(lambda policy: policy.can_change)
_WINDOWS_MAX = 4
"""Windows of a long text to search with; later ones repeat less and cost as much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplicateCheck:
    """The result of a comparison: new, duplicate, or an earlier event that recurred."""

    decision: Unique | Duplicate
    recurring: Memory | None = None
    warnings: tuple[str, ...] = ()


def find_exact(
    tx: Transaction,
    prepared: PreparedDraft,
    *,
    query_scope: QueryScope,
    options: WriteOptions,
) -> Memory | None:
    """Find a current memory with exactly this text; for an import, also a past one of its source.

    What the author calls distinct is only found if it was stored for the same reason.

    Where identical texts need not mean the same thing, only one from the same source counts. A
    message or an incident without a source is always new, as is an event at another time.
    """
    kind, source = prepared.admitted.kind, None
    identity = KINDS[kind].identity
    if identity is not DuplicateScope.TEXT:
        source = prepared.draft.source_ref
        if source is None and identity is DuplicateScope.NAMED_SOURCE:
            return None
    same = tx.memories.by_hash(kind, prepared.semantic_hash, source_ref=source)
    candidates = [one for one in same if not one.is_over(query_scope.now)]
    if options.includes_past and prepared.draft.source_ref is not None:
        past = tx.memories.by_hash(
            kind,
            prepared.semantic_hash,
            source_ref=prepared.draft.source_ref,
            in_any_state=True,
        )
        candidates += past
    return next(
        (
            one
            for one in candidates
            if _is_readable(one, prepared, query_scope=query_scope)
            and _is_believed(one, prepared)
            and not _is_another_time(one, prepared)
            and is_same_text(one.text, prepared.text)
        ),
        None,
    )


def is_recurrence(known: Memory, prepared: PreparedDraft) -> bool:
    """Return whether an identical text reports another occurrence of an event.

    One with a source, or with the time of the known event, reports the same occurrence.
    """
    draft = prepared.draft
    is_recurring = KINDS[known.kind].on_duplicate is DuplicatePolicy.RECUR
    return is_recurring and draft.source_ref is None and draft.occurred_at is None


def check_duplicates(
    prepared: PreparedDraft,
    near: Sequence[Neighbour],
    *,
    query_scope: QueryScope,
    space: EmbeddingSpace,
    exclude_ids: frozenset[int],
) -> DuplicateCheck:
    """Compare a draft with the most similar memories of its kind, except those in `exclude_ids`."""
    kind = prepared.admitted.kind
    if not KINDS[kind].checks_similarity:
        # Messages and atoms are stored whatever they resemble.
        return DuplicateCheck(decision=Unique())
    if prepared.vectors is None:
        return DuplicateCheck(decision=Unique(), warnings=_not_compared(prepared))
    similar = {
        one.memory.id: one
        for one in near
        if one.memory.kind is kind
        and one.similarity >= space.similar_threshold
        and one.memory.id not in exclude_ids
        and _is_readable(one.memory, prepared, query_scope=query_scope)
        and not one.memory.is_over(query_scope.now)
    }
    # Of two that are equally similar, the older comes first.
    candidates = [similar[id_].memory for id_ in sorted(similar)]
    decision = classify_duplicate(
        kind,
        prepared.text,
        near=[
            CandidateMemory(
                id=one.id,
                headline=one.headline,
                text=one.text,
                similarity=similar[one.id].similarity,
            )
            for one in candidates
            if _is_believed(one, prepared)
        ],
        space=space,
    )
    again = [
        one
        for one in candidates
        if KINDS[kind].on_duplicate is DuplicatePolicy.RECUR
        and is_repetition(prepared.text, one.text)
    ]
    return DuplicateCheck(
        decision=decision,
        recurring=min(again, key=_by_count, default=None),
    )


def _not_compared(prepared: PreparedDraft) -> tuple[str, ...]:
    """Warn that nothing similar could be looked for."""
    kind = prepared.admitted.kind
    if not KINDS[kind].merges_near_duplicates:
        return ()
    later = " `brain review duplicates` lists it if it repeats one." if kind is Kind.RULE else ""
    reason = "it is embedded later" if prepared.is_deferred else "the embedder is unavailable"
    return (f"It was compared with no similar {kind}: {reason}.{later}",)


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A stored memory near a draft, with the cosine to its nearest window."""

    memory: Memory
    similarity: float


def find_neighbours(
    tx: Transaction, prepared: PreparedDraft, *, query_scope: QueryScope, space: EmbeddingSpace
) -> list[Neighbour]:
    """Find what a draft may repeat or change, nearest first; nothing if it has no vectors.

    One search serves both questions: those at least similar by the space's threshold may be
    repeated, the nearest `CHANGED_MAX` changed.
    """
    policy = KINDS[prepared.admitted.kind]
    may_change = policy.can_change_others and len(prepared.admitted.body) <= CHANGING_CHARS_MAX
    kinds = {*((policy.kind,) if policy.checks_similarity else ())}
    if may_change:
        kinds.update(_CHANGEABLE)
    if not kinds or prepared.vectors is None:
        return []
    criteria = Filter(kinds=tuple(sorted(kinds)), project=prepared.project, trust_min=0.0)
    there = QueryScope(caller=query_scope.caller, filter=criteria, now=query_scope.now)
    floor = min(space.similar_threshold, CHANGED_COSINE_MIN if may_change else 1.0)
    near: dict[int, float] = {}
    for window in prepared.vectors.windows[:_WINDOWS_MAX]:
        for hit in tx.index.nearest(window, there, limit=_SIMILAR_MAX, at_least=floor):
            near[hit.id] = max(hit.score, near.get(hit.id, hit.score))
    ranked = sorted(near, key=near.__getitem__, reverse=True)
    compared = [
        id_
        for rank, id_ in enumerate(ranked)
        if near[id_] >= space.similar_threshold or rank < CHANGED_MAX
    ]
    memories = tx.memories.get(compared)
    return [Neighbour(memories[id_], near[id_]) for id_ in compared if id_ in memories]


def _by_count(memory: Memory) -> tuple[int, int]:
    """Sort key: the event that recurred most often comes first, so that one does the counting."""
    detail = memory.detail
    return (-detail.recurrences if isinstance(detail, EventDetail) else 0, memory.id)


def _is_another_time(memory: Memory, prepared: PreparedDraft) -> bool:
    """Return whether the author gave a time at which the known event did not happen.

    An atom at another time is another observation. A message's time is when it was said, and
    repeating a statement is not a second observation.
    """
    draft, given_time = prepared.draft, prepared.draft.occurred_at
    is_repeated = memory.kind is Kind.ATOM and draft.source_message_id is not None
    is_dated = KINDS[memory.kind].is_distinct_by_time and not is_repeated
    return is_dated and given_time is not None and instant(given_time) != memory.occurred_at


def _is_readable(memory: Memory, prepared: PreparedDraft, *, query_scope: QueryScope) -> bool:
    """Return whether the caller and all later readers of the draft may see the memory."""
    comparable = is_comparable(
        memory, prepared.scope, project=prepared.project, readers=prepared.draft.audience
    )
    return is_visible(query_scope.caller, memory) and comparable


def _is_believed(memory: Memory, prepared: PreparedDraft) -> bool:
    return memory.trust.weight >= prepared.trust.weight
