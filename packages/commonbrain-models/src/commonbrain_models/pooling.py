"""From a model's output to one vector: pooling and dense layers.

The kinds of pooling and their order are those of sentence-transformers
(huggingface/sentence-transformers, `sentence_transformers/models/Pooling.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from commonbrain.model.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from commonbrain.embeddings.interface import Matrix


def _cls(tokens: Matrix, _first: int) -> Matrix:
    return tokens[0]


def _max(tokens: Matrix, _first: int) -> Matrix:
    return tokens.max(axis=0)


def _mean(tokens: Matrix, _first: int) -> Matrix:
    return tokens.mean(axis=0)


def _mean_sqrt_len(tokens: Matrix, _first: int) -> Matrix:
    return tokens.sum(axis=0) / len(tokens) ** 0.5


def _weighted_mean(tokens: Matrix, first: int) -> Matrix:
    """Weigh each token by its place in the whole input, from 1."""
    import numpy as np  # noqa: PLC0415 counting memories needs neither it nor the model

    weights = np.arange(first, first + len(tokens), dtype=np.float32)
    return (tokens * weights[:, np.newaxis]).sum(axis=0) / weights.sum()


def _last(tokens: Matrix, _first: int) -> Matrix:
    return tokens[-1]


POOLINGS: Final[Mapping[str, Callable[[Matrix, int], Matrix]]] = {
    "cls": _cls,
    "max": _max,
    "mean": _mean,
    "mean_sqrt_len_tokens": _mean_sqrt_len,
    "weightedmean": _weighted_mean,
    "lasttoken": _last,
}
"""From token vectors, shape `(tokens, width)`, and the place of the first of them, to one vector.

Several are joined in this order.
"""


def _identity(vector: Matrix) -> Matrix:
    return vector


def _tanh(vector: Matrix) -> Matrix:
    import numpy as np  # noqa: PLC0415 see `_weighted_mean`

    return np.tanh(vector)


def _relu(vector: Matrix) -> Matrix:
    return vector.clip(min=0)


ACTIVATIONS: Final[Mapping[str, Callable[[Matrix], Matrix]]] = {
    "Identity": _identity,
    "Tanh": _tanh,
    "ReLU": _relu,
}
"""By the class name of PyTorch."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DenseLayer:
    """A fully connected layer after pooling."""

    weight: Matrix
    """Shape `(out, in)`."""
    bias: Matrix | None
    activation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceHead:
    """What is done with a model's output to get one vector; nothing if the model does it all."""

    poolings: tuple[str, ...] = ()
    """Names in `POOLINGS`; several are joined end to end."""
    layers: tuple[DenseLayer, ...] = ()
    includes_prefix: bool = True
    """Whether the tokens of a prefix take part in pooling."""

    def apply(self, output: Matrix, *, prefix_tokens: int) -> Matrix:
        """Return one vector from token vectors `(tokens, width)`, or from a vector `(width,)`."""
        if output.ndim == 1:
            return output
        import numpy as np  # noqa: PLC0415 see `_weighted_mean`

        skipped = 0 if self.includes_prefix else min(prefix_tokens, len(output) - 1)
        tokens = output[skipped:].astype(np.float32)
        vector = np.concatenate([POOLINGS[name](tokens, skipped + 1) for name in self.poolings])
        for layer in self.layers:
            vector = layer.weight @ vector
            if layer.bias is not None:
                vector = vector + layer.bias
            vector = ACTIVATIONS[layer.activation](vector)
        return vector
