"""Links: typed, weighted edges between two memories."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.trust import Trust

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
    CAUSES = "causes"
    ENABLES = "enables"
    PRECEDES = "precedes"
    CORRELATES = "correlates"
    RELATES_TO = "relates_to"
    ABOUT = "about"


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

    The later basis is kept, and the trust of the more trusted observer.
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
    """Return whether a link was inherited from a superseded memory."""
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
