"""Extraction and reflection by rules of English, the defaults, which need no model.

The rules are imported by the first call, because opening a store needs neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from commonbrain.model.atoms import Atom
    from commonbrain.text.summaries import Reflection, SourceText

PATTERNS: Final = "patterns"
EXTRACTIVE: Final = "extractive"


class PatternExtractor:
    """Extracts causes by English patterns; needs no network."""

    name = PATTERNS

    def atoms(self, text: str) -> Sequence[Atom]:
        """Extract atoms by patterns, most specific first."""
        from commonbrain.text.causes import extract_atoms  # noqa: PLC0415

        return extract_atoms(text)


class ExtractiveReflector:
    """Selects sentences by their content; needs no network."""

    name = EXTRACTIVE

    def reflect(self, sources: Sequence[SourceText], *, claims_max: int) -> Reflection:
        """Select the most informative sentences, without repetition."""
        from commonbrain.text.summaries import digest  # noqa: PLC0415

        return digest(sources, claims_max=claims_max)
