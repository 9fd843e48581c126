"""Conflicts: two memories that disagree, and which of them to prefer."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from commonbrain.model import ids
from commonbrain.model.escaping import inert_line
from commonbrain.model.kinds import Kind, TaskDetail
from commonbrain.model.links import Link
from commonbrain.model.memory import Memory
from commonbrain.model.tasks import OWED


class Basis(StrEnum):
    """Why two statements cannot both hold."""

    VALUE = "value"
    NUMBER = "number"
    ENTITY = "entity"
    NEGATION = "negation"
    SOURCE = "superseded source"
    """One repeats what its source no longer says."""
    SAID = "word"
    """Somebody said so."""


CLOSE: Final = 0.15
"""Below this difference of confidence neither side is clearly right."""
CONFLICTS_MAX: Final = 5
"""Told in one answer."""
_FOUND: Final = frozenset(Basis)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """Two ids that disagree; `preferred` is the first of them, `why` says by what it is.

    Where each holds in a project of its own there is nothing to prefer, and nothing to settle.
    """

    ids: tuple[str, str]
    preferred: str | None
    why: tuple[str, ...]
    is_close: bool
    """Whether the two are about equally sure, so that it is worth asking."""
    basis: Basis
    """By what it shows that they disagree."""
    gap: float
    """How far apart the two are in confidence, 0..1."""
    projects: tuple[str, str] | None = None
    """Where each holds, of two that were found to hold in different projects."""

    def line(self) -> str:
        """Write it for an agent."""
        one, other = self.ids
        if self.projects is not None:
            here, there = map(inert_line, self.projects)
            return f"Each in its project: {one} in {here}, {other} in {there}."
        reasons = f" ({', '.join(self.why)})" if self.why else ""
        doubt = "; about equally sure, ask" if self.is_close else ""
        return f"Conflict of {self.basis}: {one}{reasons} against {other}, gap {self.gap}{doubt}."

    def to_json(self) -> str:
        """Write it as compactly as the doors do."""
        known = {name: getattr(self, name) for name in self.__slots__}
        told = {name: value for name, value in known.items() if value is not None}
        return json.dumps(told, ensure_ascii=False, separators=(",", ":"))


def preferred(one: Memory, other: Memory) -> Memory:
    """Say which of two that disagree to prefer: the more trusted, then newer, then surer."""
    return max(
        one, other, key=lambda m: (m.trust.weight, m.occurred_at, m.confidence, m.recorded_at, m.id)
    )


def basis_of(link: Link) -> Basis:
    """Say by what two disagree that are linked: by a rule's finding, or somebody's word."""
    return Basis(link.basis) if link.basis in _FOUND else Basis.SAID


def conflict_of(one: Memory, other: Memory, *, basis: Basis = Basis.SAID) -> Conflict:
    """Tell of two memories that disagree."""
    best = preferred(one, other)
    rest = other if best is one else one
    gap = abs(best.confidence - rest.confidence)
    reasons = {
        "newer": best.occurred_at > rest.occurred_at,
        "more trusted": best.trust.weight > rest.trust.weight,
        "surer": best.confidence > rest.confidence,
    }
    first, second = (ids.show(ids.MEMORY, memory.id) for memory in (best, rest))
    told = Conflict(
        ids=(first, second),
        preferred=first,
        why=tuple(reason for reason, holds in reasons.items() if holds),
        is_close=gap < CLOSE,
        basis=basis,
        gap=round(gap, 2),
    )
    if best.project is None or rest.project is None or best.project == rest.project:
        return told
    projects = (best.project, rest.project)
    return replace(told, preferred=None, why=(), is_close=False, projects=projects)


def conflict_with_source(memory: Memory, *, head: Memory) -> Conflict:
    """Tell of a memory that repeats what its source no longer says; what holds now is preferred."""
    told = conflict_of(memory, head, basis=Basis.SOURCE)
    first, second = (ids.show(ids.MEMORY, one.id) for one in (head, memory))
    why = ("replaced the other's source",)
    return replace(told, ids=(first, second), preferred=first, why=why, is_close=False)


def conflicts_naming(conflicts: Iterable[Conflict], id_: str) -> list[Conflict]:
    """Give the conflicts that a memory is part of."""
    return [conflict for conflict in conflicts if id_ in conflict.ids]


def is_placeable(memory: Memory) -> bool:
    """Say whether it may be moved to one project: not what binds or reaches others where it is."""
    is_owed = isinstance(memory.detail, TaskDetail) and memory.detail.status in OWED
    return not is_owed and memory.kind not in {Kind.RULE, Kind.MESSAGE}
