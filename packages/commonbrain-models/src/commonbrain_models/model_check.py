"""A model of a user is used in a child process first, which it may end, block or bloat."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from commonbrain.child_process import ChildFailedError, run_in_child
from commonbrain.embeddings.onnx_runtime import ModelLabel
from commonbrain.model.errors import UnavailableError
from commonbrain.model.limits import LOCAL_CHILD_BYTES_MAX, ChildLimits

Check = Callable[["ModelUse"], None]

LIMITS: Final = ChildLimits(memory_bytes_max=LOCAL_CHILD_BYTES_MAX, silence_s_max=120.0)
"""Of memory, files come on top. A model of a gigabyte takes a tenth of the time."""
_BYTES_PER_BYTE: Final = 4
"""Memory per byte of a file: the runtime holds weights up to three times while it loads them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUse:
    """A model, and what uses it once."""

    function: str
    """`package.module:function`, a generator function that takes the path and yields nothing."""
    path: Path
    files: Sequence[Path]
    """What it reads."""
    label: ModelLabel


def check_in_child(use: ModelUse, *, limits: ChildLimits = LIMITS) -> None:
    """Use a model once in a child process.

    Raises:
        InvalidInputError: as the function raises it.
        UnavailableError: as the function raises it; `embedder_down`, the child died or took more
            time or memory than any such model needs; `io_error`, no process could be started.

    """
    size = sum(one.stat().st_size for one in use.files)
    memory = limits.memory_bytes_max + _BYTES_PER_BYTE * size
    limits = replace(limits, memory_bytes_max=memory)
    try:
        with run_in_child(use.function, {"path": str(use.path)}, limits=limits) as nothing:
            next(nothing, None)
    except ChildFailedError as error:
        raise UnavailableError(
            f"The {use.label.name} is not used: {error}.",
            code="embedder_down",
            hint=f"{use.label.hint} If they came from elsewhere, they may be made to harm.",
        ) from error
