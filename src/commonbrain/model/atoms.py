"""Atoms before they are stored: a cause and its effect, as found in a text."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from commonbrain.model.kinds import CausalField
from commonbrain.model.values import dataclass

ATOM_FIELD_CHARS_MAX: Final = 200
ATOMS_MAX: Final = 3
"""Atoms extracted from one text, best first; a text with more is a report."""
QUALITY_MIN: Final = 0.6
"""A lower score has a cause or effect of hardly more than a word."""
_GROUNDED_FROM: Final = 0.5
"""Share of a field's words that must occur in the text: a model may change a tense."""
_WORD: Final = re.compile(r"\w+")
_INFORMATIVE_CHARS_MIN: Final = 3
"""Shorter words occur in every text; they count only if a field has no others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Atom:
    """A cause and effect in a text: subject and action are the cause, the outcome is the effect."""

    subject: str
    action: str = ""
    outcome: str = ""
    consequences: str = ""
    """What the outcome caused in turn."""
    outcome_delay_s: float | None = None
    """Seconds from the action to the outcome, if stated."""
    consequence_delay_s: float | None = None
    """Seconds from the outcome to its consequences, if stated."""
    start: int = 0
    """Position in the text, in characters; 0 and 0 if unknown."""
    end: int = 0
    pattern: str = ""
    """The name of the pattern that found it."""

    @property
    def quality(self) -> float:
        """Return how informative it is, 0.5 to 1.

        0.5, plus 0.1 each for a subject of more than 10 characters and an action and an outcome of
        more than 15, plus 0.2 for consequences of more than 20 (requirement WP-45).
        """
        score = 0.5
        score += 0.1 * (len(self.subject) > 10) + 0.1 * (len(self.action) > 15)  # noqa: PLR2004 the formula's
        score += 0.1 * (len(self.outcome) > 15) + 0.2 * (len(self.consequences) > 20)  # noqa: PLR2004 the formula's
        return round(score, 1)

    @property
    def fields(self) -> Iterator[tuple[str, str]]:
        """Return the non-empty fields by name, within their maximum length."""
        values = (
            (name, str(getattr(self, name))[:ATOM_FIELD_CHARS_MAX].strip()) for name in CausalField
        )
        return ((name, text) for name, text in values if text)

    @property
    def body(self) -> str:
        """Format it as the inline tag `@atom`."""
        return " | ".join(text for _, text in self.fields)

    @property
    def columns(self) -> dict[str, object]:
        """Return the known columns of the memory that it becomes."""
        delays = {
            "outcome_delay_s": self.outcome_delay_s,
            "consequence_delay_s": self.consequence_delay_s,
        }
        return {**dict(self.fields), **{name: s for name, s in delays.items() if s is not None}}


def is_grounded(atom: Atom, text: str) -> bool:
    """Return whether every field of an atom consists of words of its source text."""
    return all(_share_of(field, text) >= _GROUNDED_FROM for _, field in atom.fields)


def is_inverted(atom: Atom, known: Iterable[Atom]) -> bool:
    """Return whether an atom states as effect what others state as cause, and vice versa."""
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
    """Return the share of a field's words that occur in a text; 0 for a field without words."""
    there = text.casefold()
    text_words = set(_WORD.findall(there))
    every = _WORD.findall(field.casefold())
    own = [word for word in every if len(word) >= _INFORMATIVE_CHARS_MIN] or every
    # Not all scripts separate words by spaces.
    occurs = [word in text_words or (not word.isascii() and word in there) for word in own]
    return sum(occurs) / len(own) if own else 0.0
