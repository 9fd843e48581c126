"""Put what is current before what it changed, among the best candidates of a recall.

Agents seldom revise: they remember the new value, and later ask. So among candidates that answer a
question about equally well and speak of the same thing, the newer one comes first, and the older
one follows it, marked as earlier. Changes that were detected on writing, or confirmed, count
without further evidence, and bring the newer memory along even if the question does not find it
("make that 120"); all other pairs are judged with the question in hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from commonbrain.model import ids
from commonbrain.model.kinds import KINDS
from commonbrain.model.links import DISAGREEMENTS, SURE_FROM, Link, LinkType
from commonbrain.model.memory import Memory
from commonbrain.model.query import Candidate, is_allowed
from commonbrain.model.support import may_dispute, may_outdate
from commonbrain.model.timestamps import show_day
from commonbrain.text.change_words import read_words
from commonbrain.text.changes import (
    JUST_SAID,
    PairFeatures,
    compare,
    is_no_change,
    logistic,
    repeats,
)

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
_COVERED_MIN: Final = 0.3
"""Least share of the older text's words in the newer, unless their cosine is `_COSINE_NEAR`."""
_COSINE_NEAR: Final = 0.6
_COSINE_GAP_MAX: Final = 0.25
"""How much nearer the older text may be to the question, unless half of it is in the newer."""
_COVERED_WELL: Final = 0.5
_OTHER_GAP_MAX: Final = 0.05
"""How much nearer the older text may be where the newer one names another subject, uncued."""
_LENGTH_MAX: Final = 600
"""Characters of a text that states one thing; a longer one is not outdated as a whole."""
_STEPS_MAX: Final = 4
"""Changes of changes that are followed to memories that the question does not find."""
_SUCCESSORS_MAX: Final = 10
"""Links of changes and conflicts of one memory that are looked at, newest first."""
_LINKS_MAX: Final = 100
"""Links read in one step."""
_CACHED_PAIRS: Final = 512
"""Pairs of short texts whose comparison is cached, 1 MB: recalls find the same ones together."""
_ORDERED_FROM: Final = 0.18
"""Probability of a change from which the newer of two goes first: a wrong order costs little."""
_MARKED_FROM: Final = 0.7
"""Probability from which the older is marked: what is marked wrongly is not believed."""
_RETRACTED_FROM: Final = 0.6
"""Share of the older text that a newer one quotes to take it back."""
# Fitted by logistic regression on the pairs of candidates that recall found for the questions of
# half of the 543 cases of `brain eval truth` and of 156 of StateBench's training timelines; those
# for the turns of two LoCoMo conversations, which all hold, served as pairs without a change.
_BIAS: Final = -5.88
_WEIGHTS: Final[Mapping[str, float]] = {
    "cosine": 1.58,
    "cue": 0.93,
    "correction": -0.28,
    "end": 0.19,
    "addition": -2.28,
    "conflict": 1.24,
    "covered": 1.61,
    "news": 0.75,
    "swapped_uncued": -0.13,
    "one_swapped": 0.57,
    "many": -0.73,
    "other_subject": -0.87,
    "other_subject_cued": -1.25,
    "length": 0.15,
    "replacement": 0.40,
    "link": 1.17,
    "only_older_answers": 1.60,
    "only_older_answers_uncued": -1.21,
    "asks_older_subject": -0.52,
    "relevance": 3.68,
    "cosine_gap": 1.18,
    "older_exclaims": -1.45,
    "newer_exclaims": -2.18,
    "further_sentences": -0.41,
}
_PAIR_FEATURES: Final = tuple(one.name for one in fields(PairFeatures) if one.name in _WEIGHTS)


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
    goes to the end of the compared candidates. A newer memory that is trusted less outdates
    nothing, and comes after what it disputes. `meaning` holds the cosines of the question to
    candidates.
    """
    is_about_now = plan.is_about_now and plan.period is None
    if not (plan.query and is_about_now and plan.overrides.is_enabled(STAGE)):
        return list(ranked)
    skills = [one for one in ranked if one.features.get("skill")]
    others = [one for one in ranked if not one.features.get("skill")] if skills else list(ranked)
    near = others[:_COMPARED]
    known = _KnownLinks()
    known.add(graph.links)
    if known.changes:
        later = {one.memory.id: one for one in others[_COMPARED:]}
        near += _bring_successors(tx, plan, near=near, later=later, known=known)
    if len(near) < 2:  # noqa: PLR2004 one candidate has nothing to be compared with
        return list(ranked)
    judge = _Judge(tx, plan, near=near, known=known, meaning=meaning)
    successors, disputed = judge.successors(), judge.disputed()
    if not (successors or disputed):
        return list(ranked)
    compared_ids = {one.memory.id for one in near}
    rest = (one for one in others[_COMPARED:] if one.memory.id not in compared_ids)
    return [*skills, *_reordered(near, successors, disputed=disputed), *rest]


def _reordered(
    near: Sequence[Candidate],
    successors: Mapping[int, tuple[Candidate, float]],
    *,
    disputed: Mapping[int, Candidate],
) -> list[Candidate]:
    """Put each candidate after its successor and what it disputes; mark what is surely outdated."""
    ordered: list[Candidate] = []
    retracted: list[Candidate] = []
    placed: set[int] = set()

    # Each step leads to a memory that is trusted more, or as much and newer, so it ends.
    def place(one: Candidate) -> None:
        if one.memory.id in placed:
            return
        placed.add(one.memory.id)
        if (trusted := disputed.get(one.memory.id)) is not None:
            place(trusted)
        newer, confidence = successors.get(one.memory.id, (one, 0.0))
        place(newer)
        if confidence < _MARKED_FROM:
            ordered.append(one)
            return
        marked = _marked(one, newer.memory, confidence=confidence)
        (retracted if _is_taken_back(one.memory, newer.memory) else ordered).append(marked)

    for one in near:
        place(one)
    scores = sorted((one.score for one in near), reverse=True)
    moved = zip([*ordered, *retracted], scores, strict=True)
    return [replace(one, score=score) for one, score in moved]


def _marked(older: Candidate, newer: Memory, *, confidence: float) -> Candidate:
    shown_id, day = ids.show(ids.MEMORY, newer.id), show_day(newer.occurred_at)
    note = f"{EARLIER}, changed by {shown_id} on {day}"
    features = {**older.features, EARLIER: round(confidence, 3)}
    return replace(older, features=features, notes=(note, *older.notes))


def mark_earlier(
    considered: Sequence[Candidate], ordered: Iterable[Candidate]
) -> Sequence[Candidate]:
    """Give candidates the feature `EARLIER` that they got when they were ordered, for the trace."""
    marks = {one.memory.id: one.features[EARLIER] for one in ordered if EARLIER in one.features}
    if not marks:
        return considered
    return [
        replace(one, features={**one.features, EARLIER: marks[one.memory.id]})
        if one.memory.id in marks
        else one
        for one in considered
    ]


def _is_taken_back(older: Memory, newer: Memory) -> bool:
    """Return whether the newer memory quotes the older one to deny it."""
    if max(len(older.body), len(newer.body)) > _LENGTH_MAX:
        return False
    return compare(older.body, newer.body, cosine=1.0).quotation >= _RETRACTED_FROM


@dataclass(frozen=True, slots=True)
class _KnownLinks:
    """What links say about pairs of an older and a newer memory, by id."""

    changes: dict[tuple[int, int], Link] = field(default_factory=dict[tuple[int, int], Link])
    """Links that say that both do not hold."""
    settled: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])
    """Pairs of which a user said that both hold."""

    def add(self, links: Iterable[Link]) -> None:
        """Read further links."""
        for link in links:
            pair = min(link.from_id, link.to_id), max(link.from_id, link.to_id)
            if link.type is LinkType.CHANGES:
                self.changes[pair] = link
            elif link.type in DISAGREEMENTS:
                self.changes.setdefault(pair, link)
            elif link.type is LinkType.RELATES_TO:
                self.settled.add(pair)

    def change_strength(self, older: Memory, newer: Memory) -> float:
        """Return the strength of a detected or confirmed change, 0 without one."""
        link = self.changes.get((older.id, newer.id))
        return link.strength if link is not None and link.type is LinkType.CHANGES else 0.0


def _bring_successors(
    tx: Transaction,
    plan: QueryPlan,
    *,
    near: Sequence[Candidate],
    later: Mapping[int, Candidate],
    known: _KnownLinks,
) -> list[Candidate]:
    """Return the newest memory that changed each compared one, if it is not among them.

    Each gets the score of the memory that it changed, and its own changes are followed in turn.
    `later` holds the candidates that are not compared.
    """
    present = {one.memory.id for one in near}
    brought: list[Candidate] = []
    # The graph has the links of the best candidates only; read those of newer memories too.
    newer_present = {newer for _, newer in known.changes} & present
    known.add(tx.links.touching(sorted(newer_present), limit=_LINKS_MAX))
    sources = [one for one in near if KINDS[one.memory.kind].can_change]
    for _ in range(_STEPS_MAX):
        newer_ids = {one.memory.id: _newest_first(known, one.memory) for one in sources}
        linked_ids = {id_ for each in newer_ids.values() for id_ in each}
        if linked_ids <= present:
            break
        memories = tx.memories.get(sorted(linked_ids))
        newest_of: dict[int, Candidate] = {}
        for older in sources:
            # A newer one that the caller may not see, or that is trusted less, hides no other.
            newest = next(
                (
                    memories[id_]
                    for id_ in newer_ids[older.memory.id]
                    if id_ in memories
                    and is_allowed(memories[id_], plan.caller, criteria=plan.filter, now=plan.now)
                    and may_outdate(memories[id_], older.memory)
                ),
                None,
            )
            if newest is None or newest.id in present:
                continue
            one = later.get(newest.id, Candidate(memory=newest, features={LINKED: 1.0}, score=0.0))
            newest_of.setdefault(newest.id, replace(one, score=older.score))
        brought += newest_of.values()
        present |= newest_of.keys()
        sources = list(newest_of.values())
        known.add(tx.links.touching(list(newest_of), limit=_LINKS_MAX))
    return brought


def _newest_first(known: _KnownLinks, older: Memory) -> Sequence[int]:
    newer_ids = (newer for one, newer in known.changes if one == older.id)
    return sorted(newer_ids, reverse=True)[:_SUCCESSORS_MAX]


_compare: Final = lru_cache(_CACHED_PAIRS)(compare)


def _follows(older: Memory, newer: Memory) -> bool:
    """Return whether one session stored the newer memory soon after the older."""
    is_of_session = newer.session is not None and newer.session == older.session
    return is_of_session and newer.recorded_at - older.recorded_at <= JUST_SAID


class _Judge:
    """Finds for each of the best candidates the newer one that changed it, if any."""

    def __init__(
        self,
        tx: Transaction,
        plan: QueryPlan,
        *,
        near: Sequence[Candidate],
        known: _KnownLinks,
        meaning: Mapping[int, float],
    ) -> None:
        self.query = plan.query
        self.near = near
        self.known = known
        self.meaning = meaning
        near_ids = [one.memory.id for one in near]
        cosines = tx.index.cosines(near_ids)
        self.cosine = {
            (one, other): cosine
            for one, row in zip(near_ids, cosines, strict=True)
            for other, cosine in zip(near_ids, row, strict=True)
        }
        # Most pairs are far apart, and no change is possible between them.
        near_pairs = {pair for pair, cosine in self.cosine.items() if cosine >= _COSINE_MIN}
        self.comparable = near_pairs | known.changes.keys()

    def successors(self) -> dict[int, tuple[Candidate, float]]:
        """Map outdated memories to the candidate that most probably changed them."""
        changed: dict[int, tuple[Candidate, float]] = {}
        for older in self.near:
            if not KINDS[older.memory.kind].can_change:
                continue
            judged = (
                (newer, self._confidence(older, newer))
                for newer in self.near
                if (older.memory.id, newer.memory.id) in self.comparable
                and may_outdate(newer.memory, older.memory)
            )
            best = max(judged, key=lambda one: one[1], default=None)
            if best is not None and best[1] >= _ORDERED_FROM:
                changed[older.memory.id] = best
        return self._with_repetitions(changed)

    def _with_repetitions(
        self, changed: Mapping[int, tuple[Candidate, float]]
    ) -> dict[int, tuple[Candidate, float]]:
        """Add what repeats a memory that is surely outdated: an answer often echoes what was said.

        The change must be newer than the repetition and trusted as much. It takes the place of a
        less probable one.
        """
        added = dict(changed)
        for older in self.near:
            newer, confidence = changed.get(older.memory.id, (older, 0.0))
            if confidence < _MARKED_FROM:
                continue
            for echo in self.near:
                _, known_confidence = added.get(echo.memory.id, (echo, 0.0))
                if (
                    known_confidence < _MARKED_FROM
                    and may_outdate(newer.memory, echo.memory)
                    and KINDS[echo.memory.kind].can_change
                    and not self._is_settled(echo, newer)
                    and repeats(echo.memory.body, older.memory.body)
                    and not is_no_change(echo.memory.body, newer.memory.body)
                ):
                    added[echo.memory.id] = newer, confidence
        return added

    def disputed(self) -> dict[int, Candidate]:
        """Map memories to the older one that they would change if they were trusted as much."""
        disputes: dict[int, Candidate] = {}
        trusts = {one.memory.id: one.memory.trust.weight for one in self.near}
        if len(set(trusts.values())) == 1:
            return disputes
        for newer in self.near:
            trust = trusts[newer.memory.id]
            judged = (
                (older, self._confidence(older, newer))
                for older in self.near
                if trust < trusts[older.memory.id]
                and (older.memory.id, newer.memory.id) in self.comparable
                and may_dispute(newer.memory, older.memory)
            )
            best = max(judged, key=lambda one: one[1], default=None)
            if best is not None and best[1] >= _ORDERED_FROM:
                disputes[newer.memory.id] = best[0]
        return disputes

    def _confidence(self, older: Candidate, newer: Candidate) -> float:
        if self._is_settled(older, newer):
            return 0.0
        # A sure change was judged with what its session had said before, or was confirmed.
        strength = self.known.change_strength(older.memory, newer.memory)
        if strength >= SURE_FROM:
            return strength
        features = self.features(older, newer)
        if features is None:
            return 0.0
        return logistic(_BIAS + sum(weight * features[name] for name, weight in _WEIGHTS.items()))

    def _is_settled(self, older: Candidate, newer: Candidate) -> bool:
        return (older.memory.id, newer.memory.id) in self.known.settled

    def features(self, older: Candidate, newer: Candidate) -> Mapping[str, float] | None:
        """Return what speaks for a change, or None if there is none."""
        old, new = older.memory, newer.memory
        cosine = self.cosine[old.id, new.id]
        is_linked = (old.id, new.id) in self.known.changes
        if max(len(old.body), len(new.body)) > _LENGTH_MAX or is_no_change(old.body, new.body):
            return None
        pair = _compare(old.body, new.body, cosine=cosine, follows=_follows(old, new))
        cosine_gap = self.meaning.get(old.id, 0.0) - self.meaning.get(new.id, 0.0)
        is_alike = pair.covered >= _COVERED_MIN or cosine >= _COSINE_NEAR
        answers = pair.covered >= _COVERED_WELL or cosine_gap <= _COSINE_GAP_MAX
        if not is_linked and not (is_alike and answers):
            return None
        # Few pairs get this far, so that most questions need not be read.
        question = read_words(self.query).items
        here, there = read_words(old.body), read_words(new.body)
        only_older = len((question & here.items) - there.items) / (len(question) or 1)
        own_subject = (here.subject | here.reading.names) - there.items
        asks_older = bool(question & own_subject)
        is_other_subject = pair.other_subject + pair.other_subject_cued > 0
        prefers_older = asks_older or (pair.cue == 0 and cosine_gap > _OTHER_GAP_MAX)
        if is_other_subject and prefers_older:
            return None
        return {
            **{name: getattr(pair, name) for name in _PAIR_FEATURES},
            "link": self.known.change_strength(old, new),
            "only_older_answers": only_older,
            "only_older_answers_uncued": (1 - pair.cue) * only_older,
            "asks_older_subject": float(asks_older),
            "relevance": min(older.score, newer.score),
            "cosine_gap": cosine_gap,
        }
