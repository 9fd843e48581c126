"""Embedders, rerankers and reflectors by the names in settings.

`minilm` and `extractive` are of the core, `multilingual` is of commonbrain-multilingual. Others
come from packages by entry points of the group `commonbrain.models`, such as `embedder-onnx`;
commonbrain-models has them. They are imported when they are chosen: importing all would slow every
command down.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast
from weakref import WeakValueDictionary

from commonbrain.config import Settings
from commonbrain.embeddings.interface import (
    CAUTIOUS,
    UNKNOWN_SPACE,
    Embedder,
    EmbeddingSpace,
    Extractor,
    LocalModel,
    Options,
    Reflector,
)
from commonbrain.embeddings.local import SPACE, MiniLmEmbedder
from commonbrain.extras import is_installed, load_extra, load_row
from commonbrain.model.errors import InvalidInputError, StoreCorruptError, UnavailableError
from commonbrain.model.model_card import CROSS_ENCODER
from commonbrain.model.values import dataclass, replace
from commonbrain.services import Reranker
from commonbrain.storage.interface import SpaceMismatch
from commonbrain.threads import after_fork

if TYPE_CHECKING:
    from commonbrain.clock import Clock, Deadline
    from commonbrain.embeddings.interface import Matrix
    from commonbrain.retrieval.plan import QueryPlan
    from commonbrain.retrieval.table import Table
    from commonbrain.storage.store import Store
    from commonbrain.text.summaries import Reflection, SourceText

Model = TypeVar("Model")
Opened = TypeVar("Opened")

_LOG: Final = logging.getLogger(__name__)
_EXTRA: Final = "models"


class ExtractiveReflector:
    """Selects sentences by their content; needs no network."""

    name = "extractive"

    def reflect(self, sources: Sequence[SourceText], *, claims_max: int) -> Reflection:
        """Select the most informative sentences, without repetition."""
        from commonbrain.text.summaries import digest  # noqa: PLC0415 opening needs no rules

        return digest(sources, claims_max=claims_max)


_SHARED: Final = WeakValueDictionary[tuple[str, int | None], Embedder]()
"""Packaged embedders, by name and threads: the stores of a process share one loaded model."""


def _forget_unloaded() -> None:
    """Let a forked child load the model itself, if a thread of its parent was loading it."""
    for key, embedder in list(_SHARED.items()):
        if isinstance(embedder, LocalModel) and not embedder.is_loaded:
            del _SHARED[key]


after_fork(_forget_unloaded)


def _load_model(row: str) -> Callable[..., Any]:
    return cast("Callable[..., Any]", load_row("models", row, extra=_EXTRA))


def _packaged(row: str) -> Callable[[Options], Any]:
    """Return what makes a model of commonbrain-models from settings."""

    def make(options: Options) -> Any:  # noqa: ANN401 it is of another package
        return _load_model(row)(options)

    return make


_MINILM: Final = "minilm"
_MULTILINGUAL: Final = "multilingual"
_PACKAGED: Final = {SPACE.name: _MINILM, "multilingual-e5-small-int8-2": _MULTILINGUAL}
"""The spaces of the models that are packages, all of as many dimensions, and their embedders."""
_ONNX: Final = "onnx"


def _minilm(options: Options) -> Embedder:
    made = MiniLmEmbedder(threads=options.threads)
    return _SHARED.setdefault((_MINILM, options.threads), made)


def _multilingual(options: Options) -> Embedder:
    package = load_extra("commonbrain_multilingual.embedder", extra=_MULTILINGUAL)
    made = package.MultilingualEmbedder(threads=options.threads)
    return _SHARED.setdefault((_MULTILINGUAL, options.threads), made)


EMBEDDERS: Final[Mapping[str, Callable[[Options], Embedder]]] = {
    _MINILM: _minilm,
    _MULTILINGUAL: _multilingual,
    _ONNX: _packaged("embedder-onnx"),
    "ollama": _packaged("embedder-ollama"),
    "openai": _packaged("embedder-openai"),
}
"""By name; creation is cheap, models load on first use, and nothing is sent before."""
REFLECTORS: Final[Mapping[str, Callable[[Options], Reflector]]] = {
    ExtractiveReflector.name: lambda _: ExtractiveReflector(),
    "ollama": _packaged("reflector-ollama"),
    "openai": _packaged("reflector-openai"),
}
"""By name; the first is the default and needs no model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingModel:
    """Stands in for a model whose package is not installed; every call says what to install."""

    name: str
    purpose: str
    """`embedder`, `reflector` or `reranker`."""
    missing: InvalidInputError
    space: EmbeddingSpace = UNKNOWN_SPACE

    def query(self, text: str) -> Matrix:  # noqa: ARG002
        """Refuse."""
        raise self._unavailable()

    def passages(self, texts: Sequence[str]) -> list[Matrix]:  # noqa: ARG002
        """Refuse."""
        raise self._unavailable()

    def reflect(self, sources: Sequence[SourceText], *, claims_max: int) -> Reflection:  # noqa: ARG002
        """Refuse."""
        raise self._unavailable()

    def reranker(self, plan: QueryPlan, *, deadline: Deadline) -> Callable[[Table], None]:  # noqa: ARG002
        """Return what leaves the order as it is, and says why."""
        return lambda table: table.degraded.append(f"{CROSS_ENCODER}: {self.missing.message}")

    def check(self) -> None:
        """Refuse."""
        raise self._unavailable()

    def close(self) -> None:
        """Do nothing."""

    def _unavailable(self) -> UnavailableError:
        return UnavailableError(
            self.missing.message, code=f"{self.purpose}_down", hint=self.missing.hint
        )


