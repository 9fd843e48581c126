"""The gate's last step: does a memory of this kind say it already?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.ingestion.preparation import PreparedDraft
from commonbrain.model import limits
from commonbrain.model.kinds import KINDS, Detail, DuplicatePolicy, EventDetail, FactDetail, Kind
from commonbrain.model.links import LinkType, link_of
from commonbrain.model.memory import Memory, semantic_hash
from commonbrain.model.query import Filter
from commonbrain.model.revision import Action
from commonbrain.model.scope import Scope, is_visible
from commonbrain.model.timestamps import instant
from commonbrain.storage.change_log import predecessors
from commonbrain.storage.interface import QueryScope
from commonbrain.text import contradictions
from commonbrain.text.contradictions import Conflict
from commonbrain.text.statements import Statement

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

_TOKEN: Final = re.compile(r"\w+(?:[.,:/+-]\w+)*")
_MOMENT: Final = re.compile(
    r"\d[\d.,:/+t-]*(?:z|st|nd|rd|th|am|pm|h|s|ms|min|k|[kmgt]i?b)?"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)day"
    r"|january|february|march|april|june|july|august|september|october|november|december",
    re.IGNORECASE,
)
"""A number with its unit, a time, a day or a month ("may" is left out: it is a verb, too)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateMemory:
    """A stored memory of the same kind that lies near; `similarity` is a cosine."""

    id: int
    headline: str
    text: str
    similarity: float
    subject: str | None = None
    """What a fact says it is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contested:
    """A neighbour that cannot be true together with the draft, and why."""

    neighbour: CandidateMemory
    conflict: Conflict


@dataclass(frozen=True, slots=True, kw_only=True)
class Unique:
    """Nobody said it yet; `similar` lists up to five near ones, nearest first.

    `conflicts` lists all near ones that contradict it, nearest first: to be linked when stored.
    """

    similar: tuple[CandidateMemory, ...] = ()
    conflicts: tuple[Contested, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicate:
    """A memory says it already; `is_refused` says whether that keeps the draft out.

    `conflicts` is for a caller who insists that it is another.
    """

    of: CandidateMemory
    is_refused: bool
    conflicts: tuple[Contested, ...] = ()


def classify_duplicate(
    kind: Kind,
    text: str,
    *,
    near: Sequence[CandidateMemory],
    space: EmbeddingSpace,
    subject: str | None = None,
) -> Unique | Duplicate:
    """Place a text among its neighbours by the space's thresholds, conflicts first.

    What may be news against a neighbour is never its duplicate, however alike the two look; what
    contradicts it is named beside. Only a kind that makes claims has conflicts.
    """
    ranked = sorted(near, key=lambda neighbour: -neighbour.similarity)
    similar = tuple(n for n in ranked if n.similarity >= space.similar_threshold)
    makes_claims = KINDS[kind].makes_claims
    contested = _contested(Statement(text=text, subject=subject), similar) if makes_claims else ()
    denied = {one.neighbour.id for one in contested}
    for neighbour in similar:
        is_same = neighbour.id not in denied and not contradicts(text, neighbour.text)
        if neighbour.similarity >= space.duplicate_threshold and is_same:
            policy = KINDS[kind].on_duplicate
            if policy in {DuplicatePolicy.REFUSE, DuplicatePolicy.WARN}:
                is_refused = policy is DuplicatePolicy.REFUSE
                return Duplicate(of=neighbour, is_refused=is_refused, conflicts=contested)
    return Unique(similar=similar[: limits.SIMILAR_HINTS_MAX], conflicts=contested)


def is_comparable(
    memory: Memory, scope: Scope, *, project: str | None, readers: Sequence[str] = ()
) -> bool:
    """Say whether a memory may be held against a new row of that scope and project.

    Only what every future reader of the new row may see, in the same or the null project; beside
    its author, `readers` see a private one.
    """
    is_seen = scope is Scope.PRIVATE and {memory.agent, *memory.audience}.issuperset(readers)
    shared = memory.scope is not Scope.PRIVATE or is_seen
    return shared and memory.project in {None, project}


def contradicts(one: str, other: str) -> bool:
    """Say whether one text may be news to who knows the other, so that it is no duplicate."""
    return contradictions.may_add_information(one, other)


def is_repetition(text: str, other: str) -> bool:
    """Say whether two events are equal but for their numbers and times: it happened again."""
    one = _timeless(text)
    return any(one) and one == _timeless(other)


def _timeless(text: str) -> list[str]:
    """Give the folded words of a text, with nothing in the place of each number and time."""
    words = _TOKEN.findall(text.casefold())
    return ["" if _MOMENT.fullmatch(word) else word for word in words]


def _contested(statement: Statement, similar: Sequence[CandidateMemory]) -> tuple[Contested, ...]:
    judged = (
        (
            near,
            contradictions.find_contradiction(
                statement, Statement(text=near.text, subject=near.subject)
            ),
        )
        for near in similar
    )
    return tuple(Contested(neighbour=near, conflict=found) for near, found in judged if found)


_SIMILAR_MAX = 40
"""How many of the nearest are looked at; asking for more would search the store twice over."""
_WINDOWS_MAX = 4
"""Windows of a long text that are looked for: what comes later repeats less and costs as much."""
_ALWAYS_NEW_KINDS = frozenset({Kind.MESSAGE, Kind.INCIDENT})
"""Said or happened again, it is another one, word for word or not."""
EVENT_KINDS = frozenset({Kind.INCIDENT, Kind.EVENT})
"""What has a time of its own: told of another time, it and its causes are others."""
_SOURCED_KINDS = _ALWAYS_NEW_KINDS | {Kind.EVENT, Kind.EPISODE}
"""Equal texts of these from two sources are two things; from one source they are one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplicateCheck:
    """What the neighbours say: whether it is new, and which earlier event it is once more."""

    decision: Unique | Duplicate
    conflicts: tuple[Contested, ...] = ()
    """All that cannot be true together with it."""
    contested: frozenset[int] = frozenset()
    """Those of them that it may be held against: they are trusted no more than it is."""
    recurring: Memory | None = None


