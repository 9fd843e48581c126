"""Embedders, extractors and reflectors, as settings name them."""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from commonbrain.config import Settings
from commonbrain.embeddings.interface import Embedder, EmbeddingSpace, Extractor, Reflector
from commonbrain.embeddings.local import SPACE, MiniLmEmbedder
from commonbrain.embeddings.options import Options
from commonbrain.llm.offline import ExtractiveReflector, PatternExtractor
from commonbrain.model.errors import InvalidInputError, StoreCorruptError
from commonbrain.storage.interface import SpaceMismatch

EmbedderFactory = Callable[[Options], Embedder]
"""Makes an embedder as settings say; loads and sends nothing yet."""


ExtractorFactory = Callable[[Options], Extractor]
"""Makes an extractor as settings say; sends nothing yet."""
ReflectorFactory = Callable[[Options], Reflector]
"""Makes a reflector as settings say; sends nothing yet."""


def _minilm(options: Options) -> Embedder:
    return MiniLmEmbedder(threads=options.threads)


def _ollama(options: Options) -> Embedder:
    from commonbrain.embeddings.http import OLLAMA, HttpEmbedder  # noqa: PLC0415 see EMBEDDERS

    return HttpEmbedder(OLLAMA, options)


def _openai(options: Options) -> Embedder:
    from commonbrain.embeddings.http import OPENAI, HttpEmbedder  # noqa: PLC0415 see EMBEDDERS

    return HttpEmbedder(OPENAI, options)


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
    from commonbrain.llm.extraction import OLLAMA_CHAT, ChatExtractor  # noqa: PLC0415 see EMBEDDERS

    return ChatExtractor(OLLAMA_CHAT, options)


def _openai_chat(options: Options) -> Extractor:
    from commonbrain.llm.extraction import OPENAI_CHAT, ChatExtractor  # noqa: PLC0415 see EMBEDDERS

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
    from commonbrain.llm.client import OLLAMA_CHAT  # noqa: PLC0415
    from commonbrain.llm.reflection import ChatReflector  # noqa: PLC0415 see EMBEDDERS

    return ChatReflector(OLLAMA_CHAT, options)


def _openai_reflector(options: Options) -> Reflector:
    from commonbrain.llm.client import OPENAI_CHAT  # noqa: PLC0415
    from commonbrain.llm.reflection import ChatReflector  # noqa: PLC0415 see EMBEDDERS

    return ChatReflector(OPENAI_CHAT, options)


REFLECTORS: Final[Mapping[str, ReflectorFactory]] = {
    "extractive": _extractive,
    "ollama": _ollama_reflector,
    "openai": _openai_reflector,
}
"""By the name settings use; the first needs no model and is the default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedModel:
    """The embedder that makes vectors of a space, as far as the space's name tells."""

    family: str
    model: str | None = None
    dimensions: int | None = None


def parse_space_name(space: str) -> NamedModel | None:
    """Say which embedder makes vectors of a space; None where its name does not tell."""
    if space in {SPACE.name, _MINILM}:
        return NamedModel(family=_MINILM)
    family, _, rest = space.partition("/")
    model, _, dimensions = rest.rpartition("/")
    if family not in EMBEDDERS or not model or not dimensions.isdecimal():
        return None
    return NamedModel(family=family, model=model, dimensions=int(dimensions))


def settings_of(space: str) -> str | None:
    """Say which settings make vectors of a space; None where its name does not tell."""
    embedder_name = parse_space_name(space)
    if embedder_name is None:
        return None
    settings = f"COMMONBRAIN_EMBEDDER={embedder_name.family}"
    if embedder_name.model is None:
        return settings
    return (
        f"{settings} COMMONBRAIN_EMBEDDER_MODEL={embedder_name.model} "
        f"COMMONBRAIN_EMBEDDER_DIMENSIONS={embedder_name.dimensions}"
    )


__all__ = [
    "EMBEDDERS",
    "EXTRACTORS",
    "REFLECTORS",
    "EmbedderFactory",
    "ExtractorFactory",
    "NamedModel",
    "Options",
    "ReflectorFactory",
    "parse_space_name",
    "settings_of",
]


def make_embedder(settings: Settings) -> Embedder:
    """Make the embedder that settings name; nothing is loaded or sent yet.

    Raises:
        InvalidInputError: there is no such embedder, or what it needs to know is missing or wrong.

    """
    make = EMBEDDERS.get(settings.embedder)
    if make is None:
        raise InvalidInputError(
            f"There is no embedder {settings.embedder[:40]!r}.",
            hint=f"COMMONBRAIN_EMBEDDER may be {', '.join(EMBEDDERS)}.",
        )
    options = Options(
        threads=settings.embedder_threads,
        model=settings.embedder_model,
        url=settings.embedder_url,
        key=settings.embedder_api_key,
        dimensions=settings.embedder_dimensions,
        timeout_s=settings.embedder_timeout_s,
        retries=settings.embedder_retries,
    )
    return make(options)


