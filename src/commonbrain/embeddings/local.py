"""The default embedder: all-MiniLM-L6-v2 in int8 on onnxruntime, offline."""

from __future__ import annotations

import atexit
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import chain, islice
from threading import Condition, Lock, current_thread
from typing import TYPE_CHECKING, Any, Final

import commonbrain_minilm

from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.model.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence
    from pathlib import Path

    from tokenizers import Encoding, Tokenizer

    from commonbrain.embeddings.interface import Matrix

SPACE = EmbeddingSpace(
    name=commonbrain_minilm.NAME,
    dimensions=commonbrain_minilm.DIMENSIONS,
    # Chosen by `brain eval duplicates`; docs/explanation/decisions.md has the figures.
    duplicate_threshold=0.80,
    similar_threshold=0.63,
    # The 95th percentile of the cosine of questions and chat turns of different conversations
    # (LoCoMo, 60,000 pairs; median 0.06). The 99th, 0.29, would drop half of the turns that answer
    # a question without sharing a word with it.
    relevance_threshold=0.21,
    # Hardly any question loses its answer by it; docs/explanation/decisions.md has the figures.
    answer_threshold=0.44,
)

WINDOW_TOKENS = 200
"""About 150 words, within the 256 tokens that the model was trained on.

Recall@10 on half of SciFact is 82.8 with these windows, 79.4 with the first 256 tokens alone.
"""
OVERLAP_TOKENS = 50
"""A quarter of a window, so that a sentence cut at the end of one is whole in the next."""

_THREADS_MAX: Final = 8
"""Runs at a time by default: each reads all 11 MB of weights, so memory becomes the limit."""


def usable_cores() -> int:
    """Return the number of cores that this process may use, at most 8."""
    # `taskset` and cpusets leave fewer than the machine has; only Linux can tell. Quotas of
    # containers are not seen: their operators set the number.
    affinity = getattr(os, "sched_getaffinity", None)
    count = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    return min(count, _THREADS_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loaded:
    tokenizer: Tokenizer
    session: Any
    """An `onnxruntime.InferenceSession`."""


class MiniLmEmbedder:
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
        self._threads = threads or usable_cores()
        self._model_path = model_path
        self._tokenizer_path = tokenizer_path
        self._loading = Lock()
        self._loaded: _Loaded | None = None

    @property
    def is_loaded(self) -> bool:
        """Whether the model is loaded."""
        return self._loaded is not None

    def load(self) -> None:
        """Load the model, which takes some 0.2 s."""
        self._load()

    def query(self, text: str) -> Matrix:
        """Embed a query; only its first 200 tokens count."""
        loaded = self._load()
        with _translated("embed a text"):
            return _vector(loaded, _encoded(loaded, text))

    def passages(self, texts: Sequence[str]) -> list[Matrix]:
        """Embed stored texts in windows of 200 tokens that overlap by 50."""
        loaded = self._load()
        import numpy as np  # noqa: PLC0415 counting memories needs neither it nor the model

        with _translated("embed a text"):
            cut = [_windows(loaded, text) for text in texts]
            vectors = self._vectors(loaded, list(chain.from_iterable(cut)))
            return [np.stack([*islice(vectors, len(one))]) for one in cut]

    def _vectors(self, loaded: _Loaded, windows: Sequence[Encoding]) -> Iterator[Matrix]:
        run = partial(_vector, loaded)
        # Windows run in parallel instead of threads within one: no additional work, and identical
        # vectors. Two threads within one run of 46 tokens work twice as long because they spin,
        # and are no faster without spinning.
        threads = min(self._threads, len(windows))
        return map(run, windows) if threads < 2 else _in_parallel(run, windows, threads=threads)  # noqa: PLR2004 one thread is this one

    def _load(self) -> _Loaded:
        if self._loaded is None:
            with self._loading:
                if self._loaded is None:
                    self._loaded = self._read()
        return self._loaded

    def _read(self) -> _Loaded:
        # Imported here because these two take longer to import than most commands take to run.
        with _translated("load the embedding model"):
            # First and by its own name: onnxruntime imports a part of it, and while another thread
            # imports the whole, one of the two would fail.
            import_module("numpy")
            from tokenizers import Tokenizer  # noqa: PLC0415

            # Its official builds report usage to their maker unless disabled. They record the first
            # event when they are imported, before it can be disabled by a call.
            os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
            onnxruntime: Any = import_module("onnxruntime")  # It brings no types.
            onnxruntime.disable_telemetry_events()
            tokenizer = Tokenizer.from_file(str(self._tokenizer_path))
            tokenizer.no_padding()
            tokenizer.enable_truncation(  # pyright: ignore[reportUnknownMemberType]
                WINDOW_TOKENS, stride=OVERLAP_TOKENS
            )
            session = onnxruntime.InferenceSession(
                self._model_path,
                _session_options(onnxruntime),
                providers=["CPUExecutionProvider"],
            )
        return _Loaded(tokenizer=tokenizer, session=session)


def _in_parallel(
    run: Callable[[Encoding], Matrix], windows: Sequence[Encoding], *, threads: int
) -> Iterator[Matrix]:
    try:
        # A pool per call: the threads of an older one do not exist after a fork.
        with ThreadPoolExecutor(threads, "minilm") as workers:
            return iter([*workers.map(run, windows)])
    except RuntimeError:
        # The interpreter ends and starts no threads.
        return map(run, windows)


_SATURATION_PROBE: Final = bytes.fromhex(
    "08083a580a180a01780a0177120179220d4d61744d756c496e74656765721201702a0f0804080110032a047f7f7f7f"
    "4201775a130a0178120e0a0c080212080a0208010a02080462130a0179120e0a0c080612080a0208010a0208014204"
    "0a00100d"
)
"""An ONNX model (opset 13) of one MatMulInteger: uint8 `x` of (1, 4) by four weights of 127."""


def _saturates(onnxruntime: Any) -> bool:  # noqa: ANN401 it has no types
    """Return whether this processor saturates sums of uint8 times int8 at 16 bits; takes 3 ms."""
    import numpy as np  # noqa: PLC0415 see `passages`

    probe = onnxruntime.InferenceSession(_SATURATION_PROBE, providers=["CPUExecutionProvider"])
    (sums,) = probe.run(None, {"x": np.full((1, 4), 255, np.uint8)})
    return int(sums[0, 0]) != 4 * 255 * 127


def _session_options(onnxruntime: Any) -> Any:  # noqa: ANN401 it has no types
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    # Memory is returned after each call, which costs nothing at this model's size.
    options.enable_cpu_mem_arena = False
    # The fused kernel is slower than its two parts: without it 30% more texts per second
    # (onnxruntime 1.31).
    options.add_session_config_entry(
        "optimization.disable_specified_optimizers", "SkipLayerNormFusion"
    )
    if _saturates(onnxruntime):
        # Exact sums. With VNNI they are exact anyway, and this would take twice as long.
        options.add_session_config_entry("session.x64quantprecision", "1")
    options.log_severity_level = 3  # Errors only: warnings would go to the process's stderr.
    return options


def _windows(loaded: _Loaded, text: str) -> Sequence[Encoding]:
    first = _encoded(loaded, text)
    return first, *first.overflowing


def _encoded(loaded: _Loaded, text: str) -> Encoding:
    # A lone surrogate is a legal str, but has no UTF-8 form and would be rejected.
    return loaded.tokenizer.encode(text.encode(errors="replace").decode())


def _vector(loaded: _Loaded, window: Encoding) -> Matrix:
    # One window per run. The runtime scales activations over its whole input, so a batch would
    # change its members' vectors (by up to 0.04 of cosine), and it is no faster on one core.
    import numpy as np  # noqa: PLC0415 see `passages`

    ids = np.array([window.ids], np.int64)
    (vectors,) = loaded.session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})
    return vectors[0]


