"""The default embedder: all-MiniLM-L6-v2 in int8 on onnxruntime, offline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import commonbrain_minilm

from commonbrain.embeddings.encoder import (
    OVERLAP_TOKENS,
    WINDOW_TOKENS,
    Encoder,
    LocalEmbedder,
    PrefixedTokenizer,
)
from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.embeddings.onnx_runtime import InputFeed, ModelLabel, open_session, usable_cores
from commonbrain.embeddings.pooling import SentenceHead

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["OVERLAP_TOKENS", "SPACE", "WINDOW_TOKENS", "MiniLmEmbedder", "usable_cores"]

SPACE = EmbeddingSpace(
    name=commonbrain_minilm.NAME,
    dimensions=commonbrain_minilm.DIMENSIONS,
    # Chosen by `brain eval duplicates`; docs/explanation/decisions.md has the figures.
    similar_threshold=0.63,
    # The 95th percentile of the cosine of questions and chat turns of different conversations
    # (LoCoMo, 60,000 pairs; median 0.06). The 99th, 0.29, would drop half of the turns that answer
    # a question without sharing a word with it.
    relevance_threshold=0.21,
    # Hardly any question loses its answer by it; docs/explanation/decisions.md has the figures.
    answer_threshold=0.44,
)

_LABEL: Final = ModelLabel(
    name="embedder minilm",
    hint="Reinstall commonbrain-minilm, onnxruntime and tokenizers, then retry.",
)
_FEED: Final = InputFeed(types=(("input_ids", "int64"), ("attention_mask", "int64")))


class MiniLmEmbedder(LocalEmbedder):
    """Embeds English best, 1 ms a query; equal texts give equal vectors on all x86 machines.

    Processors without VNNI compute the 8-bit sums in a slower, exact way, because their fast way
    saturates and moves the vectors by about 0.01 of cosine.
    """

    space = SPACE

    def __init__(
        self,
        *,
        threads: int | None = None,
        model_path: Path = commonbrain_minilm.MODEL_PATH,
        tokenizer_path: Path = commonbrain_minilm.TOKENIZER_PATH,
    ) -> None:
        is_shipped = model_path == commonbrain_minilm.MODEL_PATH
        unsigned = commonbrain_minilm.UNSIGNED_PATH if is_shipped else None

        def read() -> Encoder:
            tokenizer = PrefixedTokenizer.open(
                tokenizer_path, prefix="", window_tokens=WINDOW_TOKENS
            )
            return Encoder(
                session=open_session(model_path, unsigned=unsigned),
                feed=_FEED,
                output="embedding",
                head=SentenceHead(),
                queries=tokenizer,
                passages=tokenizer,
            )

        super().__init__(read, label=_LABEL, threads=threads)
