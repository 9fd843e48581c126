"""Running the program under test inside this process, where starting costs nothing."""

import atexit
import gc
import io
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from unittest import mock

import pytest

from commonbrain.__main__ import main
from commonbrain.config import Settings
from commonbrain.embeddings.interface import Embedder
from commonbrain.runtime.models import make_embedder
from tests.processes import clean_environment


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The exit status and the output of a program."""

    status: int
    out: str
    err: str


@cache
def default_model() -> Embedder:
    """Keep the model that the stores of a process share, so that it is loaded once."""
    return make_embedder(Settings.model_construct())


def run_brain(
    *words: str, stdin: bytes | str = b"", folder: Path | str | None = None, **environment: str
) -> Finished:
    """Run `brain` with these words, by the entry point of its script.

    It sees the variables of `clean_environment`, and streams that are no terminal.
    """
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    code: object = None
    typed = stdin.encode() if isinstance(stdin, str) else stdin
    # What the program sets itself ends with it, too.
    variables = mock.patch.dict(os.environ)
    with pytest.MonkeyPatch.context() as patch, unchanged_collector(), variables:
        default_model()
        _set_environment(patch, clean_environment(**environment))
        if folder is not None:
            patch.chdir(folder)
        patch.setattr(sys, "argv", ["brain", *words])
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed), encoding="utf-8"))
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        # The script has no package; its name is then that of the program.
        patch.setattr(sys.modules["__main__"], "__package__", None, raising=False)
        # A hook ends its process so, whatever its threads still do.
        patch.setattr(os, "_exit", sys.exit)
        try:
            main()
        except SystemExit as exit_:
            code = exit_.code
    return Finished(
        status=code if isinstance(code, int) else 0 if code is None else 1,
        out=_text(out),
        err=_text(err),
    )


def _set_environment(patch: pytest.MonkeyPatch, environment: dict[str, str]) -> None:
    for name in os.environ.keys() - environment.keys():
        patch.delenv(name)
    for name, value in environment.items():
        if os.environ.get(name) != value:
            patch.setenv(name, value)


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode()


@contextmanager
def unchanged_collector() -> Generator[None]:
    """Undo what `main` sets for a process of its own."""
    thresholds = gc.get_threshold()
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        atexit.unregister(gc.freeze)
