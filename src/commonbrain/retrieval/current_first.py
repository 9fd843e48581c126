"""Put what is current before what it changed, among the best candidates of a recall.

Agents seldom revise: they remember the new value, and later ask. So among candidates that answer a
question about equally well and speak of the same thing, the newer one comes first, and the older
one follows it, marked as earlier. Changes that were detected on writing, or confirmed, count
without further evidence, and bring the newer memory along even if the question does not find it
("make that 120"); all other pairs are judged with the question in hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Final

from commonbrain.model import ids
from commonbrain.model.kinds import KINDS
from commonbrain.model.links import DISAGREEMENTS, Link, LinkType, is_sure
from commonbrain.model.memory import Memory
from commonbrain.model.query import Candidate, is_allowed
from commonbrain.model.support import may_outdate
from commonbrain.model.timestamps import show_day
from commonbrain.text.changes import (
    JUST_SAID,
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
_ORDERED_FROM: Final = 0.18
"""Probability of a change from which the newer of two goes first: a wrong order costs little."""
_MARKED_FROM: Final = 0.7
"""Probability from which the older is marked: what is marked wrongly is not believed."""
_RETRACTED_FROM: Final = 0.6
"""Share of the older text that a newer one quotes to take it back."""
# Fitted by logistic regression on the pairs of candidates that recall found for the questions of
# half of the 543 cases of `brain eval truth` and of 156 of StateBench's training timelines; those
# for the turns of two LoCoMo conversations, which all hold, served as pairs without a change.
_BIAS: Final = -5.74
_WEIGHTS: Final[Mapping[str, float]] = {
    "cosine": 0.91,
    "cue": 0.34,
    "correction": 0.44,
    "end": 0.30,
    "addition": -2.39,
    "conflict": 1.34,
    "covered": 2.07,
    "news": 0.84,
    "swapped_uncued": -0.31,
    "one_swapped": 0.69,
    "many": -0.99,
    "other_subject": -1.30,
    "other_subject_cued": -0.90,
    "length": -0.34,
    "link": 0.80,
    "only_older_answers": 1.31,
    "asks_older_subject": -0.52,
    "relevance": 3.83,
    "cosine_gap": 1.53,
    "only_older_answers_uncued": -1.06,
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
        if confidence < _MARKED_FROM:
            ordered.append(one)
            return
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


def _is_sure_change(link: Link) -> bool:
    return link.type is LinkType.CHANGES and is_sure(link)


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


def _follows(older: Memory, newer: Memory) -> bool:
    """Return whether one session stored the newer memory soon after the older."""
    is_of_session = newer.session is not None and newer.session == older.session
    return is_of_session and newer.recorded_at - older.recorded_at <= JUST_SAID


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
            if best is not None and best[1] >= _ORDERED_FROM:
                changed[older.memory.id] = best
        return changed

    def _confidence(self, older: Candidate, newer: Candidate) -> float:
        features = self.features(older, newer)
        if features is None:
            return 0.0
        link = self.changes.get((older.memory.id, newer.memory.id))
        sure = link.strength if link is not None and _is_sure_change(link) else 0.0
        total = _BIAS + sum(weight * features[name] for name, weight in _WEIGHTS.items())
        return max(sure, logistic(total))

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
        pair = compare(old.body, new.body, cosine=cosine, follows=_follows(old, new))
        here, there = read_words(old.body), read_words(new.body)
        count = len(self.question_stems) or 1
        only_older = len((self.question_stems & here.stems) - there.stems) / count
        own_subject = (here.subject | here.reading.names) - there.stems
        return {
            **{name: getattr(pair, name) for name in _PAIR_FEATURES},
            "link": link.strength if link is not None and link.type is LinkType.CHANGES else 0.0,
            "only_older_answers": only_older,
            "only_older_answers_uncued": (1 - pair.cue) * only_older,
            "asks_older_subject": float(bool(self.question_stems & own_subject)),
            "relevance": min(older.score, newer.score),
            "cosine_gap": self.meaning.get(old.id, 0.0) - self.meaning.get(new.id, 0.0),
        }
