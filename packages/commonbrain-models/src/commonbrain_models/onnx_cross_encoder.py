"""Cross-encoders in a folder of the user: a model reads a query and a text, and scores the pair.

Sources: huggingface/sentence-transformers 6.2 (`cross_encoder/model.py`) for the activation of one
logit, and Nogueira and Cho 2019 (arXiv 1901.04085) for the softmax of two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from commonbrain.embeddings.local import truncate
from commonbrain.embeddings.onnx_runtime import (
    InputFeed,
    LazyModel,
    ModelLabel,
    encode,
    map_in_parallel,
    open_session,
    open_tokenizer,
    usable_cores,
)
from commonbrain.model.errors import InvalidInputError, UnavailableError
from commonbrain_models.encoder import extent
from commonbrain_models.model_check import Check, ModelUse, check_in_child
from commonbrain_models.model_folder import ModelFiles, find_files
from commonbrain_models.model_records import ModelRecords
from commonbrain_models.onnx_graph import read_inputs, read_logits_output

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

    from commonbrain.embeddings.interface import Matrix

FAMILY: Final = "onnx"
_WINDOW_TOKENS: Final = 512
"""The length of nearly all cross-encoders; those that take more become slow."""
_WINDOWS_MAX: Final = 4
"""Windows of one text, some 1,500 words: a single long text must not use up the time of all."""
_CHARS_PER_TOKEN_MAX: Final = 8
"""More than in any natural language; bounds what is tokenized of a long text."""
_LOGITS_MAX: Final = 2
_PAIR: Final = ("Who?", "Ann.")


@dataclass(frozen=True, slots=True, kw_only=True)
class PairTokenizer:
    """Makes inputs of a query and the overlapping windows of a text."""

    queries: Tokenizer
    """Truncates to half a window."""
    pairs: Tokenizer
    """Truncates the text of a pair, never the query."""
    text_chars_max: int

    @classmethod
    def open(cls, path: Path, *, window_tokens: int) -> PairTokenizer:
        """Read a tokenizer for windows of at most so many tokens."""
        queries, pairs = open_tokenizer(path), open_tokenizer(path)
        truncate(queries, window_tokens // 2, overlap=0)
        truncate(pairs, window_tokens, overlap=window_tokens // 8, strategy="only_second")
        return cls(
            queries=queries,
            pairs=pairs,
            text_chars_max=_WINDOWS_MAX * window_tokens * _CHARS_PER_TOKEN_MAX,
        )

    def windows(self, query: str, text: str) -> Sequence[Encoding]:
        """Return the first windows of a text, each after the query; at least one."""
        short_query = query[slice(*extent(encode(self.queries, query)))]
        first = encode(self.pairs, short_query, pair=text[: self.text_chars_max])
        return (first, *first.overflowing)[:_WINDOWS_MAX]


@dataclass(frozen=True, slots=True, kw_only=True)
class _PairScorer:
    """A loaded cross-encoder."""

    session: Any
    """An `onnxruntime.InferenceSession`."""
    feed: InputFeed
    output: str
    tokenizer: PairTokenizer
    model: Path

    def score(self, window: Encoding) -> float:
        """Score one window, 0..1.

        Raises:
            InvalidInputError: the model has more than two logits.
            UnavailableError: `embedder_down`, they are not finite.

        """
        import numpy as np  # noqa: PLC0415 counting memories needs neither it nor the model

        (made,) = self.session.run([self.output], self.feed.feed(window))
        logits: Matrix = made.reshape(-1).astype(np.float64)
        if len(logits) > _LOGITS_MAX:
            raise InvalidInputError(
                f"{self.model} has {len(logits)} logits; a cross-encoder has one, or two.",
                hint="Export a model that was trained to rank passages.",
            )
        # The softmax of two logits is the sigmoid of their difference; tanh does not overflow.
        logit = float(logits[-1] - logits[0]) if len(logits) == _LOGITS_MAX else float(logits[0])
        if not isfinite(logit):
            raise UnavailableError(
                "The logits are not numbers.",
                code="embedder_down",
                hint="The model's file may be damaged or quantized badly; try another export.",
            )
        return float(0.5 + 0.5 * np.tanh(logit / 2))


class OnnxCrossEncoder:
    """Scores texts by reading each together with a query, with the model of a folder.

    A child process uses it before this one, once for the same files. It is loaded on first use;
    several threads may call it. Laws: the same pair gives the same score; every score is in 0..1.
    """

    def __init__(
        self,
        path: Path,
        *,
        threads: int | None = None,
        records: Path | None = None,
        check: Check = check_in_child,
    ) -> None:
        self._path = path
        self._records = ModelRecords(records)
        self._check = check
        self._threads = threads or usable_cores()
        self._label = _label(path)
        self._model = LazyModel(self._read)

    @property
    def name(self) -> str:
        """The family and the folder's name, without the path, which not every caller may know."""
        path = self._path.expanduser()
        is_file = path.suffix == ".onnx"
        return f"{FAMILY}:{path.parent.name}/{path.name}" if is_file else f"{FAMILY}:{path.name}"

    def load(self) -> None:
        """Load the model, and score one pair, which checks its logits.

        Raises:
            InvalidInputError: a file is missing or damaged, or the model is no cross-encoder.
            UnavailableError: the model cannot be loaded.

        """
        query, text = _PAIR
        self.scores(query, [text])

    def scores(
        self, query: str, texts: Sequence[str], *, is_over: Callable[[], bool] = lambda: False
    ) -> list[float]:
        """Score texts by their best window, on all cores, highest for the best.

        Raises:
            InvalidInputError: as `load`.
            UnavailableError: the model does not work, or `is_over` was true.

        """
        model = self._model.get()

        def score(window: Encoding) -> float:
            if is_over():
                raise UnavailableError("No one waits for the scores.", code="embedder_down")
            return model.score(window)

        with self._label.attempting("score a text"):
            cut = [model.tokenizer.windows(query, text) for text in texts]
            scored = map_in_parallel(score, [*chain.from_iterable(cut)], threads=self._threads)
            return [max(islice(scored, len(one))) for one in cut]

    def _read(self) -> _PairScorer:
        files = find_files(self._path)
        use = ModelUse(
            function=f"{__name__}:{use_once.__name__}",
            path=self._path,
            files=(*files.weights, files.tokenizer),
            label=self._label,
        )
        self._records.check_once(use.files, check=lambda: self._check(use))
        with self._label.attempting("load the model"):
            return _open(files)


def _open(files: ModelFiles) -> _PairScorer:
    session = open_session(files.model)
    return _PairScorer(
        session=session,
        feed=read_inputs(session, files.model),
        output=read_logits_output(session, files.model),
        tokenizer=PairTokenizer.open(
            files.tokenizer, window_tokens=min(_WINDOW_TOKENS, files.tokens_max)
        ),
        model=files.model,
    )


def use_once(path: str) -> Iterator[bytes]:
    """Load the model of a folder, score a pair and yield nothing; runs in a child."""
    label = _label(Path(path))
    with label.attempting("load the model"):
        scorer = _open(find_files(Path(path)))
    with label.attempting("score a text"):
        (window, *_) = scorer.tokenizer.windows(*_PAIR)
        scorer.score(window)
    yield from ()


def _label(path: Path) -> ModelLabel:
    return ModelLabel(
        name=f"reranker {FAMILY}:{path}",
        hint=f"Check the files in {path}; they may be damaged or incomplete.",
    )
