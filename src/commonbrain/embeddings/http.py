"""An embedder that asks an endpoint over HTTP; families differ by what they send and read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Final

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from commonbrain.embeddings.endpoint import OLLAMA_URL, OPENAI_URL, joined
from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.embeddings.windows import token_windows
from commonbrain.model.errors import InvalidInputError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from commonbrain.embeddings.endpoint import Endpoint, RetryPolicy
    from commonbrain.embeddings.interface import Matrix
    from commonbrain.embeddings.options import Options

BATCH_TEXTS_MAX: Final = 64
"""Windows in one request: the largest that every endpoint known to us takes is 96 or more."""

# Nothing is known of how the cosines of a model lie that was never measured. So only what is all
# but equal is refused, and next to nothing is dropped from an answer.
DUPLICATE_THRESHOLD: Final = 0.95
SIMILAR_THRESHOLD: Final = 0.85
RELEVANCE_THRESHOLD: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """What a model's card says; a row is never changed, for its prefixes belong to its space."""

    dimensions: int
    is_shortenable: bool = False
    """Whether it gives fewer dimensions when asked to."""
    query_prefix: str = ""
    passage_prefix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiFamily:
    """How one sort of endpoint is reached, asked and read."""

    name: str
    url: str
    """Where it is unless settings say otherwise."""
    path: str
    model: str
    """The model unless settings say otherwise."""
    models: Mapping[str, Model]
    read: Callable[[bytes], Sequence[Sequence[float]]]
    """Takes a reply apart: one vector per text, in order; pydantic's error if it is none."""
    unknown_model_hint: str
    extras: Mapping[str, object] = field(default_factory=dict[str, object])


class HttpEmbedder:
    """Embeds by one model of one endpoint; nothing is sent before the first text.

    The space's name is family, model and dimensions. That the endpoint serves the same weights
    under the same name tomorrow is its owner's promise, which nobody here can check.
    """

    def __init__(
        self, family: ApiFamily, options: Options, *, retry_policy: RetryPolicy | None = None
    ) -> None:
        self._family = family
        self._options = options
        self._retry_policy = retry_policy
        self._name = (options.model or family.model).removesuffix(":latest")
        self._url = joined(options.url or family.url, family.path)
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
        self.space = EmbeddingSpace(
            name=f"{family.name}/{self._name}/{dimensions}",
            dimensions=dimensions,
            duplicate_threshold=DUPLICATE_THRESHOLD,
            similar_threshold=SIMILAR_THRESHOLD,
            relevance_threshold=RELEVANCE_THRESHOLD,
        )

    def query(self, text: str) -> Matrix:
        """Embed what somebody asks; what lies beyond its first window does not count."""
        return self._vectors([self._model.query_prefix + token_windows(text)[0]])[0]

    def passages(self, texts: Sequence[str]) -> list[Matrix]:
        """Embed what is stored, in windows, at most 64 to a request."""
        cut = [token_windows(text) for text in texts]
        if not cut:
            return []
        prefix = self._model.passage_prefix
        every = self._vectors([prefix + window for one in cut for window in one])
        ends = np.cumsum([len(one) for one in cut])
        return np.split(every, ends[:-1])

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
        """Make unit vectors of a reply, and sure that they are as many and as long as they must."""
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
                # The HTTP client takes a sixth of a second to load: commands that embed nothing
                # do not pay for it.
                from commonbrain.embeddings.endpoint import RETRY_POLICY, Endpoint  # noqa: PLC0415

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
"""By OpenAI's names."""

Number = Annotated[float, Field(allow_inf_nan=False)]


class _Embedding(BaseModel):
    model_config = ConfigDict(hide_input_in_errors=True)

    index: int
    embedding: list[Number]


class _Reply(BaseModel):
    """What is read of a reply; errors do not repeat it, for vectors can be read back to text."""

    model_config = ConfigDict(hide_input_in_errors=True)

    data: list[_Embedding]


def _read(reply: bytes) -> list[list[float]]:
    # The order of a list is no promise of this API; the index is.
    data = sorted(_Reply.model_validate_json(reply).data, key=lambda one: one.index)
    return [one.embedding for one in data]


OPENAI: Final = ApiFamily(
    name="openai",
    url=OPENAI_URL,
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
"""By the name Ollama's library has for them."""

FiniteNumber = Annotated[float, Field(allow_inf_nan=False)]


class _OllamaReply(BaseModel):
    """What is read of a reply; errors do not repeat it, for vectors can be read back to text."""

    model_config = ConfigDict(hide_input_in_errors=True)

    embeddings: list[list[FiniteNumber]]


def _ollama_read(reply: bytes) -> list[list[float]]:
    return _OllamaReply.model_validate_json(reply).embeddings


OLLAMA: Final = ApiFamily(
    name="ollama",
    url=OLLAMA_URL,
    path="/api/embed",
    model="nomic-embed-text",
    models=OLLAMA_MODELS,
    read=_ollama_read,
    unknown_model_hint="Fetch it first: ollama pull {model}",
)
