"""Trust: how reliable a source is, and who may claim it."""

from enum import StrEnum
from typing import Self

from commonbrain.model.errors import RejectedError


class Trust(StrEnum):
    """The source of a text; `weight` (0..1) orders them and enters ranking."""

    weight: float

    # An attribute instead of a property, because recall reads it for every candidate.
    def __new__(cls, value: str, weight: float) -> Self:
        """Create a member with its weight."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.weight = weight
        return member

    TRUSTED_TOOL = "trusted_tool", 1.0
    USER_CLAIM = "user_claim", 0.7
    UNTRUSTED_WEB = "untrusted_web", 0.35


def granted(claimed: Trust | None, *, default: Trust, ceiling: Trust) -> Trust:
    """Return the trust of a write: the claim, or the default up to the ceiling.

    Raises:
        RejectedError: `trust_override_denied`, the claim is above the ceiling.

    """
    if claimed is None:
        return min(default, ceiling, key=lambda trust: trust.weight)
    if claimed.weight > ceiling.weight:
        raise RejectedError(
            f"Trust {claimed} is above what this caller may claim, which is {ceiling}.",
            code="trust_override_denied",
            hint=f"Leave trust out, or give {ceiling} or lower.",
        )
    return claimed
