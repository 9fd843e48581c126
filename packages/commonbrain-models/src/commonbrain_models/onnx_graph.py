"""The inputs and outputs of an ONNX model, as exporters name them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from commonbrain.embeddings.onnx_runtime import InputFeed
from commonbrain.model.errors import InvalidInputError

if TYPE_CHECKING:
    from pathlib import Path

_INPUTS: Final = ("input_ids", "attention_mask", "token_type_ids", "position_ids")
"""The inputs that `InputFeed` makes of tokens."""
_TYPES: Final = {"tensor(int64)": "int64", "tensor(int32)": "int32"}
_SENTENCE: Final = "sentence_embedding"
"""Exports of whole sentence-transformers pipelines name their last step so."""
_NOT_SENTENCES: Final = frozenset({"pooler_output"})
"""BERT's own pooler serves next-sentence prediction; its vector is no embedding."""
_LOGITS: Final = "logits"
_NOT_LOGITS: Final = _NOT_SENTENCES | {_SENTENCE}
_PER_TOKEN: Final = 3
_PER_TEXT: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderOutput:
    """The output that holds the vectors."""

    name: str
    is_per_token: bool
    """Whether it has a vector for each token, which pooling makes one."""


def read_inputs(session: Any, model: Path) -> InputFeed:  # noqa: ANN401 it has no types
    """Return how to make the inputs of a model.

    Raises:
        InvalidInputError: it needs an input that cannot be made of a text.

    """
    inputs = [(one.name, one.type) for one in session.get_inputs()]
    unknown = [name for name, kind in inputs if name not in _INPUTS or kind not in _TYPES]
    if unknown:
        raise InvalidInputError(
            f"{model} has the input {unknown[0][:60]!r}; supported are {', '.join(_INPUTS)}.",
            hint="Export the model for feature extraction, without a cache of past keys.",
        )
    return InputFeed(types=tuple((name, _TYPES[kind]) for name, kind in inputs))


def read_encoder_output(session: Any, model: Path) -> EncoderOutput:  # noqa: ANN401 see above
    """Return the output that holds the vectors of a sentence encoder.

    Raises:
        InvalidInputError: none does.

    """
    outputs = {one.name: len(one.shape or ()) for one in session.get_outputs()}
    if outputs.get(_SENTENCE) == _PER_TEXT:
        return EncoderOutput(name=_SENTENCE, is_per_token=False)
    for rank in (_PER_TOKEN, _PER_TEXT):
        for name, its in outputs.items():
            if its == rank and name not in _NOT_SENTENCES:
                return EncoderOutput(name=name, is_per_token=rank == _PER_TOKEN)
    raise InvalidInputError(
        f"{model} has no output of vectors, but {', '.join(list(outputs)[:8])}.",
        hint="Export the model for feature extraction.",
    )


def read_logits_output(session: Any, model: Path) -> str:  # noqa: ANN401 see above
    """Return the name of the output that holds the logits of a classifier.

    Raises:
        InvalidInputError: none does.

    """
    outputs = {one.name: len(one.shape or ()) for one in session.get_outputs()}
    names = [name for name, its in outputs.items() if its < _PER_TOKEN and name not in _NOT_LOGITS]
    if not names:
        raise InvalidInputError(
            f"{model} has no output of logits, but {', '.join(list(outputs)[:8])}.",
            hint="Export the model for text classification.",
        )
    return _LOGITS if _LOGITS in names else names[0]
