"""The stage that looks for secrets before anything is embedded, logged or stored."""

from dataclasses import dataclass

from commonbrain.domain.gate import Rejected
from commonbrain.domain.memory import Draft
from commonbrain.domain.offer import texts_of, with_texts
from commonbrain.domain.screening import Found, OnSecret, place, redacted
from commonbrain.flows.house import House

_PASSES_MAX = 3
"""What is left of a secret that overlapped another is found when the other is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Screened:
    """A draft without secrets, and what its author should know."""

    draft: Draft
    warnings: tuple[str, ...] = ()


def screen(draft: Draft, house: House) -> Screened | Rejected:
    """Look through every free text; refuse what holds a secret, or take the secret out."""
    found = _find(draft, house)
    certain = [told for told, one in found if one.is_certain]
    if not certain:
        return Screened(draft=draft, warnings=tuple(_suspicion(told) for told, _ in found))
    if house.on_secret is OnSecret.REJECT:
        return _rejected(certain)
    for _ in range(_PASSES_MAX):
        draft = with_texts(draft, lambda _, text: redacted(text, house.screen.find(text)))
    left = [told for told, one in _find(draft, house) if one.is_certain]
    if left:
        return _rejected(left)
    return Screened(draft=draft, warnings=tuple(f"Redacted: {told}." for told in certain))


def _find(draft: Draft, house: House) -> list[tuple[str, Found]]:
    """Give every find with its sort and place in words; never the text itself."""
    return [
        (f"{one.sort} in the {name}, {place(text, one.start)}", one)
        for name, text in texts_of(draft)
        for one in house.screen.find(text)
    ]


def _suspicion(told: str) -> str:
    return f"There is {told}; if it is a secret, forget this memory and change the secret."


def _rejected(certain: list[str]) -> Rejected:
    more = f" and {len(certain) - 1} more" if len(certain) > 1 else ""
    return Rejected(
        code="secret_detected",
        reason=f"This holds a secret: {certain[0]}{more}.",
        hint="Leave the value out; say where it is kept. If an example looks like a secret, "
        "put a placeholder such as <token> in its place.",
    )
