"""Links: typed, weighted edges between two memories, and the conflicts that some of them mark."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.escaping import inert_line
from commonbrain.model.kinds import KINDS, TaskDetail
from commonbrain.model.memory import Memory
from commonbrain.model.scope import Authority, Trust
from commonbrain.model.tasks import OPEN_STATUSES
from commonbrain.model.values import asdict, dataclass, replace

STRENGTH_DEFAULT: Final = 0.5
"""Strength of a link if none is given."""

INHERITED: Final = "inherited: "
"""Prefix of the basis of a link that was inherited from a superseded memory."""


class LinkType(StrEnum):
    """The relation of the first memory to the second."""

    DERIVED_FROM = "derived_from"
    DEPENDS_ON = "depends_on"
    SUPPORTS = "supports"
    CONFLICTS_WITH = "conflicts_with"
    CHANGES = "changes"
    """The first memory says what holds now, where the second says what held before."""
    CAUSES = "causes"
    ENABLES = "enables"
    PRECEDES = "precedes"
    CORRELATES = "correlates"
    RELATES_TO = "relates_to"
    ABOUT = "about"


DISAGREEMENTS: Final = (LinkType.CONFLICTS_WITH, LinkType.CHANGES)
"""Links between memories that do not both hold."""
DISTINCT_LINKS: Final = (*DISAGREEMENTS, LinkType.RELATES_TO)
"""Links of two memories that were compared: they disagree, or a user declared them different."""
CLAIMED: Final = 1.0
"""Strength of a change that the texts themselves claim. A weaker one, from an earlier version or
linked so by a user, acts on nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One edge; between two memories there is at most one of each type.

    `strength` is 0..1, `observations` counts how often it was made, `basis` says what it is based
    on.
    """

    from_id: int
    to_id: int
    type: LinkType
    strength: float = STRENGTH_DEFAULT
    observations: int = 1
    basis: str | None = None
    agent: str
    trust: Trust
    authority: Authority = Authority.MODEL
    """Of who made it, or confirmed it; unknown before this was stored."""
    created_at: datetime
    observed_at: datetime

    def __post_init__(self) -> None:
        """Reject a link of a memory to itself, and a strength outside 0..1.

        Raises:
            InvalidInputError: one of the two.

        """
        if self.from_id == self.to_id:
            raise InvalidInputError(
                "A memory cannot be linked to itself.", hint="Give two different ids."
            )
        if not 0 <= self.strength <= 1:
            raise InvalidInputError(f"strength is {self.strength}; 0 to 1 is allowed.")


def strengthened(known: Link, by: Link) -> Link:
    """Combine two observations of a link: the mean strength, one more observation.

    The later basis is kept, and the trust and authority of the more trusted observer.
    """
    return replace(
        known,
        strength=(known.strength + by.strength) / 2,
        observations=known.observations + 1,
        basis=by.basis or (known.basis or "").removeprefix(INHERITED) or None,
        trust=max(known.trust, by.trust, key=lambda trust: trust.weight),
        authority=min(known.authority, by.authority, key=lambda one: one.rank),
        observed_at=max(known.observed_at, by.observed_at),
    )


def is_inherited(link: Link) -> bool:
    """Return whether a link was inherited from a superseded memory."""
    return (link.basis or "").startswith(INHERITED)


def is_sure(link: Link) -> bool:
    """Return whether a disagreement acts on its memories: every one but an unclaimed change."""
    return link.type is not LinkType.CHANGES or link.strength >= CLAIMED


def link_image(link: Link) -> dict[str, object]:
    """Write a link as the JSON values that a before-image holds."""
    times = {name: getattr(link, name).isoformat() for name in ("created_at", "observed_at")}
    return asdict(link) | times


def link_of(image: Mapping[str, Any]) -> Link:
    """Read a link back from a before-image."""
    read: dict[str, Any] = {
        "type": LinkType(image["type"]),
        "trust": Trust(image["trust"]),
        "authority": Authority(image.get("authority", Authority.MODEL)),
        "created_at": datetime.fromisoformat(image["created_at"]),
        "observed_at": datetime.fromisoformat(image["observed_at"]),
    }
    return Link(**{**image, **read})


class Basis(StrEnum):
    """Why two statements exclude each other."""

    VALUE = "value"
    NUMBER = "number"
    ENTITY = "entity"
    NEGATION = "negation"
    ANNOUNCED = "announced change"
    """The newer one says that something changed: "no longer", "moved to"."""
    CORRECTION = "correction"
    SOURCE = "superseded source"
    """One repeats what its source no longer says."""
    SAID = "word"
    """A user linked them."""


CLOSE: Final = 0.15
"""Below this difference of confidence neither is clearly right."""
CONFLICTS_MAX: Final = 5
"""Conflicts linked to a new memory, and shown in one result."""
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
    """Whether the user should be asked: both are about equally certain, or the preferred one has a
    lower authority.
    """
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
        reasons = f", {' and '.join(self.why)}," if self.why else ""
        closeness = "; neither is surely right, so ask the user" if self.is_close else ""
        return f"Conflict of {self.basis}: {one}{reasons} contradicts {other}{closeness}."


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
    conflict = Conflict(
        ids=(first, second),
        preferred=first,
        why=tuple(reason for reason, holds in reasons.items() if holds),
        is_close=gap < CLOSE or not best.authority.covers(rest.authority),
        basis=basis,
        gap=round(gap, 2),
    )
    if best.project is None or rest.project is None or best.project == rest.project:
        return conflict
    projects = (best.project, rest.project)
    return replace(conflict, preferred=None, why=(), is_close=False, projects=projects)


def conflict_with_source(memory: Memory, *, head: Memory) -> Conflict:
    """Build the conflict of a memory with its source's newest revision, which is preferred."""
    conflict = conflict_of(memory, head, basis=Basis.SOURCE)
    first, second = (ids.show(ids.MEMORY, one.id) for one in (head, memory))
    why = ("replaced the other's source",)
    return replace(conflict, ids=(first, second), preferred=first, why=why, is_close=False)


def conflicts_naming(conflicts: Iterable[Conflict], id_: str) -> list[Conflict]:
    """Return the conflicts that a memory is part of."""
    return [conflict for conflict in conflicts if id_ in conflict.ids]


def is_placeable(memory: Memory) -> bool:
    """Return whether a memory may be moved to one project; rules and shared memories may not."""
    is_open_task = isinstance(memory.detail, TaskDetail) and memory.detail.status in OPEN_STATUSES
    return not is_open_task and KINDS[memory.kind].is_movable
