"""Embedders, rerankers, extractors and reflectors by the names in settings."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakValueDictionary

from commonbrain.config import Settings
from commonbrain.embeddings.interface import Embedder, EmbeddingSpace, Extractor, Reflector
from commonbrain.embeddings.local import SPACE, MiniLmEmbedder
from commonbrain.embeddings.options import Options
from commonbrain.llm.rule_based import ExtractiveReflector, PatternExtractor
from commonbrain.model.errors import InvalidInputError, StoreCorruptError
from commonbrain.model.values import dataclass, replace
from commonbrain.storage.interface import SpaceMismatch
from commonbrain.threads import after_fork

if TYPE_CHECKING:
    from commonbrain.clock import Clock
    from commonbrain.retrieval.cross_encoding import CrossEncoding

ModelT = TypeVar("ModelT")

_SHARED: Final = WeakValueDictionary[int | None, MiniLmEmbedder]()
"""The default embedder, by threads: the stores that a process has open share one loaded model."""


def _forget_unloaded() -> None:
    """Let a forked child load the model itself, if a thread of its parent was loading it."""
    for threads, embedder in list(_SHARED.items()):
        if not embedder.is_loaded:
            del _SHARED[threads]


after_fork(_forget_unloaded)


def _onnx(options: Options) -> Embedder:
    # Imported when it is chosen.
    from commonbrain.embeddings.model_records import ModelRecords  # noqa: PLC0415
    from commonbrain.embeddings.onnx_folder import OnnxEmbedder  # noqa: PLC0415
    from commonbrain.retrieval.calibration import EDITION, calibrate  # noqa: PLC0415

    if not options.model:
        raise InvalidInputError(
            "The embedder onnx needs the folder of a model.",
            hint="Write COMMONBRAIN_EMBEDDER=onnx:FOLDER.",
        )
    return OnnxEmbedder(
        Path(options.model),
        records=ModelRecords(options.records),
        calibrate=calibrate,
        edition=EDITION,
        threads=options.threads,
    )


_MINILM: Final = "minilm"
_ONNX: Final = "onnx"


def _endpoint(model: str, api: str) -> Callable[[Options], Any]:
    """Return a factory of a model at an endpoint, given the names of its class and of its API.

    They are imported when it is chosen: importing all would slow every command down.
    """
    return lambda options: resolve_name(model)(resolve_name(api), options)


_HTTP: Final = "commonbrain.embeddings.http"
EMBEDDERS: Final[Mapping[str, Callable[[Options], Embedder]]] = {
    _MINILM: lambda options: _SHARED.setdefault(
        options.threads, MiniLmEmbedder(threads=options.threads)
    ),
    _ONNX: _onnx,
    "ollama": _endpoint(f"{_HTTP}:HttpEmbedder", f"{_HTTP}:OLLAMA"),
    "openai": _endpoint(f"{_HTTP}:HttpEmbedder", f"{_HTTP}:OPENAI"),
}
"""By name; creation is cheap, models load on first use."""


def _chat(model: str, name: str) -> Callable[[Options], Any]:
    """Return a factory of what asks a language model at an endpoint."""
    return _endpoint(f"commonbrain.llm.{model}", f"commonbrain.llm.client:{name}_CHAT")


EXTRACTORS: Final[Mapping[str, Callable[[Options], Extractor]]] = {
    "patterns": lambda _: PatternExtractor(),
    "ollama": _chat("extraction:ChatExtractor", "OLLAMA"),
    "openai": _chat("extraction:ChatExtractor", "OPENAI"),
}
"""By name; the first is the default and needs no model."""
REFLECTORS: Final[Mapping[str, Callable[[Options], Reflector]]] = {
    "extractive": lambda _: ExtractiveReflector(),
    "ollama": _chat("reflection:ChatReflector", "OLLAMA"),
    "openai": _chat("reflection:ChatReflector", "OPENAI"),
}
"""By name; the first is the default and needs no model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedModel:
    """The embedder of an embedding space, as far as its name determines it."""

    family: str
    model: str | None = None
    dimensions: int | None = None


