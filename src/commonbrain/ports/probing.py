"""Whether what the house depends on is there, told by a knock at its door."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """One thing the house depends on, and whether it answered within five seconds."""

    name: str
    is_there: bool
    took_ms: float
    detail: str
    """Where it is or what is wrong, without a secret."""


class Probe(Protocol):
    """Knocks at the doors of what the house depends on."""

    def __call__(self) -> Sequence[Dependency]:
        """Knock at all of them at once; takes five seconds at most, and never raises."""
        ...


def unprobed() -> Sequence[Dependency]:
    """Know of none."""
    return ()
