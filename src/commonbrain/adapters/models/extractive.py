"""The reflector that needs no model: the most telling sentences, as they stand."""

from collections.abc import Sequence
from typing import Final

from commonbrain.domain.digest import digest
from commonbrain.domain.reflection import Reflection, Told

NAME: Final = "extractive"


class ExtractiveReflector:
    """Chooses sentences by what they say; asks nobody, and is never down."""

    name = NAME

    def reflect(self, told: Sequence[Told], *, claims_max: int) -> Reflection:
        """Choose the sentences that say most, each once."""
        return digest(told, claims_max=claims_max)
