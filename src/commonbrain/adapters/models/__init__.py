"""The models that can be chosen by name, each family in a file of its own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from commonbrain.adapters.models.extractive import ExtractiveReflector
from commonbrain.adapters.models.minilm import SPACE, MiniLm
from commonbrain.adapters.models.options import Options
from commonbrain.adapters.models.patterns import PatternExtractor
from commonbrain.ports.models import Embedder, Extractor, Reflector

EmbedderFactory = Callable[[Options], Embedder]
"""Makes an embedder as settings say; loads and sends nothing yet."""


ExtractorFactory = Callable[[Options], Extractor]
"""Makes an extractor as settings say; sends nothing yet."""
ReflectorFactory = Callable[[Options], Reflector]
"""Makes a reflector as settings say; sends nothing yet."""


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


_MINILM: Final = "minilm"
# A family is loaded when it is chosen: what the others import would slow every command down.
EMBEDDERS: Final[Mapping[str, EmbedderFactory]] = {
    _MINILM: _minilm,
    "ollama": _ollama,
    "openai": _openai,
}
"""By the name settings use; making one is cheap, its model is loaded on first use."""


def _patterns(_options: Options) -> Extractor:
    return PatternExtractor()


def _ollama_chat(options: Options) -> Extractor:
    from commonbrain.adapters.models.chat import (  # noqa: PLC0415 see EMBEDDERS
        OLLAMA_CHAT,
        ChatExtractor,
    )

    return ChatExtractor(OLLAMA_CHAT, options)


def _openai_chat(options: Options) -> Extractor:
    from commonbrain.adapters.models.chat import (  # noqa: PLC0415 see EMBEDDERS
        OPENAI_CHAT,
        ChatExtractor,
    )

    return ChatExtractor(OPENAI_CHAT, options)


EXTRACTORS: Final[Mapping[str, ExtractorFactory]] = {
    "patterns": _patterns,
    "ollama": _ollama_chat,
    "openai": _openai_chat,
}
"""By the name settings use; the first needs no model and is the default."""


def _extractive(_options: Options) -> Reflector:
    return ExtractiveReflector()


def _ollama_reflector(options: Options) -> Reflector:
    from commonbrain.adapters.models.chat_reflector import ChatReflector  # noqa: PLC0415 see EMBEDDERS
    from commonbrain.adapters.models.chatting import OLLAMA_CHAT  # noqa: PLC0415

    return ChatReflector(OLLAMA_CHAT, options)


def _openai_reflector(options: Options) -> Reflector:
    from commonbrain.adapters.models.chat_reflector import ChatReflector  # noqa: PLC0415 see EMBEDDERS
    from commonbrain.adapters.models.chatting import OPENAI_CHAT  # noqa: PLC0415

    return ChatReflector(OPENAI_CHAT, options)


REFLECTORS: Final[Mapping[str, ReflectorFactory]] = {
    "extractive": _extractive,
    "ollama": _ollama_reflector,
    "openai": _openai_reflector,
}
"""By the name settings use; the first needs no model and is the default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """The embedder that makes vectors of a space, as far as the space's name tells."""

    family: str
    model: str | None = None
    dimensions: int | None = None


def embedder_named(space: str) -> Named | None:
    """Say which embedder makes vectors of a space; None where its name does not tell."""
    if space in {SPACE.name, _MINILM}:
        return Named(family=_MINILM)
    family, _, rest = space.partition("/")
    model, _, dimensions = rest.rpartition("/")
    if family not in EMBEDDERS or not model or not dimensions.isdecimal():
        return None
    return Named(family=family, model=model, dimensions=int(dimensions))


def settings_of(space: str) -> str | None:
    """Say which settings make vectors of a space; None where its name does not tell."""
    named = embedder_named(space)
    if named is None:
        return None
    told = f"COMMONBRAIN_EMBEDDER={named.family}"
    if named.model is None:
        return told
    return (
        f"{told} COMMONBRAIN_EMBEDDER_MODEL={named.model} "
        f"COMMONBRAIN_EMBEDDER_DIMENSIONS={named.dimensions}"
    )


__all__ = [
    "EMBEDDERS",
    "EXTRACTORS",
    "REFLECTORS",
    "EmbedderFactory",
    "ExtractorFactory",
    "Named",
    "Options",
    "ReflectorFactory",
    "embedder_named",
    "settings_of",
]