def _replace_missing(name: str, purpose: str, *, missing: InvalidInputError) -> MissingModel:
    """Replace a model whose package is not installed; raise any other error."""
    if missing.code != "extra_missing":
        raise missing
    _LOG.warning("The %s %s is not used: %s", purpose, name, missing)
    return MissingModel(name=name, purpose=purpose, missing=missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedModel:
    """The embedder of an embedding space, as far as its name determines it."""

    family: str
    model: str | None = None
    dimensions: int | None = None


def parse_space_name(space: str) -> NamedModel | None:
    """Return the embedder of an embedding space, or None if its name does not determine it."""
    packaged = _PACKAGED.get(space, space)
    if packaged in _PACKAGED.values():
        return NamedModel(family=packaged, dimensions=SPACE.dimensions)
    if space.startswith(f"{_ONNX}:"):
        return NamedModel(family=_ONNX, model=space.removeprefix(f"{_ONNX}:"))
    family, _, rest = space.partition("/")
    model, _, dimensions = rest.rpartition("/")
    if family not in EMBEDDERS or not model or not dimensions.isdecimal():
        return None
    return NamedModel(family=family, model=model, dimensions=int(dimensions))


def _find_folder(space: str, *, records: Path) -> str | None:
    """Return the folder of a local model by the name of its space, if this machine knows it."""
    try:
        find = _load_model("folder-of-space")
    except InvalidInputError:
        return None
    return find(space, records=records)


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


def _choose(
    models: Mapping[str, Callable[[Options], Model]], name: str, *, purpose: str
) -> Callable[[Options], Model]:
    """Return what makes a model: of the table, or of another package.

    Raises:
        InvalidInputError: There is none of this name.

    """
    if name in models:
        return models[name]
    try:
        return _load_model(f"{purpose}-{name}")
    except InvalidInputError as error:
        if isinstance(error.__cause__, ImportError | AttributeError):
            # Its package is there, and says itself why it cannot be loaded.
            raise
        names = ", ".join(f"{_ONNX}:FOLDER" if known == _ONNX else known for known in models)
        raise InvalidInputError(
            f"There is no {purpose} {name[:40]!r}.",
            hint=f"COMMONBRAIN_{purpose.upper()} may be {names}.",
        ) from None


def make_embedder(settings: Settings) -> Embedder:
    """Create the configured embedder; loads and sends nothing yet.

    Raises:
        InvalidInputError: There is no such embedder, or its settings are missing or invalid.

    """
    named = settings.embedder
    if "embedder" not in settings.model_fields_set and is_installed("commonbrain_multilingual"):
        named = _MULTILINGUAL
    family, _, folder = named.partition(":")
    name = named if family != _ONNX else family
    make = _choose(EMBEDDERS, name, purpose="embedder")
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


def make_missing_embedder(
    settings: Settings, missing: InvalidInputError, *, open_in: Callable[[EmbeddingSpace], Store]
) -> MissingModel:
    """Stand in for the configured embedder in the space that serves in a store.

    Args:
        settings: They name an embedder whose package is not installed.
        missing: The error that says so.
        open_in: Opens the store in a space.

    Raises:
        InvalidInputError: The store has no space yet, or `missing` has another reason.
        StoreCorruptError: The space is of another embedder.

    """
    name = ""
    try:
        open_in(UNKNOWN_SPACE).close()
    except SpaceMismatch as mismatch:
        name = mismatch.known
    if not name:
        raise missing
    model = parse_space_name(name)
    if model is None or model.family != settings.embedder.partition(":")[0]:
        raise SpaceMismatch(name, made=settings.embedder)
    replacement = _replace_missing(settings.embedder, "embedder", missing=missing)
    space = EmbeddingSpace.of(name, dimensions=model.dimensions or 0, thresholds=CAUTIOUS)
    return replace(replacement, space=space)


def make_reranker(settings: Settings, *, clock: Clock) -> Reranker | None:
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
    try:
        make = _load_model("reranker-onnx")
    except InvalidInputError as error:
        return _replace_missing(settings.reranker, "reranker", missing=error)
    return make(
        Options(threads=settings.embedder_threads, model=folder, records=_records(settings)),
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
            hint="It is minilm, multilingual, onnx:FOLDER, or FAMILY/MODEL/DIMENSIONS as in "
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
        InvalidInputError: There is no such extractor, its settings are missing or invalid, or
            `extra_missing`, its package is not installed.

    """
    make = cast("Callable[[Settings], Extractor]", load_row("causes", "extractor", extra="causes"))
    return make(settings)


def make_reflector(settings: Settings) -> Reflector:
    """Create the configured reflector; sends nothing yet.

    Raises:
        InvalidInputError: There is no such reflector, or its settings are missing or invalid.

    """
    name = settings.reflector or ExtractiveReflector.name
    make = _choose(REFLECTORS, name, purpose="reflector")
    try:
        return make(chat_options(settings, "reflector"))
    except InvalidInputError as error:
        return _replace_missing(name, "reflector", missing=error)


def chat_options(settings: Settings, purpose: str) -> Options:
    """Return the settings of a language model for a purpose, `extractor` or `reflector`."""
    names = ("model", "url", "timeout_s", "retries", "tokens_max")
    values: dict[str, Any] = {name: getattr(settings, f"{purpose}_{name}") for name in names}
    return Options(**values, key=getattr(settings, f"{purpose}_api_key"))


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


def packaged_embedder(space: str, settings: Settings) -> str | None:
    """Return the packaged embedder of a space, if the settings leave the choice to the store."""
    return None if "embedder" in settings.model_fields_set else _PACKAGED.get(space)


def open_with_model(settings: Settings, act: Callable[[Settings], Opened]) -> Opened:
    """Open a store; where the settings name no embedder, with the packaged one of its space.

    Raises:
        StoreCorruptError: The store is of another embedder; the hint has the settings that open it.

    """
    try:
        return act(settings)
    except SpaceMismatch as error:
        if packaged := packaged_embedder(error.known, settings):
            return act(settings.model_copy(update={"embedder": packaged}))
        known = settings_of(error.known, records=_records(settings))
        raise StoreCorruptError(
            error.message,
            code=error.code,
            hint=f"Open it with {known}; `brain embeddings build` moves it to another embedder."
            if known
            else error.hint,
        ) from error
