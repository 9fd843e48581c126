"""A causal unit: who did what, what came of it, and what came of that."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from commonbrain.domain.kinds import AtomDetail, Detail

ATOM_FIELD_CHARS_MAX: Final = 200
ATOMS_MAX: Final = 3
"""Atoms taken from one text, the best; a text that gives more is a report, not a message."""
QUALITY_MIN: Final = 0.6
"""What scores less names neither its cause nor its effect in more than a word or two."""
CONFIDENCE_OF_MESSAGE: Final = 0.6
"""How sure an atom that a rule or a model found in a message is at most; messages are chat."""
CONFIDENCE: Final = 0.7
"""The same for other texts."""
_GROUNDED_FROM: Final = 0.5
"""Share of a field's words that stand in the text: a model may change a tense, not the matter."""
_WORD: Final = re.compile(r"\w+")
_TELLING_CHARS: Final = 3
"""Shorter words stand in every text; they count where a field has no others."""


class CausalField(StrEnum):
    """A part of what an atom says; each is found by itself."""

    SUBJECT = "subject"
    ACTION = "action"
    OUTCOME = "outcome"
    CONSEQUENCES = "consequences"


@dataclass(frozen=True, slots=True, kw_only=True)
class Atom:
    """What a text says caused what: subject and action are the cause, the outcome its effect."""

    subject: str
    action: str = ""
    outcome: str = ""
    consequences: str = ""
    """What the outcome caused in turn."""
    outcome_delay_s: float | None = None
    """Seconds from the action to the outcome, where the text says so."""
    consequence_delay_s: float | None = None
    """Seconds from the outcome to its consequences."""
    start: int = 0
    """Where in the text it is said, in characters; 0 and 0 where that is not known."""
    end: int = 0
    pattern: str = ""
    """By what it was found."""

    @property
    def quality(self) -> float:
        """Say how much it tells, 0.5 to 1.

        0.5, and 0.1 each for a subject of more than 10 characters, an action and an outcome of
        more than 15, and 0.2 for consequences of more than 20: the formula of the causal memory
        system that this one takes in (requirement WP-45).
        """
        score = 0.5
        score += 0.1 * (len(self.subject) > 10) + 0.1 * (len(self.action) > 15)  # noqa: PLR2004 the formula's
        score += 0.1 * (len(self.outcome) > 15) + 0.2 * (len(self.consequences) > 20)  # noqa: PLR2004 the formula's
        return round(score, 1)

    @property
    def fields(self) -> Iterator[tuple[str, str]]:
        """Give the fields that it has, by name, none longer than a field may be."""
        told = (
            (name, str(getattr(self, name))[:ATOM_FIELD_CHARS_MAX].strip()) for name in CausalField
        )
        return ((name, text) for name, text in told if text)

    @property
    def body(self) -> str:
        """Write it as the mark `@atom` is written."""
        return " | ".join(text for _, text in self.fields)

    @property
    def columns(self) -> dict[str, object]:
        """Give the columns of the memory that it becomes; what is not known is left out."""
        delays = {
            "outcome_delay_s": self.outcome_delay_s,
            "consequence_delay_s": self.consequence_delay_s,
        }
        return {**dict(self.fields), **{name: s for name, s in delays.items() if s is not None}}


def fields_of(detail: Detail | None) -> dict[CausalField, str]:
    """Give what a memory says in each causal field, without the empty; only atoms have any."""
    if not isinstance(detail, AtomDetail):
        return {}
    told = {name: getattr(detail, name) for name in CausalField}
    return {name: text for name, text in told.items() if text}


def is_grounded(atom: Atom, text: str) -> bool:
    """Say whether every field of an atom is made of words of the text it is said to come from."""
    return all(_share_of(field, text) >= _GROUNDED_FROM for _, field in atom.fields)


def is_turned_round(atom: Atom, known: Iterable[Atom]) -> bool:
    """Say whether an atom gives as the effect what others give as the cause, and the reverse."""
    own = _sides(atom)
    return any(
        _agrees(own, (effect, cause)) and not _agrees(own, (cause, effect))
        for cause, effect in map(_sides, known)
    )


def _sides(atom: Atom) -> tuple[str, str]:
    return f"{atom.subject} {atom.action}", f"{atom.outcome} {atom.consequences}"


def _agrees(own: tuple[str, str], other: tuple[str, str]) -> bool:
    pairs = zip(own, other, strict=True)
    return all(_share_of(one, there) >= _GROUNDED_FROM for one, there in pairs)


def _share_of(field: str, text: str) -> float:
    """Give the share of a field's words that stand in a text; none of no words."""
    there = text.casefold()
    told = set(_WORD.findall(there))
    every = _WORD.findall(field.casefold())
    own = [word for word in every if len(word) >= _TELLING_CHARS] or every
    # Not all scripts put spaces between words.
    stand = [word in told or (not word.isascii() and word in there) for word in own]
    return sum(stand) / len(own) if own else 0.0
