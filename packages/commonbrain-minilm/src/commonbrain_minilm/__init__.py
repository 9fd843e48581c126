"""The model all-MiniLM-L6-v2 as files: an int8 ONNX sentence encoder and its tokenizer."""

from pathlib import Path
from typing import Final

NAME: Final = "all-minilm-l6-v2-int8-pc-1"
"""Model, quantisation (int8, per channel) and edition; it changes whenever the vectors do."""

DIMENSIONS: Final = 384
"""How many numbers a vector has."""

MODEL_PATH: Final = Path(__file__).with_name("model.onnx")
"""Takes `input_ids` and `attention_mask`, int64 of `(batch, tokens)`; gives unit vectors."""

UNSIGNED_PATH: Final = MODEL_PATH.with_name("model-unsigned.onnx")
"""The same model for processors that sum products with signed weights inexactly."""

WEIGHTS_PATH: Final = MODEL_PATH.with_name("model.onnx.data")
"""The weights, which both models name: they belong into their folder."""

TOKENIZER_PATH: Final = Path(__file__).with_name("tokenizer.json")
"""The WordPiece tokenizer, in the format of the `tokenizers` library."""

FILES: Final = (MODEL_PATH, UNSIGNED_PATH, WEIGHTS_PATH, TOKENIZER_PATH)

__all__ = [
    "DIMENSIONS",
    "FILES",
    "MODEL_PATH",
    "NAME",
    "TOKENIZER_PATH",
    "UNSIGNED_PATH",
    "WEIGHTS_PATH",
]
