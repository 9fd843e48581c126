"""What the processes of `test_processes` do; each speaks over a pipe and waits for its go."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TypeAlias

from commonbrain import CommonbrainError
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.testing.builders import SeededRandom, a_brain
from tests.processes import TIMEOUT_S

# Children of a clean process that has loaded everything once: a hundred times faster to start than
# a new Python, and as separate.
PROCESSES = get_context("forkserver")
PROCESSES.set_forkserver_preload([__name__])

READY = "ready"
DONE = "done"

Line: TypeAlias = "Connection[str, str]"
Work = Callable[[Path, int, int, Line], None]


@dataclass(frozen=True, slots=True)
class Worker:
    """A process at work and the line to it."""

    process: BaseProcess
    line: Line

    def hear(self) -> str | None:
        """Return its next line, None when it has closed the line.

        Raises:
            TimeoutError: it sends nothing.

        """
        if not self.line.poll(TIMEOUT_S):
            raise TimeoutError(f"{self.process.name} sends nothing.")
        try:
            return self.line.recv()
        except (EOFError, ConnectionResetError):
            return None

    def hear_out(self) -> list[str]:
        """Return all its lines until it is done or has ended."""
        return list(iter(self.hear, None))


@contextmanager
def worker(work: Work, path: Path, *, number: int, times: int) -> Generator[Worker]:
    """Start a process that opens the file when told to go; end it whatever happens."""
    ours, theirs = PROCESSES.Pipe()
    process = PROCESSES.Process(target=work, args=(path, number, times, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        yield Worker(process, ours)
    finally:
        process.kill()
        process.join(TIMEOUT_S)
        process.close()
        ours.close()


def write(path: Path, number: int, times: int, line: Line) -> None:
    """Remember `times` events, reporting each id when it is acknowledged."""
    line.send(READY)
    line.recv()
    try:
        with a_brain(path, agent=f"writer-{number}", random_source=SeededRandom(number)) as brain:
            for turn in range(times):
                text = f"Writer{number} saw thing{number}x{turn} happen."
                (done,) = brain.remember(text, kind="event").items
                line.send(f"{done.status} {done.id}")
    except CommonbrainError as error:
        line.send(f"{error.code}: {error}")
    line.send(DONE)


def read(path: Path, number: int, times: int, line: Line) -> None:
    """Recall `times` times, reporting the result of each."""
    line.send(READY)
    line.recv()
    try:
        with a_brain(path, agent=f"reader-{number}", random_source=SeededRandom(number)) as brain:
            for turn in range(times):
                result = brain.recall(f"what did writer1 see, thing1x{turn}?")
                line.send(" ".join([result.verdict, *result.degraded]))
    except CommonbrainError as error:
        line.send(f"{error.code}: {error}")
    line.send(DONE)


def hold(path: Path, number: int, _times: int, line: Line) -> None:
    """Write one memory, then keep a write transaction open until told to go."""
    with a_brain(path, agent=f"holder-{number}") as brain:
        brain.remember("The kettle is in the blue cupboard.", kind="fact")
        with brain.services.store.begin(LOCAL_TENANT):
            line.send(READY)
            line.recv()
    line.send(DONE)


def correct(path: Path, number: int, times: int, line: Line) -> None:
    """Supersede each of `times` stored facts, reporting the result of each."""
    with a_brain(path, agent=f"agent-{number}", random_source=SeededRandom(number)) as brain:
        ids = {item.body or "": item.id for item in brain.recall("", max_items=100).items}
        line.send(READY)
        line.recv()
        for turn in range(times):
            old = ids[f"Service x{turn} runs on two cores"]
            new = f"Agent{number} measured x{turn}: cores{number} are what it has"
            try:
                done = brain.revise.supersede(old, new, reason="measured")
                line.send(f"{done.status} {done.id}")
            except CommonbrainError as error:
                line.send(f"{error.code}: {error}")
    line.send(DONE)


def claim(path: Path, number: int, times: int, line: Line) -> None:
    """Claim each of `times` stored tasks, reporting the result of each."""
    with a_brain(path, agent=f"agent-{number}") as opened:
        brain = opened.acting_as(session=f"s{number}")
        tasks = sorted(one.id for one in brain.session.tasks().tasks or ())
        line.send(READY)
        line.recv()
        for id_ in tasks[:times]:
            try:
                lease = brain.session.claim(id_).lease
                line.send(lease.status if lease else "")
            except CommonbrainError as error:
                line.send(error.code)
    line.send(DONE)
