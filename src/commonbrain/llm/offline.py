"""The extractor that needs no model: the patterns of the domain."""

from collections.abc import Sequence
from typing import Final

from commonbrain.model.kinds import Atom
from commonbrain.text.causal_extraction import extract_atoms
from commonbrain.text.summaries import Reflection, SourceText, digest

PATTERNS: Final = "patterns"


class PatternExtractor:
    """Finds causes by patterns of English; asks nobody, and is never down."""

    name = PATTERNS

    def atoms(self, text: str) -> Sequence[Atom]:
        """Find atoms by patterns, the most telling first."""
        return extract_atoms(text)


EXTRACTIVE: Final = "extractive"


class ExtractiveReflector:
    """Chooses sentences by what they say; asks nobody, and is never down."""

    name = EXTRACTIVE

    def reflect(self, told: Sequence[SourceText], *, claims_max: int) -> Reflection:
        """Choose the sentences that say most, each once."""
        return digest(told, claims_max=claims_max)
