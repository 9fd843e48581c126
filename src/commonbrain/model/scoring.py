"""Scoring: confidence, strength and salience of a memory."""

import math
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from commonbrain.model.kinds import KINDS, Atom, Kind
from commonbrain.model.memory import CURRENT_STATES, Memory, State
from commonbrain.model.trust import Trust

_CONFIDENCE: Final = {
    Trust.TRUSTED_TOOL: 0.82,
    Trust.USER_CLAIM: 0.66,
    Trust.UNTRUSTED_WEB: 0.38,
}
_PER_HEDGE: Final = 0.05
_PENALTY: Final = 1 / 3
_PENALTIES: Final = ("contradicted", "needs_review", "stale")
_FLOOR: Final = 0.1
DORMANT_BELOW: Final = 0.1
"""A fact that is never accessed falls below it after 23 days."""
_USED_MAX: Final = 5.0
"""Reached at 15 accesses: the half-life of such a fact is 35 days."""
_VOTES_TO_DOUBLE: Final = 3
ACCESSES_PER_RECALL: Final = 3
"""How many of the best items of a recall count as accessed.

If all did, often shown memories would outrank answers: see docs/explanation/decisions.md.
"""
_HEDGE: Final = re.compile(
    r"\b(?:maybe|perhaps|possibly|probably|might|could be|i think|i guess|seems?|apparently"
    r"|not sure|unclear|roughly|likely)\b",
    re.IGNORECASE,
)


def confidence(kind: Kind, text: str, *, trust: Trust, is_sourced: bool) -> float:
    """Return the probability that a text is true, 0..1.

    By trust, less per hedge, capped if unsourced.
    """
    hedged = _CONFIDENCE[trust] - _PER_HEDGE * len(_HEDGE.findall(text))
    ceiling = 1.0 if is_sourced else KINDS[kind].unsourced_confidence_max
    return round(max(_FLOOR, min(hedged, ceiling)), 4)


def doubted(confidence: float, features: Mapping[str, float]) -> float:
    """Return the confidence as read: a third less for each of three penalties; nothing is stored.

    The penalties are: a preferred memory contradicts it (in proportion to the link), it depends on
    an invalid memory, or it is stale, a claim that was not used for so long that it is dormant.
    Each ends with its cause.
    """
    share = 1.0
    for name in _PENALTIES:
        share *= 1 - _PENALTY * features.get(name, 0.0)
    return round(confidence * share, 4)


def confidence_of(atom: Atom, *, of: Kind, trust: Trust) -> float:
    """Return the probability that an atom extracted from a text is true, 0..1.

    At most 0.6 in a message and 0.7 elsewhere, since extraction may err, and at most the confidence
    of its source.
    """
    own = confidence(Kind.ATOM, atom.body, trust=trust, is_sourced=True)
    return min(KINDS[of].atom_confidence_max, own)


def strength(memory: Memory, now: datetime) -> float:
    """Return the strength of a memory, 0..1: 2^(-age / half-life), by the time of last access.

    `half_life` depends on kind, use, votes and importance; pinned memories never decay.
    """
    lasting = half_life(memory)
    if lasting is None or memory.pinned:
        return 1.0
    return 2.0 ** -(max((now - last_touched(memory)) / lasting, 0.0))


def half_life(memory: Memory) -> timedelta | None:
    """Return the time in which a memory loses half its strength; None if it never decays.

    The half-life of the kind times 1 + log2(1 + accesses), at most 5; times 2^(rating / 3), between
    1/2 and 2; times 2^(salience - the kind's default), between 1/2 and 2. Each factor is 1 for a
    new memory and never decreases with accesses, votes or salience. The logarithm gives the first
    accesses most weight, as in the power law of practice; the limits keep any one signal from
    dominating.
    """
    policy = KINDS[memory.kind]
    if policy.half_life is None:
        return None
    used = min(1 + math.log2(1 + memory.access_count), _USED_MAX)
    liked = 2.0 ** max(-1.0, min(memory.rating / _VOTES_TO_DOUBLE, 1.0))
    salient = 2.0 ** max(-1.0, min(memory.salience - policy.salience, 1.0))
    return policy.half_life * (used * liked * salient)


