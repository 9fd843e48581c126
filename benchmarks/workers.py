"""What the processes of `faults` and `contention` do: real writers and readers of one file."""

import json
import time
from collections.abc import Callable
from pathlib import Path

from commonbrain import CommonbrainError
from commonbrain.client import Brain
from commonbrain.clock import SystemClock, SystemRandom
from commonbrain.testing.builders import a_brain
from tests.faults.workers import READY, Line


def opened(path: Path, agent: str) -> Brain:
    """Open a store whose embedder costs nothing, so that the file is what all wait for."""
    return a_brain(path, agent=agent, clock=SystemClock(), random_source=SystemRandom())


def remember_until_killed(path: Path, number: int, times: int, line: Line) -> None:
    """Remember events, saying each id when it is acknowledged."""
    line.send(READY)
    line.recv()
    with opened(path, f"writer-{number}") as brain:
        for turn in range(times):
            line.send(str(_remember(brain, number, turn)))


def remember_for(path: Path, number: int, seconds: int, line: Line) -> None:
    """Remember events for so many seconds, then tell ids, times and errors."""
    ids: list[str] = []

    def write(brain: Brain, turn: int) -> None:
        ids.append(str(_remember(brain, number, turn)))

    _repeat(path, f"writer-{number}", seconds, line=line, action=write, ids=ids)


def recall_for(path: Path, number: int, seconds: int, line: Line) -> None:
    """Recall for so many seconds, then tell times and errors."""

    def read(brain: Brain, turn: int) -> None:
        brain.recall(f"what did writer{turn % 8} see, thing{turn % 8}x{turn}?")

    _repeat(path, f"reader-{number}", seconds, line=line, action=read, ids=[])


def _remember(brain: Brain, number: int, turn: int) -> str | None:
    text = f"Writer{number} saw thing{number}x{turn} happen."
    return brain.remember(text, kind="event").items[0].id


def _repeat(
    path: Path,
    agent: str,
    seconds: int,
    *,
    line: Line,
    action: Callable[[Brain, int], None],
    ids: list[str],
) -> None:
    times_ms: list[float] = []
    errors: list[str] = []
    with opened(path, agent) as brain:
        line.send(READY)
        line.recv()
        ends = time.perf_counter() + seconds
        turn = 0
        while (started := time.perf_counter()) < ends:
            try:
                action(brain, turn)
            except CommonbrainError as error:
                errors.append(error.code)
            times_ms.append((time.perf_counter() - started) * 1000)
            turn += 1
    result = {
        "ids": ids,
        "ms": times_ms,
        "errors": errors,
        "dropped": brain.services.journal.dropped,
    }
    line.send(json.dumps(result))
