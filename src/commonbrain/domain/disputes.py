"""Conflicts: two memories that disagree, and which of them to prefer."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from commonbrain.domain import ids
from commonbrain.domain.memory import Memory

CLOSE: Final = 0.15
"""Below this difference of confidence neither side is clearly right."""
CONFLICTS_MAX: Final = 5
"""Told in one answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """Two ids that disagree; `preferred` is one of them, `why` says by what it is."""

    ids: tuple[str, str]
    preferred: str
    why: tuple[str, ...]
    is_close: bool
    """Whether the two are about equally sure, so that it is worth asking."""

    def line(self) -> str:
        """Write it for an agent."""
        [other] = [id_ for id_ in self.ids if id_ != self.preferred]
        reasons = f" ({', '.join(self.why)})" if self.why else ""
        doubt = "; about equally sure, ask" if self.is_close else ""
        return f"Conflict: {self.preferred}{reasons} against {other}{doubt}."

    def to_json(self) -> str:
        """Write it as compactly as the doors do."""
        told = {"ids": self.ids, "preferred": self.preferred, "why": self.why}
        return json.dumps(told | {"is_close": self.is_close}, separators=(",", ":"))


def preferred(one: Memory, other: Memory) -> Memory:
    """Say which of two that disagree to prefer: the more trusted, then newer, then surer."""
    return max(
        one, other, key=lambda m: (m.trust.weight, m.occurred_at, m.confidence, m.recorded_at, m.id)
    )


def conflict_of(one: Memory, other: Memory) -> Conflict:
    """Tell of two memories that disagree."""
    best = preferred(one, other)
    rest = other if best is one else one
    reasons = {
        "newer": best.occurred_at > rest.occurred_at,
        "more trusted": best.trust.weight > rest.trust.weight,
        "surer": best.confidence > rest.confidence,
    }
    first, second = (ids.show(ids.MEMORY, memory.id) for memory in (best, rest))
    return Conflict(
        ids=(first, second),
        preferred=first,
        why=tuple(reason for reason, holds in reasons.items() if holds),
        is_close=abs(best.confidence - rest.confidence) < CLOSE,
    )


def naming(conflicts: Iterable[Conflict], id_: str) -> list[Conflict]:
    """Give the conflicts that a memory is part of."""
    return [conflict for conflict in conflicts if id_ in conflict.ids]
