"""What the house needs of models: texts in, vectors of one known space out."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from commonbrain.domain.space import Space

Matrix = NDArray[np.float32]


class Embedder(Protocol):
    """Turns texts into unit vectors of its `space`; safe to call from several threads at once.

    Laws: the same text gives the same vector, alone or in a batch, to within 1e-5 of cosine; every
    row has length 1; work happens on the first call, not on construction.
    """

    @property
    def space(self) -> Space:
        """The space of every vector this embedder returns; known without loading the model."""
        ...

    def query(self, text: str) -> Matrix:
        """Embed what somebody asks.

        Returns:
            One unit vector, shape `(dimensions,)`.

        Raises:
            Unavailable: `embedder_down`; nothing was changed, a later call may succeed.

        """
        ...

    def passages(self, texts: Sequence[str]) -> list[Matrix]:
        """Embed what is stored; a text longer than the model reads becomes overlapping windows.

        Returns:
            One matrix per text in the order given, shape `(windows, dimensions)`, windows >= 1.

        Raises:
            Unavailable: `embedder_down`; nothing was changed, a later call may succeed.

        """
        ...
