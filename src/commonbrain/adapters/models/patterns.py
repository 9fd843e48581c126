"""The extractor that needs no model: the patterns of the domain."""

from collections.abc import Sequence
from typing import Final

from commonbrain.domain.atom import Atom
from commonbrain.domain.atomize import atoms

NAME: Final = "patterns"


class PatternExtractor:
    """Finds causes by patterns of English; asks nobody, and is never down."""

    name = NAME

    def atoms(self, text: str) -> Sequence[Atom]:
        """Find atoms by patterns, the most telling first."""
        return atoms(text)
