"""Ollama: models on this or another machine, by `POST /api/embed`."""

from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from commonbrain.adapters.models.remote import Family, Model
from commonbrain.adapters.models.urls import OLLAMA_URL

MODELS: Final[Mapping[str, Model]] = {
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

Number = Annotated[float, Field(allow_inf_nan=False)]


class _Reply(BaseModel):
    """What is read of a reply; errors do not repeat it, for vectors can be read back to text."""

    model_config = ConfigDict(hide_input_in_errors=True)

    embeddings: list[list[Number]]


def _read(reply: bytes) -> list[list[float]]:
    return _Reply.model_validate_json(reply).embeddings


OLLAMA: Final = Family(
    name="ollama",
    url=OLLAMA_URL,
    path="/api/embed",
    model="nomic-embed-text",
    models=MODELS,
    read=_read,
    unknown_model_hint="Fetch it first: ollama pull {model}",
)
