"""Secrets in a text that is kept beside memories: a reason, a note, a tag, an assignee."""

from collections.abc import Sequence
from typing import Final

from commonbrain.domain.errors import Invalid, Refused
from commonbrain.domain.gate import Rejected
from commonbrain.domain.limits import TEXT_BYTES_MAX
from commonbrain.domain.screening import Found, OnSecret, place, redacted
from commonbrain.flows.house import House

PASSES_MAX: Final = 3
"""What is left of a secret that overlapped another is found when the other is gone."""


def screened(text: str, *, what: str, house: House) -> str:
    """Give a text without secrets, as it may be kept; `what` names it to its author.

    Raises:
        Invalid: it is longer than any text that is kept.
        Refused: `secret_detected`, and the secret cannot be taken out or must not be.

    """
    if len(text) > TEXT_BYTES_MAX:
        # Not even read: the work done for a text must be in proportion to what is allowed.
        raise Invalid(
            f"The {what} has {len(text):,} characters, more than any text that is kept.",
            hint="Give a sentence; remember a long text as a memory of its own.",
        )
    certain = _certain(text, what=what, house=house)
    if certain and house.on_secret is OnSecret.REDACT:
        for _ in range(PASSES_MAX):
            text = redacted(text, house.screen.find(text))
        certain = _certain(text, what=what, house=house)
    if certain:
        refusal = secret_refusal(certain)
        raise Refused(refusal.reason, code=refusal.code, hint=refusal.hint)
    return text


def told(found: Found, text: str, *, what: str) -> str:
    """Say what sort of secret stands where, never the secret itself."""
    return f"{found.sort} in the {what}, {place(text, found.start)}"


def secret_refusal(certain: Sequence[str]) -> Rejected:
    """Refuse a text for the secrets that were told of."""
    more = f" and {len(certain) - 1} more" if len(certain) > 1 else ""
    return Rejected(
        code="secret_detected",
        reason=f"This holds a secret: {certain[0]}{more}.",
        hint="Leave the value out; say where it is kept. If an example looks like a secret, "
        "put a placeholder such as <token> in its place.",
    )


def _certain(text: str, *, what: str, house: House) -> list[str]:
    return [told(one, text, what=what) for one in house.screen.find(text) if one.is_certain]
