"""The model multilingual-e5-small as files: an int8 ONNX sentence encoder and its vocabulary."""

from pathlib import Path
from typing import Final

NAME: Final = "multilingual-e5-small-int8-2"
"""Model, quantisation and edition; it changes whenever the vectors do."""

DIMENSIONS: Final = 384
"""How many numbers a vector has."""

MODEL_PATH: Final = Path(__file__).with_name("model.onnx")
"""Takes `input_ids`, int64 of `(1, tokens)`; gives one centred unit vector."""

WEIGHTS_PATH: Final = MODEL_PATH.with_name("model.onnx.data")
"""The weights, which the model names: they belong into its folder."""

PIECES_PATH: Final = MODEL_PATH.with_name("pieces.txt")
"""The pieces of words that are tokens, one a line, in the order of their numbers."""

SCORES_PATH: Final = MODEL_PATH.with_name("scores.f32")
"""The logarithm of each piece's probability, as float32, little-endian."""

FILES: Final = (MODEL_PATH, WEIGHTS_PATH, PIECES_PATH, SCORES_PATH)

__all__ = [
    "DIMENSIONS",
    "FILES",
    "MODEL_PATH",
    "NAME",
    "PIECES_PATH",
    "SCORES_PATH",
    "WEIGHTS_PATH",
]