class _ExitGuard:
    """Holds up the end of the interpreter until the libraries' calls in other threads return.

    A thread that returned to Python later would end within their C++ code, which aborts the
    process.
    """

    def __init__(self) -> None:
        self.reset()
        self._is_ending = False
        atexit.register(self._wait)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.reset)

    def reset(self) -> None:
        """Forget all calls; those of other threads do not go on after a fork."""
        self._calls = 0
        self._has_ended = Condition()

    def __enter__(self) -> None:
        with self._has_ended:
            if self._is_ending and current_thread().daemon:
                raise UnavailableError("The program ends.", code="embedder_down")
            self._calls += 1

    def __exit__(self, *_error: object) -> None:
        with self._has_ended:
            self._calls -= 1
            self._has_ended.notify_all()

    def _wait(self) -> None:
        with self._has_ended:
            self._is_ending = True
            self._has_ended.wait_for(lambda: self._calls == 0, _EXIT_S_MAX)


_EXIT_S_MAX: Final = 10.0
"""Loading takes 0.2 s and a batch at most a second, on a slow machine several times as long."""
_EXIT_GUARD: Final = _ExitGuard()


@contextmanager
def _translated(attempt: str) -> Generator[None]:
    try:
        with _EXIT_GUARD:
            yield
    except UnavailableError:
        raise
    # Catch everything, because tokenizers raises bare Exceptions and onnxruntime a dozen types.
    except Exception as error:
        raise UnavailableError(
            f"The embedder minilm could not {attempt}: {error}",
            code="embedder_down",
            hint="Reinstall commonbrain-minilm, onnxruntime and tokenizers, then retry.",
        ) from error
