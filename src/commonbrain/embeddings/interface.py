"""Interfaces of models: embedders, extractors, reflectors, rerankers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import lru_cache, partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar, runtime_checkable

from commonbrain.model.limits import EMBEDDED_WINDOWS_MAX
from commonbrain.model.values import dataclass, field, replace

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray
    from pydantic import SecretStr

    from commonbrain.model.atoms import Atom
    from commonbrain.model.kinds import CausalField
    from commonbrain.model.parameters import Parameters
    from commonbrain.text.summaries import Reflection, SourceText

Window = TypeVar("Window")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of one model; None leaves the choice to the family."""

    threads: int | None = None
    """Processor cores for embedding, if the model runs in this process."""
    model: str | None = None
    """Its name at the endpoint, or its folder or file."""
    records: Path | None = None
    """Folder that keeps measurements of local models; None keeps them for this process."""
    url: str | None = None
    key: SecretStr | None = None
    dimensions: int | None = None
    timeout_s: float = 20.0
    """Seconds for one request with its reply: an endpoint may first load some gigabytes."""
    retries: int = 2
    """Retries after a temporary failure."""
    tokens_max: int = 1000
    """Tokens of a text reply; three atoms of four fields of 200 characters take 800."""


ENDPOINTS: Final = {
    "ollama": "http://127.0.0.1:11434",
    "openai": "https://api.openai.com/v1",
}
"""Default URLs of models over HTTP, by family."""


class SpaceState(StrEnum):
    """The state of an embedding space in a store."""

    BUILDING = "building"
    """Being filled while another one serves; not used for queries yet."""
    CURRENT = "current"
    """The serving space; a store has one."""
    RETIRED = "retired"
    """Served before and kept complete, so that the store can return to it."""
    DROPPED = "dropped"
    """Only its row is left, for programs that still have it open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """The similarities that decide in one embedding space, and how they were chosen."""

    similar: float
    relevance: float
    answer: float | None
    origin: str
    """`measured`, `calibrated`, `cautious`, or `settings` if one of them is set."""


CAUTIOUS: Final = Thresholds(similar=0.85, relevance=0.2, answer=None, origin="cautious")
"""For a model whose cosines were never measured.

Only almost identical texts are compared and reported, and almost nothing is dropped from results.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingSpace:
    """The vector space of one model; vectors of two spaces are never compared.

    `name` identifies model, version and quantization; it changes with any of them. The thresholds
    apply in this space only; two are cosine similarities (-1..1).
    """

    name: str
    dimensions: int
    similar_threshold: float
    """From this similarity on, a memory is compared word by word and worth a hint."""
    relevance_threshold: float
    """Below this similarity, and without a common word, a memory is not relevant."""
    answer_threshold: float | None = None
    """The sum of similarity and shared words from which a memory is an answer.

    None if it was never measured, 0 to accept every result as an answer.
    """
    threshold_origin: str = "measured"
    """As in `Thresholds`."""

    @classmethod
    def of(cls, name: str, *, dimensions: int, thresholds: Thresholds) -> EmbeddingSpace:
        """Return a space with these thresholds."""
        return cls(
            name=name,
            dimensions=dimensions,
            similar_threshold=thresholds.similar,
            relevance_threshold=thresholds.relevance,
            answer_threshold=thresholds.answer,
            threshold_origin=thresholds.origin,
        )

    @property
    def thresholds(self) -> Thresholds:
        """The thresholds together."""
        return Thresholds(
            similar=self.similar_threshold,
            relevance=self.relevance_threshold,
            answer=self.answer_threshold,
            origin=self.threshold_origin,
        )

    @property
    def related_threshold(self) -> float:
        """Half-way between relevant and similar; similar itself if that was never measured."""
        if self.threshold_origin == CAUTIOUS.origin:
            return self.similar_threshold
        return (self.relevance_threshold + self.similar_threshold) / 2

    def under(self, parameters: Parameters) -> EmbeddingSpace:
        """Return this space with the threshold that settings and a tenant's policy set."""
        similar = parameters.similar_threshold
        return self if similar is None else replace(self, similar_threshold=similar)


