"""Atoms before they are stored: a cause and its effect, as found in a text."""

from collections.abc import Iterator
from typing import Final

from commonbrain.model.kinds import CausalField
from commonbrain.model.values import dataclass

ATOM_FIELD_CHARS_MAX: Final = 200
ATOMS_MAX: Final = 3
"""Atoms extracted from one text, best first; a text with more is a report."""


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
