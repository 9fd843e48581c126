"""Embedders over HTTP; families differ in request and response."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Final

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from commonbrain.embeddings.interface import CAUTIOUS, ENDPOINTS, EmbeddingSpace, embed_passages
from commonbrain.embeddings.local import OVERLAP_TOKENS, WINDOW_TOKENS
from commonbrain.model.errors import InvalidInputError, UnavailableError
from commonbrain.text.tokens import estimate
from commonbrain_models.urls import append_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from commonbrain.embeddings.interface import Matrix, Options
    from commonbrain_models.endpoint import Endpoint, RetryPolicy


_BLANK: Final = "-"
"""Replaces an empty text, which some endpoints reject."""
_PIECE: Final = re.compile(r"\s*\S{1,20}")
"""A word, or 20 characters of text without spaces, with preceding space."""


def token_windows(text: str) -> list[str]:
    """Split a text into windows of at most 200 tokens (estimated) that overlap by 50.

    A short text is one window, unchanged except for characters that no endpoint accepts: lone
    surrogates, which have no UTF-8 form, become question marks, and NUL becomes a space.
    """
    sendable = text.encode(errors="replace").decode().replace("\x00", " ")
    # Trailing space begins no piece, and the pattern would be tried at every position.
    pieces = _PIECE.findall(sendable.rstrip())
    costs = [estimate(piece) for piece in pieces]
    cut: list[str] = []
    start = end = 0
    while end < len(pieces):
        end = _end(costs, start)
        cut.append("".join(pieces[start:end]).strip())
        start = _restart(costs, start, end=end)
    return cut or [_BLANK]


def _end(costs: list[int], start: int) -> int:
    """Return where a window that starts at a piece is full; it holds at least one piece."""
    end, spent = start + 1, costs[start]
    while end < len(costs) and spent + costs[end] <= WINDOW_TOKENS:
        spent += costs[end]
        end += 1
    return end


def _restart(costs: list[int], start: int, *, end: int) -> int:
    """Return where the next window starts: after the start of this one, so that it ends."""
    back, shared = end, 0
    while back - 1 > start and shared + costs[back - 1] <= OVERLAP_TOKENS:
        back -= 1
        shared += costs[back]
    return back


BATCH_TEXTS_MAX: Final = 64
"""Windows in one request; every known endpoint accepts 96 or more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Properties of a model; a row never changes, because its prefixes belong to its space."""

    dimensions: int
    is_shortenable: bool = False
    """Whether it can return fewer dimensions on request."""
    query_prefix: str = ""
    passage_prefix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiFamily:
    """How to call one type of endpoint."""

    name: str
    url: str
    """Default URL."""
    path: str
    model: str
    """Default model."""
    models: Mapping[str, Model]
    read: Callable[[bytes], Sequence[Sequence[float]]]
    """Parses a reply into one vector per text, in order.

    Raises pydantic's error if it is invalid.
    """
    unknown_model_hint: str
    extras: Mapping[str, object] = field(default_factory=dict[str, object])


class HttpEmbedder:
    """Embeds with one model of an endpoint; connects on the first text.

    The space is named after family, model and dimensions. Only the endpoint's owner can ensure that
    the same name keeps the same weights.
    """

    def __init__(
        self, family: ApiFamily, options: Options, *, retry_policy: RetryPolicy | None = None
    ) -> None:
        self._family = family
        self._options = options
        self._retry_policy = retry_policy
        self._name = (options.model or family.model).removesuffix(":latest")
        self._url = append_path(options.url or family.url, family.path)
        known = family.models.get(self._name)
        dimensions = options.dimensions or (known.dimensions if known else None)
        if dimensions is None:
            raise InvalidInputError(
                f"It is not known how many dimensions the vectors of {self._name} have.",
                hint="Set COMMONBRAIN_EMBEDDER_DIMENSIONS.",
            )
        self._model = known or Model(dimensions=dimensions)
        self._opening = Lock()
        self._endpoint: Endpoint | None = None
        self.space = EmbeddingSpace.of(
            f"{family.name}/{self._name}/{dimensions}", dimensions=dimensions, thresholds=CAUTIOUS
        )

    def query(self, text: str) -> Matrix:
        """Embed a query; only its first window counts."""
        return self._vectors([self._model.query_prefix + token_windows(text)[0]])[0]

    def windows(self, text: str) -> list[str]:
        """Cut a text into all of its windows."""
        return token_windows(text)

    def passages(self, texts: Sequence[str]) -> list[Matrix]:
        """Embed stored texts in windows, at most 64 per request."""
        return embed_passages(texts, cut=self.windows, embed=self._passage_vectors)

    def _passage_vectors(self, windows: Sequence[str]) -> Matrix:
        return self._vectors([self._model.passage_prefix + window for window in windows])

    def _vectors(self, texts: Sequence[str]) -> Matrix:
        return np.concatenate([self._batch(batch) for batch in _batches(texts)])

    def _batch(self, texts: Sequence[str]) -> Matrix:
        endpoint = self._open()
        body = {"model": self._name, "input": texts, **self._family.extras}
        if self._model.is_shortenable and self.space.dimensions != self._model.dimensions:
            body["dimensions"] = self.space.dimensions
        reply = endpoint.post(body)
        try:
            rows = self._family.read(reply)
        except ValidationError as error:
            raise _down(
                f"{endpoint.called} sent a reply that holds no vectors.",
                hint="COMMONBRAIN_EMBEDDER_URL must be the base of its API.",
            ) from error
        return self._checked(rows, count=len(texts), called=endpoint.called)

    def _checked(self, rows: Sequence[Sequence[float]], *, count: int, called: str) -> Matrix:
        """Validate a reply and normalize its vectors."""
        if len(rows) != count:
            raise _down(
                f"{called} sent {len(rows)} vectors for {count} texts.",
                hint="It does not do what its API promises.",
            )
        lengths = sorted({len(row) for row in rows})
        if lengths != [self.space.dimensions]:
            raise _down(
                f"{called} sends vectors of {', '.join(map(str, lengths))} numbers by "
                f"{self._name}; {self.space.dimensions} were expected.",
                hint="COMMONBRAIN_EMBEDDER_DIMENSIONS says how many; a store keeps to those it "
                "was made with.",
            )
        vectors = np.array(rows, dtype=np.float64)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not (norms > 0).all():
            raise _down(
                f"{called} sent a vector without a direction.", hint=f"Is {self._name} sound?"
            )
        return (vectors / norms).astype(np.float32)

    def _open(self) -> Endpoint:
        with self._opening:
            if self._endpoint is None:
                # Importing the HTTP client takes a sixth of a second, which other commands do not
                # need.
                from commonbrain_models.endpoint import RETRY_POLICY, Endpoint  # noqa: PLC0415

                self._endpoint = Endpoint(
                    self._url,
                    family=self._family.name,
                    unknown_model_hint=self._family.unknown_model_hint.format(model=self._name),
                    options=self._options,
                    retry_policy=self._retry_policy or RETRY_POLICY,
                )
            return self._endpoint


def _batches(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(texts), BATCH_TEXTS_MAX):
        yield texts[start : start + BATCH_TEXTS_MAX]


def _down(message: str, *, hint: str) -> UnavailableError:
    return UnavailableError(message, code="embedder_down", hint=hint)


OPENAI_MODELS: Final[Mapping[str, Model]] = {
    "text-embedding-3-large": Model(dimensions=3072, is_shortenable=True),
    "text-embedding-3-small": Model(dimensions=1536, is_shortenable=True),
    "text-embedding-ada-002": Model(dimensions=1536),
}
"""By OpenAI's model names."""

