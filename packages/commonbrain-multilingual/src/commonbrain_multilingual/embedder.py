"""The embedder of the model: a question and what is stored each get the prefix it learned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from commonbrain.embeddings.interface import EmbeddingSpace, Matrix
from commonbrain.embeddings.local import (
    OVERLAP_TOKENS,
    WINDOW_TOKENS,
    Encoder,
    LocalEmbedder,
    truncate,
)
from commonbrain.embeddings.onnx_runtime import (
    InputFeed,
    ModelLabel,
    encode,
    open_session,
)
from commonbrain.model.values import dataclass

from . import DIMENSIONS, MODEL_PATH, NAME, PIECES_PATH, SCORES_PATH
from .tokenizer import UnigramTokenizer

if TYPE_CHECKING:
    from pathlib import Path

    from tokenizers import Tokenizer

SPACE: Final = EmbeddingSpace(
    name=NAME,
    dimensions=DIMENSIONS,
    # By the criteria of a model in a folder, but for relevance: those would give 0.23, which loses
    # 2 of 100 memories in other languages from the first three and brings none.
    similar_threshold=0.57,
    relevance_threshold=0.19,
    answer_threshold=0.33,
)
_LABEL: Final = ModelLabel(
    name="embedder multilingual",
    hint="Reinstall commonbrain-multilingual, and onnxruntime, then retry.",
)
_FEED: Final = InputFeed(types=(("input_ids", "int64"),))


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixedEncoder(Encoder):
    """Marks a question as such; the tokenizer marks any other text as a passage."""

    def query_vector(self, text: str) -> Matrix:
        """Embed the first window of a query, shape `(dimensions,)`."""
        return self.vector(encode(self.tokenizer, "query:", pair=text))


class MultilingualEmbedder(LocalEmbedder):
    """Embeds some 100 languages in one space; equal texts give equal vectors on all x86 machines.

    Processors without VNNI convert the weights when they load the model.
    """

    space = SPACE

    def __init__(
        self,
        *,
        threads: int | None = None,
        model_path: Path = MODEL_PATH,
    ) -> None:
        def read() -> Encoder:
            # It has as much of a tokenizer of that library as an encoder uses.
            tokenizer = cast("Tokenizer", UnigramTokenizer.read(PIECES_PATH, SCORES_PATH))
            truncate(tokenizer, WINDOW_TOKENS, overlap=OVERLAP_TOKENS)
            return PrefixedEncoder(
                session=open_session(model_path),
                feed=_FEED,
                output="embedding",
                tokenizer=tokenizer,
            )

        super().__init__(read, label=_LABEL, threads=threads)