def parse_space_name(space: str) -> NamedModel | None:
    """Return the embedder of an embedding space, or None if its name does not determine it."""
    if space in {SPACE.name, _MINILM}:
        return NamedModel(family=_MINILM)
    if space.startswith(f"{_ONNX}:"):
        return NamedModel(family=_ONNX, model=space.removeprefix(f"{_ONNX}:"))
    family, _, rest = space.partition("/")
    model, _, dimensions = rest.rpartition("/")
    if family not in EMBEDDERS or not model or not dimensions.isdecimal():
        return None
    return NamedModel(family=family, model=model, dimensions=int(dimensions))


def _find_folder(space: str, *, records: Path) -> str | None:
    """Return the folder of a local model by the name of its space, if this machine knows it."""
    from commonbrain.embeddings.model_records import ModelRecords  # noqa: PLC0415 see EMBEDDERS

    digest = space.split("/")[1]
    record = ModelRecords(records).find(digest)
    return record.path if record else None


def settings_of(space: str, *, records: Path | None = None) -> str | None:
    """Return the settings for an embedding space, or None if its name does not determine them."""
    embedder_name = parse_space_name(space)
    if embedder_name is None:
        return None
    if embedder_name.family == _ONNX:
        folder = _find_folder(space, records=records) if records else None
        return f"COMMONBRAIN_EMBEDDER={_ONNX}:{folder or 'FOLDER (that of the model)'}"
    settings = f"COMMONBRAIN_EMBEDDER={embedder_name.family}"
    if embedder_name.model is None:
        return settings
    return (
        f"{settings} COMMONBRAIN_EMBEDDER_MODEL={embedder_name.model} "
        f"COMMONBRAIN_EMBEDDER_DIMENSIONS={embedder_name.dimensions}"
    )


def make_embedder(settings: Settings) -> Embedder:
    """Create the configured embedder; loads and sends nothing yet.

    Raises:
        InvalidInputError: There is no such embedder, or its settings are missing or invalid.

    """
    family, _, folder = settings.embedder.partition(":")
    make = EMBEDDERS.get(family)
    if make is None or (folder and family != _ONNX):
        names = ", ".join(f"{_ONNX}:FOLDER" if one == _ONNX else one for one in EMBEDDERS)
        raise InvalidInputError(
            f"There is no embedder {settings.embedder[:40]!r}.",
            hint=f"COMMONBRAIN_EMBEDDER may be {names}.",
        )
    options = Options(
        threads=settings.embedder_threads,
        model=folder if family == _ONNX else settings.embedder_model,
        records=_records(settings),
        url=settings.embedder_url,
        key=settings.embedder_api_key,
        dimensions=settings.embedder_dimensions,
        timeout_s=settings.embedder_timeout_s,
        retries=settings.embedder_retries,
    )
    return make(options)


def _records(settings: Settings) -> Path:
    return settings.state.expanduser() / "models"


def make_cross_encoding(settings: Settings, *, clock: Clock) -> CrossEncoding | None:
    """Create the configured reranker; loads nothing yet.

    Raises:
        InvalidInputError: There is no such reranker.

    """
    if settings.reranker is None:
        return None
    family, _, folder = settings.reranker.partition(":")
    if family != _ONNX or not folder:
        raise InvalidInputError(
            f"There is no reranker {settings.reranker[:40]!r}.",
            hint=f"COMMONBRAIN_RERANKER may be {_ONNX}:FOLDER.",
        )
    # Imported when it is chosen.
    from commonbrain.embeddings.onnx_cross_encoder import OnnxCrossEncoder  # noqa: PLC0415
    from commonbrain.retrieval.cross_encoding import CrossEncoding  # noqa: PLC0415

    return CrossEncoding(
        OnnxCrossEncoder(Path(folder), threads=settings.embedder_threads),
        clock=clock,
        candidates=settings.reranker_candidates,
        timeout_s=settings.reranker_timeout_s,
    )