def last_touched(memory: Memory) -> datetime:
    """Return the later of recording and last access, so that imported history is not weak."""
    return max(memory.recorded_at, memory.last_access_at or memory.recorded_at)


def is_archived(memory: Memory, now: datetime) -> bool:
    """Return whether a memory is archived: by state, or unread for as long as its kind allows."""
    after = KINDS[memory.kind].archived_after
    is_unread = after is not None and now - last_touched(memory) >= after and not memory.pinned
    return memory.state is State.ARCHIVED or (memory.state is State.ACTIVE and is_unread)


def is_dormant(memory: Memory, now: datetime) -> bool:
    """Return whether a current memory is dormant: archived, or too weak; access restores strength.

    Superseded, forgotten, expired and pending memories are not dormant.
    """
    is_current = memory.state in CURRENT_STATES and not memory.is_over(now)
    return is_current and effective_strength(memory, now) == 0.0


def effective_strength(memory: Memory, now: datetime) -> float:
    """Return the strength of a memory; 0 if it is dormant."""
    left = strength(memory, now)
    if memory.state not in CURRENT_STATES or memory.is_over(now):
        return left
    return 0.0 if left < DORMANT_BELOW or is_archived(memory, now) else left


LOW: Final = 0.2
"""New memories below this salience start archived, unless the tenant sets another threshold."""

_PER_IMPORTANT_WORD: Final = 0.03
"""From the heuristics of the system whose scales for salience and confidence are used here."""
_IMPORTANT_WORDS_MAX: Final = 5
"""Beyond this, further important words do not count."""
_OPEN_DEADLINE: Final = 0.1
"""As much as three important words: a commitment with a date."""
_PER_RECURRENCE: Final = 0.02
_RECURRENCES_MAX: Final = 10
"""Daily events are known after ten days: together as much as about six important words."""
_PER_ENTITY: Final = 0.01
_ENTITIES_MAX: Final = 5
"""Names connect memories, but any log line has some, so they count little."""

_IMPORTANT: Final = re.compile(
    r"\b(?:must|shall|always|never|required?|mandatory|forbidden|prohibited|not allowed|only ever"
    r"|promised?|committed|agreed|decided|guarantee[ds]?|deadline|overdue|due by|owe[ds]?"
    r"|important|critical|urgent|blocker|security|breaking)\b",
    re.IGNORECASE,
)
"""Commitments, constraints, and words with which authors mark importance."""


def salience(
    kind: Kind, text: str, *, due: bool = False, recurrences: int = 0, entities: int = 0
) -> float:
    """Return the salience of a memory, 0..1; it never decreases with any of these.

    Args:
        kind: sets the initial value.
        text: its important words are counted, each position once.
        due: whether it is an open task with a deadline.
        recurrences: how often it recurred; 0 for the first time.
        entities: the number of people, topics and references.

    """
    words = min(sum(1 for _ in _IMPORTANT.finditer(text)), _IMPORTANT_WORDS_MAX)
    raised = (
        _PER_IMPORTANT_WORD * words
        + _OPEN_DEADLINE * due
        + _PER_RECURRENCE * min(max(recurrences, 0), _RECURRENCES_MAX)
        + _PER_ENTITY * min(max(entities, 0), _ENTITIES_MAX)
    )
    return round(min(KINDS[kind].salience + raised, 1.0), 4)


def recurring(salience: float, *, recurrences: int) -> float:
    """Raise the salience of a recurring event, 0..1, for the first ten times."""
    if recurrences > _RECURRENCES_MAX:
        return salience
    return round(min(salience + _PER_RECURRENCE, 1.0), 4)
