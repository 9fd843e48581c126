"""The models that can be chosen by name, each family in a file of its own."""

from collections.abc import Callable, Mapping

from commonbrain.adapters.models.minilm import MiniLm
from commonbrain.ports.models import Embedder

EMBEDDERS: Mapping[str, Callable[[], Embedder]] = {
    "minilm": MiniLm,
}
"""By the name settings use; making one is cheap, its model is loaded on first use."""

__all__ = ["EMBEDDERS"]
