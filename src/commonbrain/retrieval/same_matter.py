"""Show together what is on one matter: a newer memory next to the older one near it.

What a claimed change says no longer holds follows the memory that changed it, marked as earlier.
Otherwise a newer memory that is near to an older one, and about as near to the question, is shown
next to it, and the older one names it without a judgement. Of two that answer equally well, as far
as words and meaning tell, the newer comes first.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from commonbrain.model import ids
from commonbrain.model.kinds import KINDS
from commonbrain.model.links import DISAGREEMENTS, LinkType, is_sure
from commonbrain.model.query import PROACTIVE, Candidate, Filter, is_allowed
from commonbrain.model.recall_result import NEWER
from commonbrain.model.support import may_outdate
from commonbrain.model.timestamps import show_day
from commonbrain.retrieval.query_plan import CLAIMS, NEWER_FIRST, TOGETHER, words_of
from commonbrain.retrieval.value_history import Change, ChangeReader
from commonbrain.text.assertions import are_of_two_things, read_assertions
from commonbrain.text.normalisation import is_same_text
from commonbrain.text.words import stem

if TYPE_CHECKING:
    from commonbrain.model.memory import Memory
    from commonbrain.retrieval.fusion import LinkExpansion
    from commonbrain.retrieval.query_plan import QueryPlan
    from commonbrain.storage.store import Transaction

LINKED: Final = "linked"
"""The feature of a candidate that links brought."""
EARLIER: Final = "earlier"
"""The feature and the note of a memory that a newer one changed."""
_FIRST: Final = 10
"""Best candidates that get their newer neighbours; later ones are seldom shown in full."""
_SEARCHED: Final = 24
"""Best candidates among which the newer neighbours are looked for."""
_NEAR: Final = 0.6
"""Cosine from which two memories are on one matter."""
_GAP_MAX: Final = 0.2
"""How much further from the question the newer memory may be, as a cosine."""
_TIED: Final = 0.75
"""Cosine from which the newer of two memories comes first, if it answers equally well."""
_TIE_MAX: Final = 0.1
"""How much further from the question it may be, as a cosine: a near tie."""


def order_matters(
    tx: Transaction,
    plan: QueryPlan,
    *,
    ranked: Sequence[Candidate],
    graph: LinkExpansion,
    meaning: Mapping[int, float],
) -> list[Candidate]:
    """Order candidates by matter, each at the place of its best; each rank keeps its score.

    Skills stay first. A changed memory gets the feature `EARLIER` and a note that names what
    changed it, which is brought in if it was not found. `meaning` holds the cosines of the question
    to candidates.
    """
    if not plan.query or plan.period is not None or plan.filter.as_of is not None:
        return list(ranked)
    skills = [one for one in ranked if one.features.get("skill")]
    others = [one for one in ranked if not one.features.get("skill")] if skills else list(ranked)
    if plan.is_about_now and plan.overrides.is_enabled(CLAIMS):
        others = _with_claims(tx, plan, ranked=others, graph=graph)
    if plan.overrides.is_enabled(TOGETHER):
        others = _together(tx, plan, ranked=others, meaning=meaning, settled=_settled(graph))
    return [*skills, *others]


def _with_claims(
    tx: Transaction, plan: QueryPlan, *, ranked: Sequence[Candidate], graph: LinkExpansion
) -> list[Candidate]:
    """Put each changed memory after what changed it, and mark it."""
    changed_ids = {
        link.to_id for link in graph.links if link.type in DISAGREEMENTS and is_sure(link)
    }
    known = {**graph.ends, **{one.memory.id: one.memory for one in ranked}}
    changed = [one.memory for one in ranked if one.memory.id in changed_ids]
    if not changed:
        return list(ranked)
    reader = ChangeReader(
        tx=tx,
        caller=plan.caller,
        now=plan.now,
        criteria=Filter(project=plan.filter.project, trust_min=plan.filter.trust_min),
        known=known,
    )
    changes = reader.successors(changed)
    by_id = {one.memory.id: one for one in ranked}
    ordered: dict[int, Candidate] = {}
    for one in ranked:
        change = changes.get(one.memory.id)
        if change is None:
            ordered.setdefault(one.memory.id, one)
            continue
        for newer in (change.head, change.newer):
            if newer.id not in ordered and newer.id not in changes:
                candidate = by_id.get(newer.id)
                if candidate is not None:
                    ordered[newer.id] = candidate
                elif is_allowed(newer, plan.caller, criteria=plan.filter, now=plan.now):
                    brought = Candidate(memory=newer, features={LINKED: 1.0}, score=one.score)
                    ordered[newer.id] = brought
        ordered[one.memory.id] = _marked(one, change)
    return _rescored(ordered.values(), ranked)


def _marked(older: Candidate, change: Change) -> Candidate:
    shown_id, day = ids.show(ids.MEMORY, change.newer.id), show_day(change.newer.occurred_at)
    note = f"{EARLIER}, changed by {shown_id} on {day}"
    features = {**older.features, EARLIER: 1.0}
    return replace(older, features=features, notes=(note, *older.notes))


def with_marks(
    considered: Sequence[Candidate], allowed: Iterable[Candidate]
) -> Sequence[Candidate]:
    """Return candidates for the trace, with the features that were added to those allowed."""
    added = {EARLIER, PROACTIVE}
    marked = {one.memory.id: one.features for one in allowed if not added.isdisjoint(one.features)}
    return [
        replace(one, features=marked[one.memory.id]) if one.memory.id in marked else one
        for one in considered
    ]


def _together(
    tx: Transaction,
    plan: QueryPlan,
    *,
    ranked: Sequence[Candidate],
    meaning: Mapping[int, float],
    settled: Container[frozenset[int]],
) -> list[Candidate]:
    """Put memories on one matter next to each other; the older names the newer.

    Nothing is said of `settled` pairs, of which a user said that both hold.
    """
    pool = [
        one
        for one in ranked[:_SEARCHED]
        if one.memory.id in meaning and KINDS[one.memory.kind].can_change_others
    ]
    if len(pool) < 2:  # noqa: PLR2004 one has nothing to be next to
        return list(ranked)
    cosines = tx.index.cosines([one.memory.id for one in pool])
    first = {one.memory.id for one in ranked[:_FIRST]}
    are_ordered = plan.is_about_now and plan.overrides.is_enabled(NEWER_FIRST)
    newer_of: dict[int, int] = {}
    before_of: dict[int, int] = {}
    for one, row in zip(pool, cosines, strict=True):
        older = one.memory
        # What happened is never outdated, but may come after what it ended.
        if not KINDS[older.kind].can_change:
            continue
        near = [
            (cosine, other.memory.id, other.memory)
            for other, cosine in zip(pool, row, strict=True)
            if cosine >= _NEAR
            and (older.id in first or other.memory.id in first)
            and EARLIER not in {*one.features, *other.features}
            and frozenset({older.id, other.memory.id}) not in settled
            and not _is_same(older, other.memory)
            and abs(meaning[older.id] - meaning[other.memory.id]) <= _GAP_MAX
        ]
        trusted = [each for each in near if each[-1].trust.weight > older.trust.weight]
        newer = [
            each
            for each in near
            if may_outdate(each[-1], older) and not may_outdate(older, each[-1])
        ]
        if trusted:
            before_of[older.id] = max(trusted)[1]
        elif newer:
            cosine, id_, memory = max(newer)
            newer_of[older.id] = id_
            is_tie = cosine >= _TIED and meaning[older.id] - meaning[id_] <= _TIE_MAX
            if are_ordered and is_tie and _answers_as_well(memory, older, asked=plan.content_terms):
                before_of[older.id] = id_
    if not (newer_of or before_of):
        return list(ranked)
    return _rescored(_grouped(ranked, newer_of=newer_of, before_of=before_of), ranked)


def _is_same(one: Memory, other: Memory) -> bool:
    return one.semantic_hash == other.semantic_hash and is_same_text(one.text, other.text)


def _answers_as_well(newer: Memory, older: Memory, *, asked: Iterable[str]) -> bool:
    """Return whether the newer has each word of the question that the older one has.

    It must not speak of another thing: "Grandma takes 5 mg", "Grandpa takes 10 mg".
    """
    ours, theirs = (read_assertions(memory.body) for memory in (newer, older))
    if ours and theirs and are_of_two_things(ours, theirs):
        return False
    stems = {stem(word) for word in asked}
    of_older, of_newer = ({stem(word) for word in words_of(m.text)} for m in (older, newer))
    return stems & of_older <= of_newer


def _settled(graph: LinkExpansion) -> Container[frozenset[int]]:
    return {
        frozenset({link.from_id, link.to_id})
        for link in graph.links
        if link.type is LinkType.RELATES_TO
    }


def _grouped(
    ranked: Sequence[Candidate], *, newer_of: Mapping[int, int], before_of: Mapping[int, int]
) -> Iterable[Candidate]:
    """Yield each candidate, and after it the newer and older ones of the same matter.

    What `before_of` names, newer or trusted more, comes before it.
    """
    by_id = {one.memory.id: one for one in ranked}
    older_of: dict[int, list[int]] = {}
    for older, newer in newer_of.items():
        older_of.setdefault(newer, []).append(older)
    placed: dict[int, Candidate] = {}
    for one in ranked:
        waiting = [one.memory.id]
        while waiting:
            id_ = waiting.pop(0)
            before = before_of.get(id_)
            if before is not None and before not in placed:
                waiting[:0] = [before, id_]
                continue
            if id_ in placed:
                continue
            candidate = by_id[id_]
            newer = newer_of.get(id_)
            if newer is not None:
                note = f"{NEWER}{ids.show(ids.MEMORY, newer)}"
                candidate = replace(candidate, notes=(note, *candidate.notes))
                waiting.append(newer)
            placed[id_] = candidate
            waiting += older_of.get(id_, ())
    return placed.values()


def _rescored(ordered: Iterable[Candidate], ranked: Sequence[Candidate]) -> list[Candidate]:
    """Give each rank the score that it had."""
    places = list(ordered)
    scores = sorted((one.score for one in ranked), reverse=True)
    scores += [scores[-1]] * (len(places) - len(scores))
    return [replace(one, score=score) for one, score in zip(places, scores, strict=True)]
