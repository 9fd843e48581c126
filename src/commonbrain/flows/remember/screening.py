"""The stage that looks for secrets before anything is embedded, logged or stored."""

from dataclasses import dataclass

from commonbrain.domain.gate import Rejected
from commonbrain.domain.memory import Draft
from commonbrain.domain.offer import texts_of, with_texts
from commonbrain.domain.screening import Found, OnSecret, redacted
from commonbrain.flows.house import House
from commonbrain.flows.screening import PASSES_MAX, secret_refusal, told


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
