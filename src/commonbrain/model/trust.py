"""How far a source is believed, and who may claim it."""

from enum import StrEnum

from commonbrain.model.errors import RejectedError


class Trust(StrEnum):
    """Where a text came from; `weight` (0..1) orders them and multiplies into ranking."""

    TRUSTED_TOOL = "trusted_tool"
    USER_CLAIM = "user_claim"
    UNTRUSTED_WEB = "untrusted_web"

    @property
    def weight(self) -> float:
        """Its place between 0 (believed never) and 1."""
        return _WEIGHTS[self]


_WEIGHTS = {Trust.TRUSTED_TOOL: 1.0, Trust.USER_CLAIM: 0.7, Trust.UNTRUSTED_WEB: 0.35}


def granted(claimed: Trust | None, *, default: Trust, ceiling: Trust) -> Trust:
    """Give the trust a write gets: what it claims, or the default as far as the ceiling allows.

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
