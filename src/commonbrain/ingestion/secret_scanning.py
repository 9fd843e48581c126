"""Secret scanning of drafts and of texts stored along with memories: reasons, notes, tags."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from commonbrain.ingestion.validation import Rejection
from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.limits import TEXT_BYTES_MAX
from commonbrain.model.memory import Draft, texts_of, with_texts
from commonbrain.services import Services
from commonbrain.text.redaction import OnSecret, SecretMatch, describe_place, redacted

PASSES_MAX: Final = 3
"""Removing one secret can uncover another that overlapped it."""


def scan_text(text: str, *, what: str, services: Services) -> str:
    """Return a text without secrets, ready to store; `what` names it in errors.

    Raises:
        InvalidInputError: it is longer than any stored text.
        RejectedError: `secret_detected`, and the secret cannot or must not be redacted.

    """
    if len(text) > TEXT_BYTES_MAX:
        # Reject before reading: the work must be bounded by what is allowed.
        raise InvalidInputError(
            f"The {what} has {len(text):,} characters, more than any text that is kept.",
            hint="Give a sentence; remember a long text as a memory of its own.",
        )
    certain = _certain(text, what=what, services=services)
    if certain and services.on_secret is OnSecret.REDACT:
        for _ in range(PASSES_MAX):
            text = redacted(text, services.screen.find(text))
        certain = _certain(text, what=what, services=services)
    if certain:
        refusal = secret_refusal(certain)
        raise RejectedError(refusal.reason, code=refusal.code, hint=refusal.hint)
    return text


def describe_secret(match: SecretMatch, text: str, *, what: str) -> str:
    """Return type and position of a secret, never the secret itself."""
    return f"{match.sort} in the {what}, {describe_place(text, match.start)}"


def secret_refusal(certain: Sequence[str]) -> Rejection:
    """Build the rejection of a text that contains these secrets."""
    more = f" and {len(certain) - 1} more" if len(certain) > 1 else ""
    return Rejection(
        code="secret_detected",
        reason=f"This holds a secret: {certain[0]}{more}.",
        hint="Leave the value out; say where it is kept. If an example looks like a secret, "
        "put a placeholder such as <token> in its place.",
    )


def _certain(text: str, *, what: str, services: Services) -> list[str]:
    return [
        describe_secret(one, text, what=what)
        for one in services.screen.find(text)
        if one.is_certain
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedText:
    """A draft without secrets, and the warnings for its author."""

    draft: Draft
    warnings: tuple[str, ...] = ()


def scan_drafts(draft: Draft, services: Services) -> ScannedText | Rejection:
    """Scan every free text of a draft; reject or redact secrets, as configured."""
    matches = _find(draft, services)
    certain = [what for what, one in matches if one.is_certain]
    if not certain:
        return ScannedText(draft=draft, warnings=tuple(_suspicion(what) for what, _ in matches))
    if services.on_secret is OnSecret.REJECT:
        return secret_refusal(certain)
    for _ in range(PASSES_MAX):
        draft = with_texts(draft, lambda _, text: redacted(text, services.screen.find(text)))
    left = [what for what, one in _find(draft, services) if one.is_certain]
    if left:
        return secret_refusal(left)
    return ScannedText(draft=draft, warnings=tuple(f"Redacted: {what}." for what in certain))


def _find(draft: Draft, services: Services) -> list[tuple[str, SecretMatch]]:
    """Return field, type and position of every secret, never the text itself."""
    return [
        (describe_secret(one, text, what=name), one)
        for name, text in texts_of(draft)
        for one in services.screen.find(text)
    ]


def _suspicion(what: str) -> str:
    return f"There is {what}; if it is a secret, forget this memory and change the secret."
