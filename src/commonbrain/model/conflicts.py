"""Conflicts: two memories that disagree, and which of them to prefer."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from commonbrain.model import ids
from commonbrain.model.escaping import inert_line
from commonbrain.model.kinds import KINDS, TaskDetail
from commonbrain.model.links import Link
from commonbrain.model.memory import Memory
from commonbrain.model.tasks import OWED


class Basis(StrEnum):
    """Why two statements exclude each other."""

    VALUE = "value"
    NUMBER = "number"
    ENTITY = "entity"
    NEGATION = "negation"
    SOURCE = "superseded source"
    """One repeats what its source no longer says."""
    SAID = "word"
    """A user linked them."""


CLOSE: Final = 0.15
"""Below this difference of confidence neither is clearly right."""
CONFLICTS_MAX: Final = 5
"""Conflicts shown in one result."""
_FOUND: Final = frozenset(Basis)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """Two ids that disagree; `preferred` is the first of them, `why` gives the reason.

    If each applies in a project of its own, there is nothing to prefer or resolve.
    """

    ids: tuple[str, str]
    preferred: str | None
    why: tuple[str, ...]
    is_close: bool
    """Whether both are about equally certain, so that the user should be asked."""
    basis: Basis
    """How the conflict was detected."""
    gap: float
    """The difference of confidence, 0..1."""
    projects: tuple[str, str] | None = None
    """The projects in which they apply, if those differ."""

    def line(self) -> str:
        """Render it for an agent."""
        one, other = self.ids
        if self.projects is not None:
            here, there = map(inert_line, self.projects)
            return f"Each in its project: {one} in {here}, {other} in {there}."
        reasons = f" ({', '.join(self.why)})" if self.why else ""
        doubt = "; about equally sure, ask" if self.is_close else ""
        return f"Conflict of {self.basis}: {one}{reasons} against {other}, gap {self.gap}{doubt}."

    def to_json(self) -> str:
        """Render it as compact JSON."""
        known = {name: getattr(self, name) for name in self.__slots__}
        told = {name: value for name, value in known.items() if value is not None}
        return json.dumps(told, ensure_ascii=False, separators=(",", ":"))


def preferred(one: Memory, other: Memory) -> Memory:
    """Return the preferred memory: more trusted, then newer, then more certain."""
    return max(
        one, other, key=lambda m: (m.trust.weight, m.occurred_at, m.confidence, m.recorded_at, m.id)
    )


def basis_of(link: Link) -> Basis:
    """Return how the conflict of a link was detected."""
    return Basis(link.basis) if link.basis in _FOUND else Basis.SAID


def conflict_of(one: Memory, other: Memory, *, basis: Basis = Basis.SAID) -> Conflict:
    """Build the conflict of two memories."""
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
    """Build the conflict of a memory with its source's newest revision, which is preferred."""
    told = conflict_of(memory, head, basis=Basis.SOURCE)
    first, second = (ids.show(ids.MEMORY, one.id) for one in (head, memory))
    why = ("replaced the other's source",)
    return replace(told, ids=(first, second), preferred=first, why=why, is_close=False)


def conflicts_naming(conflicts: Iterable[Conflict], id_: str) -> list[Conflict]:
    """Return the conflicts that a memory is part of."""
    return [conflict for conflict in conflicts if id_ in conflict.ids]


def is_placeable(memory: Memory) -> bool:
    """Return whether a memory may be moved to one project; rules and shared memories may not."""
    is_owed = isinstance(memory.detail, TaskDetail) and memory.detail.status in OWED
    return not is_owed and KINDS[memory.kind].is_movable