Number = Annotated[float, Field(allow_inf_nan=False)]


class _Embedding(BaseModel):
    model_config = ConfigDict(hide_input_in_errors=True)

    index: int
    embedding: list[Number]


class _Reply(BaseModel):
    """The parsed reply; errors do not repeat it, because text can be recovered from vectors."""

    model_config = ConfigDict(hide_input_in_errors=True)

    data: list[_Embedding]


def _read(reply: bytes) -> list[list[float]]:
    # The API does not promise the order of the list, so the index is used.
    data = sorted(_Reply.model_validate_json(reply).data, key=lambda one: one.index)
    return [one.embedding for one in data]


OPENAI: Final = ApiFamily(
    name="openai",
    url=ENDPOINTS["openai"],
    path="/embeddings",
    model="text-embedding-3-small",
    models=OPENAI_MODELS,
    read=_read,
    unknown_model_hint="Does it serve {model}? COMMONBRAIN_EMBEDDER_URL must be the base of its "
    "API, such as https://api.openai.com/v1.",
    extras={"encoding_format": "float"},
)


OLLAMA_MODELS: Final[Mapping[str, Model]] = {
    "all-minilm": Model(dimensions=384),
    "bge-m3": Model(dimensions=1024),
    "embeddinggemma": Model(
        dimensions=768,
        is_shortenable=True,
        query_prefix="task: search result | query: ",
        passage_prefix="title: none | text: ",
    ),
    "mxbai-embed-large": Model(
        dimensions=1024,
        query_prefix="Represent this sentence for searching relevant passages: ",
    ),
    "nomic-embed-text": Model(
        dimensions=768, query_prefix="search_query: ", passage_prefix="search_document: "
    ),
    "qwen3-embedding:0.6b": Model(dimensions=1024, is_shortenable=True),
}
"""By the names in Ollama's library."""

FiniteNumber = Annotated[float, Field(allow_inf_nan=False)]


class _OllamaEmbedReply(BaseModel):
    """The parsed reply; errors do not repeat it, because text can be recovered from vectors."""

    model_config = ConfigDict(hide_input_in_errors=True)

    embeddings: list[list[FiniteNumber]]


def _ollama_read(reply: bytes) -> list[list[float]]:
    return _OllamaEmbedReply.model_validate_json(reply).embeddings


OLLAMA: Final = ApiFamily(
    name="ollama",
    url=ENDPOINTS["ollama"],
    path="/api/embed",
    model="nomic-embed-text",
    models=OLLAMA_MODELS,
    read=_ollama_read,
    unknown_model_hint="Fetch it first: ollama pull {model}",
)


def ollama(options: Options) -> HttpEmbedder:
    """Make the embedder `ollama` from settings."""
    return HttpEmbedder(OLLAMA, options)


def openai(options: Options) -> HttpEmbedder:
    """Make the embedder `openai` from settings: OpenAI's, or one of any server with its API."""
    return HttpEmbedder(OPENAI, options)
