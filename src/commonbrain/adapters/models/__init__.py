"""The models that can be chosen by name, each family in a file of its own."""

from collections.abc import Callable, Mapping
from typing import Final

from commonbrain.adapters.models.minilm import SPACE, MiniLm
from commonbrain.adapters.models.options import Options
from commonbrain.ports.models import Embedder

EmbedderFactory = Callable[[Options], Embedder]
"""Makes an embedder as settings say; loads and sends nothing yet."""


def _minilm(options: Options) -> Embedder:
    return MiniLm(threads=options.threads)


def _ollama(options: Options) -> Embedder:
    from commonbrain.adapters.models.ollama import OLLAMA  # noqa: PLC0415 see EMBEDDERS
    from commonbrain.adapters.models.remote import Remote  # noqa: PLC0415

    return Remote(OLLAMA, options)


def _openai(options: Options) -> Embedder:
    from commonbrain.adapters.models.openai import OPENAI  # noqa: PLC0415 see EMBEDDERS
    from commonbrain.adapters.models.remote import Remote  # noqa: PLC0415

    return Remote(OPENAI, options)


# A family is loaded when it is chosen: what the others import would slow every command down.
EMBEDDERS: Final[Mapping[str, EmbedderFactory]] = {
    "minilm": _minilm,
    "ollama": _ollama,
    "openai": _openai,
}
"""By the name settings use; making one is cheap, its model is loaded on first use."""


def settings_of(space: str) -> str | None:
    """Say which settings make vectors of a space; None where its name does not tell."""
    if space == SPACE.name:
        return "COMMONBRAIN_EMBEDDER=minilm"
    family, _, rest = space.partition("/")
    model, _, dimensions = rest.rpartition("/")
    if family not in EMBEDDERS or not model or not dimensions.isdecimal():
        return None
    return (
        f"COMMONBRAIN_EMBEDDER={family} COMMONBRAIN_EMBEDDER_MODEL={model} "
        f"COMMONBRAIN_EMBEDDER_DIMENSIONS={dimensions}"
    )


__all__ = ["EMBEDDERS", "EmbedderFactory", "Options", "settings_of"]