def find_exact(
    tx: Transaction, prepared: PreparedDraft, *, query_scope: QueryScope
) -> Memory | None:
    """Find a memory that says it to the letter.

    Where equal texts need not be the same thing, only one from the same source counts; a message
    or an incident of no known source is always another one, an event of another time, too.
    """
    kind, source = prepared.admitted.kind, None
    if kind in _SOURCED_KINDS:
        source = prepared.draft.source_ref
        if source is None and kind in _ALWAYS_NEW_KINDS:
            return None
    same = tx.memories.by_hash(kind, semantic_hash(kind, prepared.text), source_ref=source)
    candidates = (one for one in same if _may_compare(one, prepared, query_scope=query_scope))
    return next((one for one in candidates if not _is_another_time(one, prepared)), None)


def is_recurrence(known: Memory, prepared: PreparedDraft) -> bool:
    """Say whether a text known to the letter tells of one more time: an event of no source."""
    return known.kind is Kind.EVENT and prepared.draft.source_ref is None


def check_duplicates(
    tx: Transaction,
    prepared: PreparedDraft,
    *,
    query_scope: QueryScope,
    space: EmbeddingSpace,
    exclude_ids: frozenset[int],
) -> DuplicateCheck:
    """Compare a draft with the nearest of its kind, leaving out the ids `besides`."""
    if prepared.vectors is None:
        return DuplicateCheck(decision=Unique())
    kind = prepared.admitted.kind
    near = _nearest(tx, prepared, query_scope=query_scope, space=space)
    candidates = [
        memory
        for memory in tx.memories.get([id_ for id_ in near if id_ not in exclude_ids]).values()
        if _is_candidate(memory, prepared, query_scope=query_scope)
    ]

    def judged(memories: Iterable[Memory]) -> Unique | Duplicate:
        neighbours = [_neighbour(one, similarity=near[one.id]) for one in memories]
        subject = _subject(prepared.admitted.detail)
        return classify_duplicate(
            kind, prepared.text, near=neighbours, space=space, subject=subject
        )

    kept_both_ids = _kept_both(tx, exclude_ids) if exclude_ids else frozenset[int]()
    decision = judged(one for one in candidates if _is_believed(one, prepared))
    less_trusted = [one for one in candidates if not _is_believed(one, prepared)]
    again = [
        one for one in candidates if kind is Kind.EVENT and is_repetition(prepared.text, one.text)
    ]
    return DuplicateCheck(
        decision=decision,
        conflicts=tuple(
            one
            for one in (
                *decision.conflicts,
                *(judged(less_trusted).conflicts if less_trusted else ()),
            )
            if one.neighbour.id not in kept_both_ids
        ),
        contested=frozenset(
            one.id for one in candidates if one.trust.weight <= prepared.trust.weight
        ),
        recurring=min(again, key=_by_count, default=None),
    )


