"""Deduplication, the last step of validation: does a memory of this kind already say it?

Exact texts are found by their hash, similar ones by vectors. A preview compares exact texts alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, NamedTuple

from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.ingestion.batch import WriteContext
from commonbrain.ingestion.preparation import PreparedDraft
from commonbrain.ingestion.result import (
    REPEATED,
    ItemResult,
    ItemStatus,
    SimilarMemory,
    hint_of_return,
)
from commonbrain.model import ids, limits
from commonbrain.model.kinds import (
    KINDS,
    DuplicatePolicy,
    DuplicateScope,
    EventDetail,
    Kind,
    TaskDetail,
    kinds_where,
)
from commonbrain.model.memory import AWAITING_STATES, CURRENT_STATES, Memory, State
from commonbrain.model.query import Filter
from commonbrain.model.scope import Authority, Scope, is_visible
from commonbrain.model.tasks import OPEN_STATUSES
from commonbrain.model.timestamps import instant
from commonbrain.security.authority import proposal_of
from commonbrain.text.frames import is_of_time
from commonbrain.text.normalisation import differ_in_capitals, is_same_text
from commonbrain.text.repetition import adds_nothing, shares_half
from commonbrain.text.words import Sort, read_words


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateMemory:
    """A similar stored memory of the same kind; `similarity` is a cosine."""

    id: int
    headline: str
    text: str
    similarity: float

    def shown(self) -> SimilarMemory:
        """Return it as it is shown to the author."""
        return SimilarMemory(
            id=ids.show(ids.MEMORY, self.id),
            headline=self.headline,
            similarity=round(self.similarity, 3),
        )


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
    nothing. A rule or fact that is less similar is listed if it shares half of its words, as one
    that gives the same thing another value does; of rules the nearest one is listed in any case.
    """
    ranked = sorted(near, key=lambda neighbour: -neighbour.similarity)
    policy, similar = KINDS[kind], list[CandidateMemory]()
    for neighbour in ranked:
        if neighbour.similarity >= space.similar_threshold:
            is_repeated = adds_nothing(text, known=neighbour.text)
            may_refuse = policy.on_duplicate in {DuplicatePolicy.REFUSE, DuplicatePolicy.WARN}
            if is_repeated and may_refuse and not differ_in_capitals(text, neighbour.text):
                is_refused = policy.on_duplicate is DuplicatePolicy.REFUSE
                return Duplicate(of=neighbour, is_refused=is_refused)
            similar.append(neighbour)
        elif policy.merges_near_duplicates and neighbour.similarity >= space.related_threshold:
            is_nearest_rule = policy.is_binding and neighbour is ranked[0]
            if is_nearest_rule or shares_half(text, known=neighbour.text):
                similar.append(neighbour)
    return Unique(similar=tuple(similar[: limits.SIMILAR_HINTS_MAX]))


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


def find_exact(context: WriteContext, prepared: PreparedDraft) -> Memory | None:
    """Find a current memory with exactly this text; for an import, also a past one of its source.

    What the author calls distinct is only found if it was stored for the same reason.

    Where identical texts need not mean the same thing, only one from the same source counts. A
    message or an incident without a source is always new, as is an event at another time. A
    person's words are found as a proposal too, which they approve.
    """
    kind, named = prepared.admitted.kind, prepared.draft.source_ref
    identity, memories = KINDS[kind].identity, context.tx.memories
    if named is None and identity is DuplicateScope.NAMED_SOURCE:
        return None
    source = None if identity is DuplicateScope.TEXT else named
    same = memories.by_hash(kind, prepared.semantic_hash, source_ref=source)
    candidates = [
        memory
        for memory in same
        if not memory.is_over(context.now)
        and (memory.state in CURRENT_STATES or is_approved_by(prepared, memory))
    ]
    if context.options.includes_past and named is not None:
        candidates += memories.by_hash(
            kind, prepared.semantic_hash, source_ref=named, in_any_state=True
        )
    return next(
        (
            memory
            for memory in candidates
            if _is_readable(context, memory, prepared=prepared)
            and (
                is_approved_by(prepared, memory)
                or _is_confirmed_by(prepared, memory)
                or _is_believed(memory, prepared)
            )
            and not _is_another_time(memory, prepared)
            and is_same_text(memory.text, prepared.text)
        ),
        None,
    )


