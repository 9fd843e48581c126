"""ONNX models in this process: loading, exact 8-bit sums, and a safe end of the program."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from threading import Condition, Lock, current_thread
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from commonbrain.model.errors import CommonbrainError, UnavailableError
from commonbrain.model.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from tokenizers import Encoding, Tokenizer

    from commonbrain.embeddings.interface import Matrix

Loaded = TypeVar("Loaded")
Item = TypeVar("Item")
Result = TypeVar("Result")

_THREADS_MAX: Final = 8
"""Runs at a time by default: each reads all weights, so memory becomes the limit."""


def usable_cores() -> int:
    """Return the number of cores that this process may use, at most 8."""
    # `taskset` and cpusets leave fewer than the machine has; only Linux can tell. Quotas of
    # containers are not seen: their operators set the number.
    affinity = getattr(os, "sched_getaffinity", None)
    count = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    return min(count, _THREADS_MAX)


def map_in_parallel(
    run: Callable[[Item], Result], items: Sequence[Item], *, threads: int
) -> Iterator[Result]:
    """Map items in order, on several threads where that helps."""
    # Items run in parallel instead of threads within one: no additional work, and identical
    # results. Two threads within one run of 46 tokens work twice as long because they spin, and
    # are no faster without spinning.
    threads = min(threads, len(items))
    if threads < 2:  # noqa: PLR2004 one thread is this one
        return map(run, items)
    try:
        # A pool per call: the threads of an older one do not exist after a fork.
        with ThreadPoolExecutor(threads, "onnx") as workers:
            return iter([*workers.map(run, items)])
    except RuntimeError:
        # The interpreter ends and starts no threads.
        return map(run, items)


class LazyModel(Generic[Loaded]):
    """A model that is loaded on first use, once, by whichever thread comes first."""

    def __init__(self, read: Callable[[], Loaded]) -> None:
        self._read = read
        self._loading = Lock()
        self._loaded: Loaded | None = None

    @property
    def is_loaded(self) -> bool:
        """Whether the model is loaded."""
        return self._loaded is not None

    def get(self) -> Loaded:
        """Return the model, loading it first if needed; after a failure the next call retries."""
        if self._loaded is None:
            with self._loading:
                if self._loaded is None:
                    self._loaded = self._read()
        return self._loaded


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLabel:
    """How errors name a model, and what they advise."""

    name: str
    hint: str

    @contextmanager
    def attempting(self, attempt: str) -> Generator[None]:
        """Translate the errors of the libraries; the program does not end within.

        Raises:
            UnavailableError: `embedder_down`.

        """
        try:
            with _EXIT_GUARD:
                yield
        except CommonbrainError:
            raise
        # Catch everything, because tokenizers raises bare Exceptions and onnxruntime a dozen types.
        except Exception as error:
            raise UnavailableError(
                f"The {self.name} could not {attempt}: {error}",
                code="embedder_down",
                hint=self.hint,
            ) from error


def open_tokenizer(path: Path) -> Tokenizer:
    """Read a `tokenizer.json`; it neither pads nor truncates."""
    # Imported here because it takes longer to import than most commands take to run.
    from tokenizers import Tokenizer  # noqa: PLC0415

    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def open_session(path: Path, *, unsigned: Path | None = None) -> Any:  # noqa: ANN401 it has no types
    """Load an ONNX model into an `onnxruntime.InferenceSession` of one thread.

    `unsigned` is the same model for processors that would saturate sums; without it, the runtime
    converts its weights for them, which takes longer than to load the model.
    """
    # First and by its own name: onnxruntime imports a part of it, and while another thread imports
    # the whole, one of the two would fail.
    import_module("numpy")
    # Its official builds report usage to their maker unless disabled. They record the first event
    # when they are imported, before it can be disabled by a call.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    onnxruntime: Any = import_module("onnxruntime")  # It brings no types.
    onnxruntime.disable_telemetry_events()
    options = _session_options(onnxruntime)
    if _saturates(onnxruntime, options=options):
        # Exact sums. With VNNI they are exact anyway, and this would take twice as long.
        if unsigned is None:
            options.add_session_config_entry("session.x64quantprecision", "1")
        path = unsigned or path
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def encode(tokenizer: Tokenizer, text: str, *, pair: str | None = None) -> Encoding:
    """Tokenize a text, or a pair of texts as one input."""
    return tokenizer.encode(_valid(text), None if pair is None else _valid(pair))


def _valid(text: str) -> str:
    # A lone surrogate is a legal str, but has no UTF-8 form and would be rejected.
    return text.encode(errors="replace").decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFeed:
    """Makes a model's inputs of tokens."""

    types: tuple[tuple[str, str], ...]
    """Names with the element types of numpy, such as `("input_ids", "int64")`."""

    def feed(self, window: Encoding) -> dict[str, Matrix]:
        """Return the inputs of one window, shape `(1, tokens)` each."""
        import numpy as np  # noqa: PLC0415 counting memories needs neither it nor the model

        made: dict[str, Any] = {}
        for name, kind in self.types:
            match name:
                case "input_ids":
                    values = window.ids
                case "token_type_ids":
                    values = window.type_ids
                case "position_ids":
                    values = range(len(window.ids))
                case _:
                    values = [1] * len(window.ids)
            made[name] = np.array([values], kind)
        return made


_SATURATION_PROBE: Final = bytes.fromhex(
    "08083a580a180a01780a0177120179220d4d61744d756c496e74656765721201702a0f0804080110032a047f7f7f7f"
    "4201775a130a0178120e0a0c080212080a0208010a02080462130a0179120e0a0c080612080a0208010a0208014204"
    "0a00100d"
)
"""An ONNX model (opset 13) of one MatMulInteger: uint8 `x` of (1, 4) by four weights of 127."""


def _saturates(onnxruntime: Any, *, options: Any) -> bool:  # noqa: ANN401 it has no types
    """Return whether this processor saturates sums of uint8 times int8 at 16 bits; takes 3 ms."""
    import numpy as np  # noqa: PLC0415 see `feed`

    probe = onnxruntime.InferenceSession(
        _SATURATION_PROBE, options, providers=["CPUExecutionProvider"]
    )
    (sums,) = probe.run(None, {"x": np.full((1, 4), 255, np.uint8)})
    return int(sums[0, 0]) != 4 * 255 * 127


def _session_options(onnxruntime: Any) -> Any:  # noqa: ANN401 it has no types
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    # Memory is returned after each call, which costs nothing at the size of these models.
    options.enable_cpu_mem_arena = False
    # The fused kernel is slower than its two parts: without it 30% more texts per second
    # (all-MiniLM-L6-v2, onnxruntime 1.31).
    options.add_session_config_entry(
        "optimization.disable_specified_optimizers", "SkipLayerNormFusion"
    )
    options.log_severity_level = 3  # Errors only: warnings would go to the process's stderr.
    return options


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
