"""Foreign code on threads of its own: however it ends, its thread is free again."""

import pytest

from commonbrain.executors import DetachedExecutor
from tests.processes import PATIENCE_S


class Panic(BaseException):
    """What a library in another language raises: no exception that a program would catch."""


def panic() -> None:
    raise Panic


def test_whoever_panics_is_answered_so_and_takes_no_thread_with_it() -> None:
    aside = DetachedExecutor(1, name="panicking")
    for _ in range(3):
        with pytest.raises(Panic):
            aside.submit(panic).result(PATIENCE_S)
    assert aside.submit(lambda: "tea").result(PATIENCE_S) == "tea"