def duplicate(kind: Kind, of: CandidateMemory, *, changed_by: Memory | None = None) -> ItemResult:
    """Return the outcome for a memory that says the same, with the call that revises it."""
    id_ = ids.show(ids.MEMORY, of.id)
    hint = (
        f"If this is newer: revise supersede {id_} with your text and a reason. If both are "
        f"true: remember again with distinct_because."
    )
    return ItemResult(
        status=ItemStatus.DUPLICATE,
        id=id_,
        kind=kind,
        headline=of.headline,
        code="duplicate",
        reason=f"A {kind} says this already (similarity {of.similarity:.2f}): {of.headline}",
        hint=hint_of_return(changed_by) or hint,
        similar=(of.shown(),),
    )


def is_recurrence(known: Memory, prepared: PreparedDraft) -> bool:
    """Return whether an identical text reports another occurrence of an event.

    One with a source, or with the time of the known event, reports the same occurrence.
    """
    draft = prepared.draft
    is_recurring = KINDS[known.kind].on_duplicate is DuplicatePolicy.RECUR
    return is_recurring and draft.source_ref is None and draft.occurred_at is None


def check_duplicates(
    context: WriteContext,
    prepared: PreparedDraft,
    *,
    near: Sequence[Neighbour],
    space: EmbeddingSpace,
) -> DuplicateCheck:
    """Compare a draft with the most similar memories of its kind, except excluded ones."""
    kind = prepared.admitted.kind
    if not KINDS[kind].checks_similarity:
        # Messages and atoms are stored whatever they resemble.
        return DuplicateCheck(decision=Unique())
    if prepared.vectors is None:
        return DuplicateCheck(decision=Unique(), warnings=_not_compared(prepared))
    # A revision names what it is about, and a tenant may say what is similar.
    is_said = context.options.revision_number or prepared.parameters.similar_threshold is not None
    floor = space.similar_threshold if is_said else 0.0
    comparable = [
        neighbour
        for neighbour in near
        if neighbour.memory.kind is kind
        and neighbour.similarity >= floor
        and neighbour.memory.id not in context.options.exclude_ids
        and _is_readable(context, neighbour.memory, prepared=prepared)
        and not neighbour.memory.is_over(context.now)
    ]
    # Of two that are equally similar, the older comes first.
    comparable.sort(key=lambda neighbour: neighbour.memory.id)
    decision = classify_duplicate(
        kind,
        prepared.text,
        near=[
            CandidateMemory(
                id=neighbour.memory.id,
                headline=neighbour.memory.headline,
                text=neighbour.memory.text,
                similarity=neighbour.similarity,
            )
            for neighbour in comparable
            if _is_believed(neighbour.memory, prepared)
        ],
        space=space,
    )
    again = [
        neighbour.memory
        for neighbour in comparable
        if neighbour.similarity >= space.similar_threshold
        and KINDS[kind].on_duplicate is DuplicatePolicy.RECUR
        and is_repetition(prepared.text, neighbour.memory.text)
    ]
    return DuplicateCheck(decision=decision, recurring=min(again, key=_recurred_less, default=None))


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
    context: WriteContext, prepared: PreparedDraft, *, space: EmbeddingSpace
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
    there, tx = context.query_scope(criteria), context.tx
    floor = min(space.similar_threshold, CHANGED_COSINE_MIN if may_change else 1.0)
    near: dict[int, float] = {}
    for window in prepared.vectors.windows[:_WINDOWS_MAX]:
        hits = tx.index.nearest(window, there, limit=CHANGED_MAX, at_least=floor)
        if len(hits) == CHANGED_MAX and hits[-1].score >= space.similar_threshold:
            # In a narrow scope each further hit costs many that are not allowed.
            hits = tx.index.nearest(window, there, limit=_SIMILAR_MAX, at_least=floor)
        for hit in hits:
            near[hit.id] = max(hit.score, near.get(hit.id, hit.score))
    ranked = sorted(near, key=near.__getitem__, reverse=True)
    compared = [
        id_
        for rank, id_ in enumerate(ranked)
        if near[id_] >= space.similar_threshold or rank < CHANGED_MAX
    ]
    memories = tx.memories.get(compared)
    return [Neighbour(memories[id_], near[id_]) for id_ in compared if id_ in memories]


def _recurred_less(memory: Memory) -> tuple[int, int]:
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
    return is_dated and given_time is not None and instant(given_time) != memory.given_time


def _is_readable(context: WriteContext, memory: Memory, *, prepared: PreparedDraft) -> bool:
    """Return whether the author and all later readers of the draft may see the memory."""
    comparable = is_comparable(
        memory, prepared.scope, project=prepared.project, readers=prepared.draft.audience
    )
    author = replace(context.caller, agent=prepared.agent)
    return comparable and is_visible(author, memory)


