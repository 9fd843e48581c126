"""Secrets in a text that is kept beside memories: a reason, a note, a tag, an assignee."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from commonbrain.ingestion.validation import Rejected
from commonbrain.model.errors import Invalid, Refused
from commonbrain.model.limits import TEXT_BYTES_MAX
from commonbrain.model.memory import Draft, texts_of, with_texts
from commonbrain.services import House
from commonbrain.text.redaction import Found, OnSecret, place, redacted

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Screened:
    """A draft without secrets, and what its author should know."""

    draft: Draft
    warnings: tuple[str, ...] = ()


def screen(draft: Draft, house: House) -> Screened | Rejected:
    """Look through every free text; refuse what holds a secret, or take the secret out."""
    found = _find(draft, house)
    certain = [what for what, one in found if one.is_certain]
    if not certain:
        return Screened(draft=draft, warnings=tuple(_suspicion(what) for what, _ in found))
    if house.on_secret is OnSecret.REJECT:
        return secret_refusal(certain)
    for _ in range(PASSES_MAX):
        draft = with_texts(draft, lambda _, text: redacted(text, house.screen.find(text)))
    left = [what for what, one in _find(draft, house) if one.is_certain]
    if left:
        return secret_refusal(left)
    return Screened(draft=draft, warnings=tuple(f"Redacted: {what}." for what in certain))


def _find(draft: Draft, house: House) -> list[tuple[str, Found]]:
    """Give every find with its sort and place in words; never the text itself."""
    return [
        (told(one, text, what=name), one)
        for name, text in texts_of(draft)
        for one in house.screen.find(text)
    ]


def _suspicion(what: str) -> str:
    return f"There is {what}; if it is a secret, forget this memory and change the secret."
