"""Reflection by rules of English, the default, which needs no model.

The rules are imported by the first call, because opening a store needs none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from commonbrain.text.summaries import Reflection, SourceText

EXTRACTIVE: Final = "extractive"


class ExtractiveReflector:
    """Selects sentences by their content; needs no network."""

    name = EXTRACTIVE

    def reflect(self, sources: Sequence[SourceText], *, claims_max: int) -> Reflection:
        """Select the most informative sentences, without repetition."""
        from commonbrain.text.summaries import digest  # noqa: PLC0415

        return digest(sources, claims_max=claims_max)
