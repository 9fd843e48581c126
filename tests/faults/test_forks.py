"""A forked child of a process with an open store gets a clear error and does not hang."""

import os
import sys
from collections.abc import Callable
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from threading import Event, Thread

import pytest

from commonbrain import CommonbrainError
from commonbrain.client import Brain
from commonbrain.testing.builders import a_brain
from tests.processes import TIMEOUT_S

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")

FORKS = 6


def exit_code_of(work: Callable[..., None], *arguments: object) -> int | None:
    """Run a function in a forked child; None if it does not end."""
    child = get_context("fork").Process(target=work, args=arguments)
    child.start()
    child.join(TIMEOUT_S)
    if child.is_alive():
        child.kill()
        return None
    return child.exitcode


def code_of(call: Callable[[], object]) -> str:
    try:
        call()
    except CommonbrainError as error:
        return error.code
    return "worked"


def use_inherited(brain: Brain, path: Path) -> None:
    calls: list[Callable[[], object]] = [
        lambda: brain.remember("Llamas hum.", kind="fact"),
        lambda: brain.recall("kettle"),
        lambda: brain.list(limit=1),
        lambda: brain.status().memories,
        lambda: brain.doctor().is_sound,
        lambda: brain.acting_as(agent="bob"),
        lambda: brain.jobs,
        lambda: brain.backup(path.with_name("child.bak")),
        lambda: a_brain(path),
    ]
    codes = {code_of(call) for call in calls}
    brain.close()
    sys.exit(0 if codes == {"store_forked"} else 1)


def use_own(path: Path) -> None:
    with a_brain(path) as brain:
        brain.remember("Llamas hum.", kind="fact")


@pytest.mark.of_a_file
def test_child_forked_during_writes_gets_a_clear_error_and_does_not_hang(path: Path) -> None:
    stop = Event()
    with a_brain(path) as brain:

        def work(worker: int) -> None:
            for number in count():
                if stop.is_set():
                    return
                brain.remember(f"Thing {worker}x{number} happened.", kind="event")
                brain.recall(f"thing {worker}x{number}")

        threads = [Thread(target=work, args=(worker,)) for worker in range(2)]
        for thread in threads:
            thread.start()
        try:
            codes = [exit_code_of(use_inherited, brain, path) for _ in range(FORKS)]
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        stored = brain.status().memories
        assert brain.doctor().is_sound

    assert codes == [0] * FORKS
    assert stored > 0


@pytest.mark.of_a_file
def test_forked_child_opens_a_store_that_its_parent_had_closed(path: Path) -> None:
    with a_brain(path) as brain:
        brain.remember("The kettle is blue.", kind="fact")

    assert exit_code_of(use_own, path) == 0

    with a_brain(path) as brain:
        assert brain.status().memories == 2
