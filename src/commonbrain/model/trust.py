"""Trust: how reliable a source is, and who may claim it."""

from enum import StrEnum

from commonbrain.model.errors import RejectedError


class Trust(StrEnum):
    """The source of a text; `weight` (0..1) orders them and enters ranking."""

    TRUSTED_TOOL = "trusted_tool"
    USER_CLAIM = "user_claim"
    UNTRUSTED_WEB = "untrusted_web"

    @property
    def weight(self) -> float:
        """Its weight between 0 and 1."""
        return _WEIGHTS[self]


_WEIGHTS = {Trust.TRUSTED_TOOL: 1.0, Trust.USER_CLAIM: 0.7, Trust.UNTRUSTED_WEB: 0.35}


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
