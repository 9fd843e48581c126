"""Foreign code on threads of its own: however it ends, its thread is free again."""

import pytest

from commonbrain.threads import DetachedExecutor
from tests.processes import TIMEOUT_S


class Panic(BaseException):
    """What a library in another language raises: no exception that a program would catch."""


def panic() -> None:
    raise Panic


def test_detached_executor_reports_a_panic_and_retains_its_thread() -> None:
    other = DetachedExecutor(1, name="panicking")
    for _ in range(3):
        with pytest.raises(Panic):
            other.submit(panic).result(TIMEOUT_S)
    assert other.submit(lambda: "tea").result(TIMEOUT_S) == "tea"