def _kept_both(tx: Transaction, revised: Iterable[int]) -> frozenset[int]:
    """Give what somebody said to hold beside any revision of what is being revised."""
    chain = [
        id_
        for memory in tx.memories.get(list(revised)).values()
        for id_ in (memory.id, *(one.id for one in predecessors(tx, memory)))
    ]
    links = tx.links.touching(chain, types=[LinkType.RELATES_TO])
    ends = {frozenset((one.from_id, one.to_id)) for one in links}
    dismissed = {
        frozenset((link.from_id, link.to_id))
        for change in tx.changes.of(sorted(frozenset[int]().union(*ends)))
        if change.action is Action.KEEP_BOTH and "link" in change.after
        for link in [link_of(cast("Mapping[str, Any]", change.after["link"]))]
    }
    return frozenset[int]().union(*(ends & dismissed)).difference(chain)


def _neighbour(memory: Memory, *, similarity: float) -> CandidateMemory:
    return CandidateMemory(
        id=memory.id,
        headline=memory.headline,
        text=memory.text,
        similarity=similarity,
        subject=_subject(memory.detail),
    )


def _subject(detail: Detail) -> str | None:
    return detail.subject if isinstance(detail, FactDetail) else None


def _nearest(
    tx: Transaction, prepared: PreparedDraft, *, query_scope: QueryScope, space: EmbeddingSpace
) -> dict[int, float]:
    """Give the similarity of the nearest to the window of the draft that they are nearest to."""
    same_kind = Filter(kinds=(prepared.admitted.kind,), project=prepared.project, trust_min=0.0)
    there = QueryScope(caller=query_scope.caller, filter=same_kind, now=query_scope.now)
    near: dict[int, float] = {}
    windows = prepared.vectors.windows if prepared.vectors is not None else ()
    for window in windows[:_WINDOWS_MAX]:
        similar_threshold = space.similar_threshold
        for hit in tx.index.nearest(window, there, limit=_SIMILAR_MAX, at_least=similar_threshold):
            near[hit.id] = max(hit.score, near.get(hit.id, hit.score))
    return near


def _by_count(memory: Memory) -> tuple[int, int]:
    """Order events by how often they came again, most first, so that one of them counts."""
    detail = memory.detail
    return (-detail.recurrences if isinstance(detail, EventDetail) else 0, memory.id)


def _is_another_time(memory: Memory, prepared: PreparedDraft) -> bool:
    """Say whether the author gave a time at which the known event did not happen.

    An atom is an observation, at another time another one; but a message has the time at which it
    was said, and what is said twice was not observed twice.
    """
    draft, given_time = prepared.draft, prepared.draft.occurred_at
    is_observed = memory.kind is Kind.ATOM and draft.source_message_id is None
    is_dated = memory.kind is Kind.EVENT or is_observed
    return is_dated and given_time is not None and instant(given_time) != memory.occurred_at


def _may_compare(memory: Memory, prepared: PreparedDraft, *, query_scope: QueryScope) -> bool:
    """Leave out what a recall would not give in place of the draft."""
    return _is_candidate(memory, prepared, query_scope=query_scope) and _is_believed(
        memory, prepared
    )


def _is_candidate(memory: Memory, prepared: PreparedDraft, *, query_scope: QueryScope) -> bool:
    """Leave out what may not be seen by all who will see the draft, and what holds no more."""
    is_over = memory.is_over(query_scope.now)
    comparable = is_comparable(
        memory, prepared.scope, project=prepared.project, readers=prepared.draft.audience
    )
    return is_visible(query_scope.caller, memory) and not is_over and comparable


def _is_believed(memory: Memory, prepared: PreparedDraft) -> bool:
    return memory.trust.weight >= prepared.trust.weight