def make_next_embedder(space: str, *, settings: Settings) -> Embedder:
    """Create the embedder of another embedding space by its name; loads and sends nothing yet.

    Raises:
        InvalidInputError: The name does not determine an embedder.

    """
    embedder_name = parse_space_name(space)
    if embedder_name is None:
        raise InvalidInputError(
            f"No embedder is known that makes vectors of {space[:60]!r}.",
            hint="It is minilm, onnx:FOLDER, or FAMILY/MODEL/DIMENSIONS as in "
            "ollama/nomic-embed-text/768.",
        )
    if embedder_name.family == _ONNX:
        return _make_local(space, settings=settings)
    is_served_alike = embedder_name.family == settings.embedder
    settings_hint = {
        "embedder": embedder_name.family,
        "embedder_model": embedder_name.model,
        "embedder_dimensions": embedder_name.dimensions,
        # By default the current endpoint serves the other model too.
        "embedder_url": settings.embedder_next_url
        or (settings.embedder_url if is_served_alike else None),
        "embedder_api_key": settings.embedder_next_api_key
        or (settings.embedder_api_key if is_served_alike else None),
    }
    return make_embedder(settings.model_copy(update=settings_hint))


def _make_local(space: str, *, settings: Settings) -> Embedder:
    """Create the embedder of a local model, by `onnx:FOLDER` or the name of its space."""
    if space.startswith(f"{_ONNX}:"):
        return make_embedder(settings.model_copy(update={"embedder": space}))
    folder = _find_folder(space, records=_records(settings))
    if folder is not None:
        embedder = make_embedder(settings.model_copy(update={"embedder": f"{_ONNX}:{folder}"}))
        if embedder.space.name == space:
            return embedder
    raise InvalidInputError(
        f"No folder on this machine is known to have the model of {space[:60]!r}"
        + (f"; {folder} has another one now." if folder else "."),
        hint="Name the folder, as in onnx:FOLDER.",
    )


def make_extractor(settings: Settings) -> Extractor:
    """Create the configured extractor; sends nothing yet.

    Raises:
        InvalidInputError: There is no such extractor, or its settings are missing or invalid.

    """
    return _make(EXTRACTORS, "extractor", settings=settings)


def make_reflector(settings: Settings) -> Reflector:
    """Create the configured reflector; sends nothing yet.

    Raises:
        InvalidInputError: There is no such reflector, or its settings are missing or invalid.

    """
    return _make(REFLECTORS, "reflector", settings=settings)


def _make(
    makers: Mapping[str, Callable[[Options], ModelT]], role: str, *, settings: Settings
) -> ModelT:
    name: str = getattr(settings, role)
    make = makers.get(name)
    if make is None:
        raise InvalidInputError(
            f"There is no {role} {name[:40]!r}.",
            hint=f"COMMONBRAIN_{role.upper()} may be {', '.join(makers)}.",
        )
    named = ("model", "url", "timeout_s", "retries", "tokens_max")
    options: dict[str, Any] = {one: getattr(settings, f"{role}_{one}") for one in named}
    return make(Options(**options, key=getattr(settings, f"{role}_api_key")))


def with_thresholds(space: EmbeddingSpace, settings: Settings) -> EmbeddingSpace:
    """Return the embedding space with the thresholds that are set."""
    names = ("similar_threshold", "relevance_threshold", "answer_threshold")
    overrides = {name: getattr(settings, name) for name in names}
    given = {name: at for name, at in overrides.items() if at is not None}
    origin = "settings" if given else space.threshold_origin
    merged = replace(space, threshold_origin=origin, **given)
    if merged.relevance_threshold >= merged.similar_threshold:
        raise InvalidInputError(
            f"The thresholds are relevant {merged.relevance_threshold}, similar "
            f"{merged.similar_threshold}; the second must be above the first.",
            hint="Correct COMMONBRAIN_RELEVANCE_THRESHOLD and COMMONBRAIN_SIMILAR_THRESHOLD.",
        )
    return merged


@contextmanager
def suggesting_settings(settings: Settings) -> Generator[None]:
    """Add to a space mismatch error the settings that would open the store."""
    try:
        yield
    except SpaceMismatch as error:
        known = settings_of(error.known, records=_records(settings))
        raise StoreCorruptError(
            error.message,
            code=error.code,
            hint=f"Open it with {known}; `brain embeddings build` moves it to another embedder."
            if known
            else error.hint,
        ) from error
