"""Reflection: what several memories tell together, and what looking them through has cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from commonbrain.domain.statement import Statement, read

SUMMARY: Final = "reflection"
"""The label of episodes that a reflection made, and of the facts that it proposes."""
COMPACTED: Final = "compaction"
"""The label of an episode that sums up what was found of a question."""
CORRECTION: Final = "correction"
"""The label of rules that are proposed because the same was corrected again and again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One memory that is reflected on: what it says, who says it, and how much it matters."""

    text: str
    speaker: str | None = None
    weight: float = 0.5
    """0..1, its salience."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A sentence of a reflection, with the places of those whom it is taken from."""

    text: str
    of: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What asking a language model has cost; nothing where none was asked."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0

    @property
    def tokens(self) -> int:
        """All of them."""
        return self.tokens_in + self.tokens_out

    def and_(self, other: Spent) -> Spent:
        """Add what was spent besides."""
        return Spent(
            calls=self.calls + other.calls,
            tokens_in=self.tokens_in + other.tokens_in,
            tokens_out=self.tokens_out + other.tokens_out,
        )

    def told(self) -> Mapping[str, int]:
        """Give the counts by name, as a job's result has them."""
        return {
            "calls": self.calls,
            "tokens_in": self.tokens_in,
            "tokens_out": self.tokens_out,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Reflection:
    """What several memories tell together.

    `points` are in the order of what they are taken from; `claims` state what may last, the surest
    first. Without points it is no reflection, and `fault` says why.
    """

    points: tuple[Point, ...] = ()
    headline: str = ""
    """The sentence that says most of it."""
    claims: tuple[Point, ...] = ()
    spent: Spent = Spent()
    fault: str | None = None


_TOLD_FROM: Final = 0.7
"""The share of a sentence's words that its sources must have; the rest joins them."""


def is_told(text: str, sources: Sequence[str]) -> bool:
    """Say whether a sentence is made of the words of its sources, with no other number or name.

    It must deny nothing that none of them denies, either.
    """
    said = read(Statement(text=text))
    known = [read(Statement(text=one)) for one in sources]
    words = frozenset[str]().union(*(one.content for one in known))
    numbers = frozenset[str]().union(*(one.numbers for one in known))
    if not said.content or not said.numbers <= numbers or not said.names <= words | numbers:
        return False
    if said.is_denied and not any(one.is_denied for one in known):
        return False
    return len(said.content & words) >= _TOLD_FROM * len(said.content)
