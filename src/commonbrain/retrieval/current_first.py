"""Put what is current before what it changed, among the best candidates of a recall.

Agents seldom revise: they remember the new value, and later ask. So among candidates that answer a
question about equally well and speak of the same thing, the newer one comes first, and the older
one follows it, marked as earlier. Changes that were detected on writing, or confirmed, count
without further evidence, and bring the newer memory along even if the question does not find it
("make that 120"); all other pairs are judged with the question in hand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Final

from commonbrain.model import ids
from commonbrain.model.kinds import KINDS
from commonbrain.model.links import DISAGREEMENTS, Link, LinkType
from commonbrain.model.memory import Memory
from commonbrain.model.query import Candidate, is_allowed
from commonbrain.model.support import may_outdate
from commonbrain.model.timestamps import show_day
from commonbrain.text.changes import (
    PairFeatures,
    compare,
    is_no_change,
    logistic,
    read_words,
)
from commonbrain.text.repetition import content_stems

if TYPE_CHECKING:
    from commonbrain.retrieval.fusion import LinkExpansion
    from commonbrain.retrieval.query_plan import QueryPlan
    from commonbrain.storage.store import Transaction

STAGE: Final = "current_first"
LINKED: Final = "linked"
"""The feature of a candidate that links brought."""
EARLIER: Final = "earlier"
"""The feature of an outdated candidate: how probable it is that a newer one changed it."""
_COMPARED: Final = 10
"""Best candidates that are compared with each other; later ones are seldom shown in full."""
_COSINE_MIN: Final = 0.3
"""Texts further apart speak of different things."""
_LENGTH_MAX: Final = 600
"""Characters of a text that states one thing; a longer one is not outdated as a whole."""
_STEPS_MAX: Final = 4
"""Changes of changes that are followed to memories that the question does not find."""
_SUCCESSORS_MAX: Final = 5
"""Memories that changed one memory, of which the newest visible one is brought."""
_LINKS_MAX: Final = 100
"""Links read in one step."""
_THRESHOLD: Final = 0.5
_RETRACTED_FROM: Final = 0.6
"""Share of the older text that a newer one quotes to take it back."""
_ASKS_CURRENT: Final = re.compile(
    r"\b(?:current\w*|now|today|still|latest|actual\w*|any ?more|these days|at the moment|final)\b",
    re.IGNORECASE,
)
_GAPS: Final = (-0.5, 0.6)
"""Bounds of the difference in score that the weights were fitted on."""

# Fitted by logistic regression on the pairs of candidates that recall found for the questions of
# half of 185 cases of changes written for it, and of half of StateBench's training timelines.
_BIAS: Final = -5.23
_WEIGHTS: Final[Mapping[str, float]] = {
    "cosine": 5.27,
    "cue": 1.34,
    "correction": 1.63,
    "end": 1.94,
    "addition": -1.38,
    "negation": 0.51,
    "values": 1.06,
    "many": -2.04,
    "same_place": 2.16,
    "other_subject": -1.22,
    "quotation": 1.03,
    "ellipsis": 0.59,
    "length": 0.76,
    "overlap": 0.52,
    "cued_overlap": 0.06,
    "link": 5.0,
    "conflicting": 5.0,
    "only_older_answers": 2.32,
    "asks_older_subject": -1.8,
    "asks_current": 1.52,
    "relevance": 1.03,
    "score_gap_uncued": 2.59,
    "cosine_gap_uncued": -2.32,
    "only_older_answers_uncued": -2.31,
}
_PAIR_FEATURES: Final = tuple(one.name for one in fields(PairFeatures))


def put_current_first(
    tx: Transaction,
    plan: QueryPlan,
    *,
    ranked: Sequence[Candidate],
    graph: LinkExpansion,
    meaning: Mapping[int, float],
) -> list[Candidate]:
    """Reorder candidates so that each outdated one follows the memory that changed it.

    Skills stay first, and each rank keeps its score. An outdated candidate gets the feature
    `EARLIER`, and a note that names the newer memory. What a newer memory quotes to take it back
    goes to the end of the compared candidates. `meaning` holds the cosines of the question to
    candidates.
    """
    is_about_now = plan.is_about_now and plan.period is None
    if not (plan.query and is_about_now and plan.overrides.is_enabled(STAGE)):
        return list(ranked)
    skills = [one for one in ranked if one.features.get("skill")]
    others = [one for one in ranked if not one.features.get("skill")] if skills else list(ranked)
    near = others[:_COMPARED]
    changes = _changes_of(graph.links)
    if changes:
        later = {one.memory.id: one for one in others[_COMPARED:]}
        near += _bring_successors(tx, plan, near=near, ranked=later, changes=changes)
    if len(near) < 2:  # noqa: PLR2004 one candidate has nothing to be compared with
        return list(ranked)
    compared_ids = {one.memory.id for one in near}
    rest = [one for one in others[_COMPARED:] if one.memory.id not in compared_ids]
    judge = _Judge(tx=tx, plan=plan, near=near, changes=changes, links=graph.links, meaning=meaning)
    successors = judge.successors()
    if not successors:
        return list(ranked)
    ordered: list[Candidate] = []
    retracted: list[Candidate] = []
    placed: set[int] = set()

    def place(one: Candidate) -> None:
        if one.memory.id in placed:
            return
        placed.add(one.memory.id)
        successor = successors.get(one.memory.id)
        if successor is None:
            ordered.append(one)
            return
        newer, confidence = successor
        place(newer)
        marked = replace(
            one,
            features={**one.features, EARLIER: round(confidence, 3)},
            notes=(_note(newer.memory), *one.notes),
        )
        is_retracted = (
            compare(one.memory.body, newer.memory.body, cosine=1.0).quotation >= _RETRACTED_FROM
        )
        (retracted if is_retracted else ordered).append(marked)

    for one in near:
        place(one)
    scores = sorted((one.score for one in near), reverse=True)
    moved = zip([*ordered, *retracted], scores, strict=True)
    return [*skills, *(replace(one, score=score) for one, score in moved), *rest]


def _changes_of(links: Iterable[Link]) -> dict[tuple[int, int], Link]:
    """Map pairs of an older and a newer memory to the link that says that the newer one holds."""
    return {
        (min(link.from_id, link.to_id), max(link.from_id, link.to_id)): link
        for link in links
        if link.type in DISAGREEMENTS
    }


def _bring_successors(
    tx: Transaction,
    plan: QueryPlan,
    *,
    near: Sequence[Candidate],
    ranked: Mapping[int, Candidate],
    changes: dict[tuple[int, int], Link],
) -> list[Candidate]:
    """Return the newest memory that changed each compared one, if it is not among them.

    It gets the score of the memory that it changed. The links of what is brought are added to
    `changes`, and followed in turn.
    """
    known = {one.memory.id for one in near}
    brought: list[Candidate] = []
    steps = [one for one in near if KINDS[one.memory.kind].can_change]
    for _ in range(_STEPS_MAX):
        newer_of = {
            one.memory.id: sorted(
                (newer for older, newer in changes if older == one.memory.id), reverse=True
            )[:_SUCCESSORS_MAX]
            for one in steps
        }
        new_ids = {newer for each in newer_of.values() for newer in each} - known
        if not new_ids:
            break
        memories = tx.memories.get(sorted(new_ids))
        found: list[Candidate] = []
        for older in steps:
            newest = next(
                (
                    memory
                    for id_ in newer_of[older.memory.id]
                    if (memory := memories.get(id_)) is not None
                    and is_allowed(memory, plan.caller, criteria=plan.filter, now=plan.now)
                    and may_outdate(memory, older.memory)
                ),
                None,
            )
            if newest is not None and newest.id not in known:
                known.add(newest.id)
                found.append(
                    replace(ranked[newest.id], score=older.score)
                    if newest.id in ranked
                    else Candidate(memory=newest, features={LINKED: 1.0}, score=older.score)
                )
        brought += found
        steps = found
        further = tx.links.touching([one.memory.id for one in found], limit=_LINKS_MAX)
        changes.update(_changes_of(further))
    return brought


def _note(newer: Memory) -> str:
    return (
        f"{EARLIER}, changed by {ids.show(ids.MEMORY, newer.id)} on {show_day(newer.occurred_at)}"
    )


class _Judge:
    """Finds for each of the best candidates the newer one that changed it, if any."""

    def __init__(
        self,
        tx: Transaction,
        plan: QueryPlan,
        *,
        near: Sequence[Candidate],
        changes: Mapping[tuple[int, int], Link],
        links: Sequence[Link],
        meaning: Mapping[int, float],
    ) -> None:
        self.question_stems = content_stems(plan.query)
        self.asks_current = float(_ASKS_CURRENT.search(plan.query) is not None)
        self.near = near
        self.meaning = meaning
        self.changes = changes
        self.settled = {
            frozenset((link.from_id, link.to_id))
            for link in links
            if link.type is LinkType.RELATES_TO
        }
        near_ids = [one.memory.id for one in near]
        cosines = tx.index.cosines(near_ids)
        self.cosine = {
            (one, other): cosines[row][column]
            for row, one in enumerate(near_ids)
            for column, other in enumerate(near_ids)
        }

    def successors(self) -> dict[int, tuple[Candidate, float]]:
        """Map outdated memories to the candidate that most probably changed them."""
        changed: dict[int, tuple[Candidate, float]] = {}
        for older in self.near:
            if not KINDS[older.memory.kind].can_change:
                continue
            judged = (
                (newer, self._confidence(older, newer))
                for newer in self.near
                if may_outdate(newer.memory, older.memory)
            )
            best = max(judged, key=lambda one: one[1], default=None)
            if best is not None and best[1] >= _THRESHOLD:
                changed[older.memory.id] = best
        return changed

    def _confidence(self, older: Candidate, newer: Candidate) -> float:
        features = self.features(older, newer)
        if features is None:
            return 0.0
        return logistic(
            _BIAS + sum(weight * features[name] for name, weight in _WEIGHTS.items() if weight)
        )

    def features(self, older: Candidate, newer: Candidate) -> Mapping[str, float] | None:
        """Return what speaks for a change, or None if there is none."""
        old, new = older.memory, newer.memory
        if frozenset((old.id, new.id)) in self.settled or is_no_change(old.body, new.body):
            return None
        link = self.changes.get((old.id, new.id))
        cosine = self.cosine[old.id, new.id]
        is_far = cosine < _COSINE_MIN or max(len(old.body), len(new.body)) > _LENGTH_MAX
        if is_far and link is None:
            return None
        pair = compare(old.body, new.body, cosine=cosine)
        here, there = read_words(old.body), read_words(new.body)
        count = len(self.question_stems) or 1
        only_older = len((self.question_stems & here.stems) - there.stems) / count
        only_newer = len((self.question_stems & there.stems) - here.stems) / count
        own_subject = (here.subject | here.reading.names) - there.stems
        low, high = _GAPS
        gap = min(high, max(low, older.score - newer.score))
        cosine_gap = self.meaning.get(old.id, 0.0) - self.meaning.get(new.id, 0.0)
        uncued = 1 - pair.cue
        is_change = link is not None and link.type is LinkType.CHANGES
        return {
            **{name: getattr(pair, name) for name in _PAIR_FEATURES},
            "link": link.strength if link is not None and is_change else 0.0,
            "conflicting": float(link is not None and not is_change),
            "only_older_answers": only_older,
            "only_newer_answers": only_newer,
            "asks_older_subject": float(bool(self.question_stems & own_subject)),
            "asks_current": self.asks_current,
            "relevance": min(older.score, newer.score),
            "score_gap": gap,
            "cosine_gap": cosine_gap,
            # As far as the newer text does not announce a change.
            "score_gap_uncued": uncued * gap,
            "cosine_gap_uncued": uncued * cosine_gap,
            "only_older_answers_uncued": uncued * only_older,
        }
