"""Links: typed, weighted edges between two memories, and the law by which they strengthen."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.trust import Trust

STRENGTH_DEFAULT: Final = 0.5
"""How strongly two memories are linked when nobody said."""

INHERITED: Final = "inherited: "
"""How the basis of a link begins that was taken over from what its memory superseded."""


class LinkType(StrEnum):
    """What one memory is to another; read from the first to the second."""

    DERIVED_FROM = "derived_from"
    DEPENDS_ON = "depends_on"
    SUPPORTS = "supports"
    CONFLICTS_WITH = "conflicts_with"
    CAUSES = "causes"
    ENABLES = "enables"
    PRECEDES = "precedes"
    CORRELATES = "correlates"
    RELATES_TO = "relates_to"
    ABOUT = "about"


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One edge; between two memories there is at most one of each type.

    `strength` is 0..1, `observations` counts how often it was made, `basis` says in a word or a
    sentence what it rests on.
    """

    from_id: int
    to_id: int
    type: LinkType
    strength: float = STRENGTH_DEFAULT
    observations: int = 1
    basis: str | None = None
    agent: str
    trust: Trust
    created_at: datetime
    observed_at: datetime

    def __post_init__(self) -> None:
        """Refuse a link of a memory to itself, and a strength that is no fraction.

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
    """Give a link that was observed once more: the mean of both strengths, one more observation.

    The latest basis stands, and the trust of the more trusted observer.
    """
    return replace(
        known,
        strength=(known.strength + by.strength) / 2,
        observations=known.observations + 1,
        basis=by.basis or (known.basis or "").removeprefix(INHERITED) or None,
        trust=max(known.trust, by.trust, key=lambda trust: trust.weight),
        observed_at=max(known.observed_at, by.observed_at),
    )


def is_inherited(link: Link) -> bool:
    """Say whether a link was taken over from what its memory superseded."""
    return (link.basis or "").startswith(INHERITED)


def link_image(link: Link) -> dict[str, object]:
    """Write a link as the JSON values that a before-image holds."""
    times = {name: getattr(link, name).isoformat() for name in ("created_at", "observed_at")}
    return asdict(link) | times


def link_of(image: Mapping[str, Any]) -> Link:
    """Read a link back from a before-image."""
    read: dict[str, Any] = {
        "type": LinkType(image["type"]),
        "trust": Trust(image["trust"]),
        "created_at": datetime.fromisoformat(image["created_at"]),
        "observed_at": datetime.fromisoformat(image["observed_at"]),
    }
    return Link(**{**image, **read})
