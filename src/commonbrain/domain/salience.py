"""How much a memory matters, 0..1, by what is said at the moment of writing."""

import re
from typing import Final

from commonbrain.domain.kinds import KINDS, Kind

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
