"""Where a memory's confidence and strength start and how they move."""

import math
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from commonbrain.model.kinds import CONFIDENCE, CONFIDENCE_OF_MESSAGE, KINDS, Atom, Kind
from commonbrain.model.memory import CURRENT_STATES, Memory, State
from commonbrain.model.trust import Trust

_CONFIDENCE: Final = {
    Trust.TRUSTED_TOOL: 0.82,
    Trust.USER_CLAIM: 0.66,
    Trust.UNTRUSTED_WEB: 0.38,
}
_PER_HEDGE: Final = 0.05
_PER_DOUBT: Final = 1 / 3
_DOUBTS: Final = ("contradicted", "needs_review", "stale")
_UNSOURCED_FACT_MAX: Final = 0.6
_FLOOR: Final = 0.1
DORMANT_BELOW: Final = 0.1
"""An untouched fact falls below it after 23 days."""
_USED_MAX: Final = 5.0
"""Reached by 15 accesses: a fact of that use halves in 35 days."""
_VOTES_TO_DOUBLE: Final = 3
WOKEN_BY_RECALL: Final = 3
"""How many of the best that a recall shows count as accessed; the rest only keep them company.

Where all are woken, what is often shown outranks what answers, see docs/explanation/decisions.md.
"""
_HEDGE: Final = re.compile(
    r"\b(?:maybe|perhaps|possibly|probably|might|could be|i think|i guess|seems?|apparently"
    r"|not sure|unclear|roughly|likely)\b",
    re.IGNORECASE,
)


def confidence(kind: Kind, text: str, *, trust: Trust, is_sourced: bool) -> float:
    """Say how likely a text is true, 0..1: by trust, less for each hedge, capped unsourced."""
    hedged = _CONFIDENCE[trust] - _PER_HEDGE * len(_HEDGE.findall(text))
    ceiling = 1.0 if is_sourced or kind is not Kind.FACT else _UNSOURCED_FACT_MAX
    return round(max(_FLOOR, min(hedged, ceiling)), 4)


def doubted(confidence: float, features: Mapping[str, float]) -> float:
    """Give a confidence as it is read: a third less for each of three doubts, nothing is stored.

    The doubts are that something preferable contradicts it, as strongly as that is linked, that
    what it rests on has fallen, and that it is stale: a claim that nobody has used for so long that
    it sleeps may be out of date. Each ends with its cause.
    """
    left = math.prod(1 - _PER_DOUBT * features.get(doubt, 0.0) for doubt in _DOUBTS)
    return round(confidence * left, 4)


def confidence_of(atom: Atom, *, of: Kind, trust: Trust) -> float:
    """Say how likely an atom is true that was found in a text of a kind, 0..1.

    No more than 0.6 in a message and 0.7 elsewhere, since what found it may err, and no more than
    anything else that its source says.
    """
    most = CONFIDENCE_OF_MESSAGE if of is Kind.MESSAGE else CONFIDENCE
    return min(most, confidence(Kind.ATOM, atom.body, trust=trust, is_sourced=True))


def strength(memory: Memory, now: datetime) -> float:
    """Say how fresh a memory is, 0..1: 2^(-age / half-life), age since it was last touched.

    The half-life of its kind is lengthened by use, votes and weight, see `half_life`; what has none
    and what is pinned never fades.
    """
    lasting = half_life(memory)
    if lasting is None or memory.pinned:
        return 1.0
    return 2.0 ** -(max((now - last_touched(memory)) / lasting, 0.0))


def half_life(memory: Memory) -> timedelta | None:
    """Give the time in which a memory loses half its strength; None when it never does.

    The kind's half-life times 1 + log2(1 + accesses), at most 5; times 2^(rating / 3), between 1/2
    and 2; times 2^(salience - the kind's own), between 1/2 and 2. Each factor is 1 for a memory
    as it is born and none lowers what more accesses, votes or salience give. The logarithm lets
    the first accesses count most, as in the power law of practice; the bounds keep any one signal
    from making a memory immortal or gone.
    """
    policy = KINDS[memory.kind]
    if policy.half_life is None:
        return None
    used = min(1 + math.log2(1 + memory.access_count), _USED_MAX)
    liked = 2.0 ** max(-1.0, min(memory.rating / _VOTES_TO_DOUBLE, 1.0))
    weighty = 2.0 ** max(-1.0, min(memory.salience - policy.salience, 1.0))
    return policy.half_life * (used * liked * weighty)


def last_touched(memory: Memory) -> datetime:
    """Give the later of recording and last access, so that imported history is not born faded."""
    return max(memory.recorded_at, memory.last_access_at or memory.recorded_at)


def is_archived(memory: Memory, now: datetime) -> bool:
    """Say whether a memory rests in the archive: put there, or unread for as long as its kind."""
    after = KINDS[memory.kind].archived_after
    is_unread = after is not None and now - last_touched(memory) >= after and not memory.pinned
    return memory.state is State.ARCHIVED or (memory.state is State.ACTIVE and is_unread)


def is_dormant(memory: Memory, now: datetime) -> bool:
    """Say whether a memory that holds sleeps: archived, or too weak; any access wakes the weak.

    What is superseded, forgotten, expired or awaits review is not asleep and never wakes so.
    """
    return _is_asleep(memory, now, held=strength(memory, now))


def waking(memory: Memory, now: datetime) -> float:
    """Give the strength of a memory, 0 while it sleeps, see `is_dormant`."""
    held = strength(memory, now)
    return 0.0 if _is_asleep(memory, now, held=held) else held


def _is_asleep(memory: Memory, now: datetime, *, held: float) -> bool:
    if memory.state not in CURRENT_STATES or memory.is_over(now):
        return False
    return is_archived(memory, now) or held < DORMANT_BELOW


LOW: Final = 0.2
"""Below it a memory starts archived, unless its tenant says another threshold."""

_PER_IMPORTANT_WORD: Final = 0.03
"""From the heuristics of the system whose scales for salience and confidence are ours."""
_IMPORTANT_WORDS_MAX: Final = 5
"""A text of nothing but "must" matters no more than five of them do."""
_OPEN_DEADLINE: Final = 0.1
"""As much as three important words: it is a commitment with a date."""
_PER_RECURRENCE: Final = 0.02
_RECURRENCES_MAX: Final = 10
"""What happens daily is known after ten days: all in all as much as 6 important words or so."""
_PER_ENTITY: Final = 0.01
_ENTITIES_MAX: Final = 5
"""Names tie a memory to others, and any log line has some: they may tip a balance, no more."""

_IMPORTANT: Final = re.compile(
    r"\b(?:must|shall|always|never|required?|mandatory|forbidden|prohibited|not allowed|only ever"
    r"|promised?|committed|agreed|decided|guarantee[ds]?|deadline|overdue|due by|owe[ds]?"
    r"|important|critical|urgent|blocker|security|breaking)\b",
    re.IGNORECASE,
)
"""Commitments, constraints, and words by which writers themselves say that it matters."""


def salience(
    kind: Kind, text: str, *, due: bool = False, recurrences: int = 0, entities: int = 0
) -> float:
    """Say how much a memory matters, 0..1; it never falls when any of these rises.

    Args:
        kind: gives where it starts.
        text: its important words are counted, each place once.
        due: whether it is an open task with a deadline.
        recurrences: how often it has happened again; 0 for the first time.
        entities: how many people, topics and references it names.

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
    """Raise what an event mattered, 0..1, when it came again; the first ten times count."""
    if recurrences > _RECURRENCES_MAX:
        return salience
    return round(min(salience + _PER_RECURRENCE, 1.0), 4)