def make_next_embedder(space: str, *, settings: Settings) -> Embedder:
    """Make the embedder of another space, by the space's name; nothing is loaded or sent yet.

    Raises:
        InvalidInputError: the name tells of none.

    """
    embedder_name = parse_space_name(space)
    if embedder_name is None:
        raise InvalidInputError(
            f"No embedder is known that makes vectors of {space[:60]!r}.",
            hint="It is minilm, or FAMILY/MODEL/DIMENSIONS as in ollama/nomic-embed-text/768.",
        )
    is_served_alike = embedder_name.family == settings.embedder
    settings_hint = {
        "embedder": embedder_name.family,
        "embedder_model": embedder_name.model,
        "embedder_dimensions": embedder_name.dimensions,
        # The endpoint of today serves another of its models, unless settings say otherwise.
        "embedder_url": settings.embedder_next_url
        or (settings.embedder_url if is_served_alike else None),
        "embedder_api_key": settings.embedder_next_api_key
        or (settings.embedder_api_key if is_served_alike else None),
    }
    return make_embedder(settings.model_copy(update=settings_hint))


def make_extractor(settings: Settings) -> Extractor:
    """Make the extractor that settings name; nothing is sent yet.

    Raises:
        InvalidInputError: there is no such extractor, or what it needs to know is missing or wrong.

    """
    make = EXTRACTORS.get(settings.extractor)
    if make is None:
        raise InvalidInputError(
            f"There is no extractor {settings.extractor[:40]!r}.",
            hint=f"COMMONBRAIN_EXTRACTOR may be {', '.join(EXTRACTORS)}.",
        )
    options = Options(
        model=settings.extractor_model,
        url=settings.extractor_url,
        key=settings.extractor_api_key,
        timeout_s=settings.extractor_timeout_s,
        retries=settings.extractor_retries,
        tokens_max=settings.extractor_tokens_max,
    )
    return make(options)


def make_reflector(settings: Settings) -> Reflector:
    """Make the reflector that settings name; nothing is sent yet.

    Raises:
        InvalidInputError: there is no such reflector, or what it needs to know is missing or wrong.

    """
    make = REFLECTORS.get(settings.reflector)
    if make is None:
        raise InvalidInputError(
            f"There is no reflector {settings.reflector[:40]!r}.",
            hint=f"COMMONBRAIN_REFLECTOR may be {', '.join(REFLECTORS)}.",
        )
    options = Options(
        model=settings.reflector_model,
        url=settings.reflector_url,
        key=settings.reflector_api_key,
        timeout_s=settings.reflector_timeout_s,
        retries=settings.reflector_retries,
        tokens_max=settings.reflector_tokens_max,
    )
    return make(options)


def apply_thresholds(space: EmbeddingSpace, settings: Settings) -> EmbeddingSpace:
    """Give a space the thresholds that settings know better."""
    names = ("duplicate_threshold", "similar_threshold", "relevance_threshold", "answer_threshold")
    overrides = {name: getattr(settings, name) for name in names}
    apply_thresholds = replace(
        space, **{name: at for name, at in overrides.items() if at is not None}
    )
    if (
        not apply_thresholds.relevance_threshold
        < apply_thresholds.similar_threshold
        <= apply_thresholds.duplicate_threshold
    ):
        raise InvalidInputError(
            f"The thresholds are relevant {apply_thresholds.relevance_threshold}, similar "
            f"{apply_thresholds.similar_threshold}, "
            f"duplicate {apply_thresholds.duplicate_threshold}; each must be above the one before.",
            hint="Correct COMMONBRAIN_RELEVANCE_THRESHOLD, COMMONBRAIN_SIMILAR_THRESHOLD and "
            "COMMONBRAIN_DUPLICATE_THRESHOLD.",
        )
    return apply_thresholds


@contextmanager
def redacted_settings() -> Generator[None]:
    """Say which settings open a store whose vectors another embedder made."""
    try:
        yield
    except SpaceMismatch as error:
        known = settings_of(error.known)
        raise StoreCorruptError(
            error.message,
            code=error.code,
            hint=f"Open it with {known}; `brain embeddings build` moves it to another embedder."
            if known
            else error.hint,
        ) from error