UNKNOWN_SPACE: Final = EmbeddingSpace.of("", dimensions=0, thresholds=CAUTIOUS)
"""The space of an embedder that is not installed; no store is made or opened in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSpace:
    """A space of a store, with its state."""

    id: int
    name: str
    dimensions: int
    state: SpaceState


# A name for type checkers only: commands without vectors do not import numpy.
Matrix: TypeAlias = "NDArray[np.float32]"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Vectors:
    """The unit vectors of one memory: of its windows, and of the fields of an atom."""

    windows: Matrix
    """Shape `(windows, dimensions)`."""
    fields: Mapping[CausalField, Matrix] = field(default_factory=dict["CausalField", "Matrix"])
    """Shape `(dimensions,)` each, for non-empty fields."""


class Embedder(Protocol):
    """Converts texts to unit vectors of its `space`; safe to call from several threads.

    Laws: the same text gives the same vector, alone or in a batch, to within 1e-5 of cosine; every
    row has length 1; work begins with the first call, not on construction.
    """

    @property
    def space(self) -> EmbeddingSpace:
        """The space of every vector it returns; known without loading the model."""
        ...

    def query(self, text: str) -> Matrix:
        """Embed a query.

        Returns:
            One unit vector, shape `(dimensions,)`.

        Raises:
            UnavailableError: `embedder_down`; nothing was changed, a later call may succeed.

        """
        ...

    def passages(self, texts: Sequence[str]) -> list[Matrix]:
        """Embed texts to store; a text longer than the model's input becomes overlapping windows.

        Of a very long text the first windows are embedded, at most `EMBEDDED_WINDOWS_MAX`.

        Returns:
            One matrix per text in the given order, shape `(windows, dimensions)`, windows >= 1.

        Raises:
            UnavailableError: `embedder_down`; nothing was changed, a later call may succeed.

        """
        ...


@runtime_checkable
class LocalModel(Protocol):
    """An embedder that loads its model on first use, or earlier by `load`."""

    @property
    def is_loaded(self) -> bool:
        """Whether texts are embedded at once."""
        ...

    def load(self) -> None:
        """Load the model, unless it is loaded.

        Raises:
            UnavailableError: `embedder_down`; a later call may succeed.

        """
        ...


@runtime_checkable
class WindowCounter(Protocol):
    """An embedder that can tell into how many windows it cuts a text."""

    def windows(self, text: str) -> Sequence[object]:
        """Cut a text into all of its windows, at least one; `passages` may embed fewer."""
        ...


@runtime_checkable
class WindowEmbedder(WindowCounter, Protocol):
    """An embedder whose work can be split between windows, so that callers can take turns."""

    @property
    def windows_at_once(self) -> int:
        """How many windows it embeds in parallel."""
        ...

    def vectors(self, windows: Sequence[Any]) -> Matrix:
        """Embed windows that `windows` returned.

        Returns:
            Unit vectors, shape `(len(windows), dimensions)`.

        Raises:
            UnavailableError: `embedder_down`; a later call may succeed.

        """
        ...


_WINDOW_BYTES_MIN: Final = 64
"""Bytes by which a text is longer for each further window: it adds 96 tokens or more."""


def count_windows(text: str, embedder: Embedder, *, if_above: int) -> int:
    """Return the number of windows of a text; 1 if it cannot be above a bound, or is unknown.

    Raises:
        UnavailableError: `embedder_down`.

    """
    if len(text.encode(errors="replace")) <= _WINDOW_BYTES_MIN * if_above:
        return 1
    model = unwrapped(embedder)
    return len(model.windows(text)) if isinstance(model, WindowCounter) else 1


def embed_passages(
    texts: Sequence[str],
    *,
    cut: Callable[[str], Sequence[Window]],
    embed: Callable[[Sequence[Window]], Matrix],
) -> list[Matrix]:
    """Embed the windows of all texts together, of each text at most `EMBEDDED_WINDOWS_MAX`.

    Returns:
        One matrix per text in the given order, shape `(windows, dimensions)`.

    """
    windows = [cut(text)[:EMBEDDED_WINDOWS_MAX] for text in texts]
    if not windows:
        return []
    rows = iter(embed([*chain.from_iterable(windows)]))
    import numpy as np  # noqa: PLC0415 commands without vectors do not import it

    return [np.stack([*islice(rows, len(cut_text))]) for cut_text in windows]


class Extractor(Protocol):
    """Extracts stated causes and effects from a text; safe to call from several threads.

    Laws: at most three atoms, each with a subject and an outcome, no field longer than 200
    characters. The result has at most the trust and scope of the text.
    """

    @property
    def name(self) -> str:
        """Its name, shown to users and stored with the result."""
        ...

    def atoms(self, text: str) -> Sequence[Atom]:
        """Extract atoms, the most informative first; none if the text states no cause.

        Raises:
            UnavailableError: `extractor_down`; nothing was changed, a later call may succeed.

        """
        ...


class Reflector(Protocol):
    """Summarizes several memories; safe to call from several threads.

    Laws: every point and claim names at least one source. The result has at most the trust and
    scope that all of its sources have.
    """

    @property
    def name(self) -> str:
        """Its name, shown to users and stored with the result."""
        ...

    def reflect(self, sources: Sequence[SourceText], *, claims_max: int) -> Reflection:
        """Summarize texts in order, and return at most a number of claims that may last.

        Without points, `fault` says why; the tokens spent are reported in any case.

        Raises:
            UnavailableError: `reflector_down`; nothing was changed, a later call may succeed.

        """
        ...


CACHED_QUERIES_MAX: Final = 256
"""Cached queries: half a megabyte with the default embedder, texts included."""


class CachingEmbedder:
    """Wraps an embedder and answers repeated queries from a cache.

    Failures are not cached. Two threads with the same new query both embed it.
    """

    def __init__(self, wrapped: Embedder) -> None:
        self.wrapped = wrapped
        # Nothing here refers to this object, so it is collected, with its connections, when unused.
        self._query = lru_cache(maxsize=CACHED_QUERIES_MAX)(partial(_unchanging, wrapped))

    @property
    def space(self) -> EmbeddingSpace:
        """The space of the wrapped embedder."""
        return self.wrapped.space

    @property
    def is_loaded(self) -> bool:
        """Whether the model is loaded; true if it is remote."""
        return not isinstance(self.wrapped, LocalModel) or self.wrapped.is_loaded

    def load(self) -> None:
        """Load the model if it is local; a remote one needs nothing."""
        if isinstance(self.wrapped, LocalModel):
            self.wrapped.load()

    def query(self, text: str) -> Matrix:
        """Embed a query, or return its cached, read-only vector."""
        return self._query(text)

    def passages(self, texts: Sequence[str]) -> list[Matrix]:
        """Embed stored texts, without a cache since that happens once."""
        return self.wrapped.passages(texts)


def _unchanging(wrapped: Embedder, text: str) -> Matrix:
    vector = wrapped.query(text)
    # All callers share the same array.
    vector.flags.writeable = False
    return vector


def unwrapped(embedder: Embedder) -> Embedder:
    """Return an embedder without its cache, to learn what else it can do."""
    return embedder.wrapped if isinstance(embedder, CachingEmbedder) else embedder
