"""OpenAI and whatever offers the same API: vLLM, LM Studio, llama.cpp, gateways."""

from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from commonbrain.adapters.models.remote import Family, Model
from commonbrain.adapters.models.urls import OPENAI_URL

MODELS: Final[Mapping[str, Model]] = {
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


OPENAI: Final = Family(
    name="openai",
    url=OPENAI_URL,
    path="/embeddings",
    model="text-embedding-3-small",
    models=MODELS,
    read=_read,
    unknown_model_hint="Does it serve {model}? COMMONBRAIN_EMBEDDER_URL must be the base of its "
    "API, such as https://api.openai.com/v1.",
    extras={"encoding_format": "float"},
)