def _is_to_do_again(memory: Memory, prepared: PreparedDraft) -> bool:
    """Return whether a caller gives a task that was closed; what a text names is the old one."""
    draft, known, new = prepared.draft, memory.detail, prepared.admitted.detail
    if draft.auto_captured or draft.imported_from is not None:
        return False
    if not (isinstance(known, TaskDetail) and isinstance(new, TaskDetail)):
        return False
    return known.status not in OPEN_STATUSES and new.status in OPEN_STATUSES


def is_approved_by(prepared: PreparedDraft, memory: Memory) -> bool:
    """Return whether a person says what waits for one, to the same readers."""
    return (
        prepared.authority is Authority.PERSON
        and memory.state in AWAITING_STATES
        and proposal_of(memory) is None
        and (memory.scope, memory.project) == (prepared.scope, prepared.project)
    )


def _is_confirmed_by(prepared: PreparedDraft, memory: Memory) -> bool:
    """Return whether a person says the very words of a model, to the same readers."""
    return (
        prepared.authority is Authority.PERSON
        and memory.state is State.ACTIVE
        and memory.trust.weight >= prepared.trust.weight
        and (memory.scope, memory.project) == (prepared.scope, prepared.project)
        and (memory.detail, memory.expires_at)
        == (prepared.admitted.detail, prepared.draft.expires_at)
    )


def _is_believed(memory: Memory, prepared: PreparedDraft) -> bool:
    """Return whether a memory says the same with as much weight: trust, and a person's word.

    A task that is closed is not one to do again.
    """
    is_outranked = prepared.authority is Authority.PERSON is not memory.authority
    is_trusted = memory.trust.weight >= prepared.trust.weight
    return is_trusted and not is_outranked and not _is_to_do_again(memory, prepared)


class _DuplicateFields(NamedTuple):
    """What else of two drafts with one hash decides whether they are one memory."""

    text: str
    scope: Scope
    project: str | None
    occurred_at: datetime | None
    source_ref: str | None
    """Of which row of a source it is, which decides nothing."""


@dataclass(slots=True)
class PreviewedDrafts:
    """Drafts that would be stored, so that a later draft with the same text counts as known."""

    places: dict[tuple[str, str | None], tuple[_DuplicateFields, ...]] = field(
        default_factory=dict[tuple[str, "str | None"], tuple[_DuplicateFields, ...]]
    )
    """By the hash of the text, and the source where texts alone need not mean the same."""

    def preview(self, prepared: PreparedDraft, *, now: datetime) -> ItemResult:
        """Return the outcome of a draft that is not in the store."""
        earlier = self._find(prepared, now=now)
        is_repeated = earlier is not None and earlier.source_ref == prepared.draft.source_ref
        return ItemResult(
            status=ItemStatus.STORED if earlier is None else ItemStatus.EXISTS,
            code=REPEATED if is_repeated else None,
            kind=prepared.admitted.kind,
            warnings=prepared.warnings,
        )

    def _find(self, prepared: PreparedDraft, *, now: datetime) -> _DuplicateFields | None:
        """Return an earlier draft that is the same memory; without one, note this one."""
        kind, draft = KINDS[prepared.admitted.kind], prepared.draft
        source = None if kind.identity is DuplicateScope.TEXT else draft.source_ref
        if source is None and kind.identity is DuplicateScope.NAMED_SOURCE:
            return None
        is_over = draft.expires_at is not None and draft.expires_at <= now
        if is_over:
            # What has expired is known only to an import of its source.
            source = draft.source_ref
        key = (prepared.semantic_hash, source)
        at = draft.occurred_at if kind.is_distinct_by_time else None
        place = _DuplicateFields(
            *(prepared.text, prepared.scope, prepared.project),
            instant(at) if at else None,
            draft.source_ref,
        )
        known = self.places.get(key, ())
        earlier = next((there for there in known if _is_same(there, place)), None)
        if earlier is None:
            self.places[key] = (*known, place)
        return earlier


def _is_same(known: _DuplicateFields, new: _DuplicateFields) -> bool:
    is_shared = known.scope is not Scope.PRIVATE or new.scope is Scope.PRIVATE
    is_then = new.occurred_at in {None, known.occurred_at}
    is_there = known.project in {None, new.project}
    return is_shared and is_then and is_there and is_same_text(known.text, new.text)
