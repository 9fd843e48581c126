"""Extractor and reflector without a model."""

from collections.abc import Sequence
from typing import Final

from commonbrain.model.kinds import Atom
from commonbrain.text.causal_extraction import extract_atoms
from commonbrain.text.summaries import Reflection, SourceText, digest

PATTERNS: Final = "patterns"


class PatternExtractor:
    """Extracts causes by English patterns; needs no network."""

    name = PATTERNS

    def atoms(self, text: str) -> Sequence[Atom]:
        """Extract atoms by patterns, most specific first."""
        return extract_atoms(text)


EXTRACTIVE: Final = "extractive"


class ExtractiveReflector:
    """Selects sentences by their content; needs no network."""

    name = EXTRACTIVE

    def reflect(self, told: Sequence[SourceText], *, claims_max: int) -> Reflection:
        """Select the most informative sentences, without repetition."""
        return digest(told, claims_max=claims_max)
