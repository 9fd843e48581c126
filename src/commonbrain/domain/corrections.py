"""What is corrected again and again: the same said by several, or one lineage that never holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from commonbrain.domain.statement import Statement, read
from commonbrain.domain.trust import Trust

CORRECTIONS_MIN: Final = 3
"""Twice may be chance."""
_WORDS_MIN: Final = 4
"""Fewer words that carry meaning, such as "outdated", say the same of everything."""
_ALIKE: Final = 0.6
"""The share of the words of both that two corrections have in common when they say the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """One time that somebody said what was wrong: about which memory, in which words."""

    of: int
    """The memory that was corrected, by the latest of its lineage."""
    text: str
    by: tuple[str, str | None]
    """The agent and its session."""
    trust: Trust | None = None
    """How far it is believed, where it is more than a change of what it corrects."""


def repeated(corrections: Sequence[Correction]) -> list[tuple[Correction, ...]]:
    """Put together corrections that say the same, and give those of three sessions or more."""
    groups: list[list[Correction]] = []
    for one in corrections:
        if len(read(Statement(text=one.text)).content) < _WORDS_MIN:
            continue
        group = next((group for group in groups if is_alike(group[0].text, one.text)), None)
        if group is None:
            groups.append([one])
        else:
            group.append(one)
    return [tuple(group) for group in groups if len({one.by for one in group}) >= CORRECTIONS_MIN]


def is_alike(one: str, other: str) -> bool:
    """Say whether two texts say the same with much the same words, and neither denies the other."""
    first, second = read(Statement(text=one)), read(Statement(text=other))
    every = first.content | second.content
    shared = first.content & second.content
    is_same_claim = first.is_denied == second.is_denied and first.numbers == second.numbers
    return bool(every) and is_same_claim and len(shared) >= _ALIKE * len(every)
