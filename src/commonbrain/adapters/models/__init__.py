"""The models that can be chosen by name, each family in a file of its own."""

from collections.abc import Mapping
from typing import Protocol

from commonbrain.adapters.models.minilm import MiniLm
from commonbrain.ports.models import Embedder


class EmbedderFactory(Protocol):
    """Makes an embedder that uses up to `threads` cores for one text; loads nothing yet."""

    def __call__(self, *, threads: int) -> Embedder:
        """Make one."""
        ...


EMBEDDERS: Mapping[str, EmbedderFactory] = {
    "minilm": MiniLm,
}
"""By the name settings use; making one is cheap, its model is loaded on first use."""

__all__ = ["EMBEDDERS"]
