"""One peer at work: it stores conversations, each in an empty store, and answers questions."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from benchmarks.peers.conversations import Conversation
from benchmarks.peers.environments import ROOT, Environment
from benchmarks.peers.systems import Peer
from benchmarks.timing import Lap, Timing

LIMIT: Final = 10
"""How many results are asked for."""
CUTS: Final = (5, LIMIT)
_BATCH: Final = 50
"""Requests a line, so that the pipe is not what is measured."""
_LAST_CHARACTERS: Final = 300
"""Of what a worker printed before it ended, enough for the exception."""
Item = TypeVar("Item")


class WorkerError(Exception):
    """A worker ended or answered with an error; the message is its own."""


@dataclass(slots=True, kw_only=True)
class Measured:
    """What one peer did, over all conversations."""

    peer: Peer
    installed_mb: float
    given: int = 0
    stored: int = 0
    writes: list[Lap] = field(default_factory=list[Lap])
    searches: list[Lap] = field(default_factory=list[Lap])
    complete: dict[int, list[bool]] = field(
        default_factory=lambda: {cut: list[bool]() for cut in CUTS}
    )
    """Whether all evidence of a question was among the first results, by their number."""
    resident_mb: list[float] = field(default_factory=list[float])

    def recall_at(self, cut: int) -> float:
        """Return the percentage of questions of which all evidence was found."""
        return 100 * sum(self.complete[cut]) / len(self.complete[cut])

    @property
    def search_timing(self) -> Timing:
        """All searches."""
        return Timing(tuple(self.searches))

    @property
    def write_wall_ms(self) -> float:
        """Return the mean, of which writes a second are the reciprocal."""
        return sum(lap.wall_ms for lap in self.writes) / self.given

    @property
    def write_process_ms(self) -> float:
        """Return the mean processor time."""
        return sum(lap.process_ms for lap in self.writes) / self.given

    @property
    def resident_p50_mb(self) -> float:
        """Return the median over the stores, each after its last question."""
        return median(self.resident_mb)


class Worker:
    """The process of a peer."""

    def __init__(self, peer: Peer, python: Path, folder: Path) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 closed with the worker
        self._process = subprocess.Popen(  # noqa: S603 a program of ours
            [python, "-m", f"benchmarks.peers.workers.{peer.worker}", str(folder)],
            cwd=ROOT,
            env=_environment(peer, folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            encoding="utf-8",
        )

    def __enter__(self) -> Self:
        """Return at once; the first request waits until the memory is open."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the process; its data is in a folder that is deleted with it."""
        self._process.kill()
        self._process.communicate()
        self._errors.close()

    def ask(self, **request: object) -> dict[str, Any]:
        """Send one request and wait for its reply.

        Raises:
            WorkerError: it failed.

        """
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise WorkerError("it has no pipes")
        try:
            stdin.write(json.dumps(request) + "\n")
            stdin.flush()
        except BrokenPipeError:
            raise WorkerError(self._last_words()) from None
        line = stdout.readline()
        if not line:
            raise WorkerError(self._last_words())
        reply = json.loads(line)
        if "error" in reply:
            raise WorkerError(reply["error"])
        return reply

    def _last_words(self) -> str:
        self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1][-_LAST_CHARACTERS:] if lines else f"exit {self._process.returncode}"


def measure(
    peer: Peer, environment: Environment, conversations: Sequence[Conversation]
) -> Measured:
    """Let a peer store each conversation and answer its questions.

    Raises:
        WorkerError: it failed.

    """
    measured = Measured(peer=peer, installed_mb=environment.installed_mb)
    for conversation in conversations:
        with _started(peer, environment) as worker:
            _store(worker, conversation, measured)
            # The first search of a process loads its model, which is not measured.
            worker.ask(search=["Are you ready?"], limit=LIMIT)
            for batch in _batches(conversation.questions):
                reply = worker.ask(search=[one.text for one in batch], limit=LIMIT)
                measured.searches += _laps(reply)
                for question, results in zip(batch, reply["found"], strict=True):
                    # A memory that was split counts once, as in `brain eval`.
                    references = list(dict.fromkeys(results))
                    for cut, complete in measured.complete.items():
                        complete.append(question.evidence <= set(references[:cut]))
            measured.resident_mb.append(worker.ask()["resident_mb"])
    return measured


@contextmanager
def _started(peer: Peer, environment: Environment) -> Generator[Worker]:
    with (
        tempfile.TemporaryDirectory(prefix="peers-") as folder,
        Worker(peer, environment.python, Path(folder)) as worker,
    ):
        yield worker


def _store(worker: Worker, conversation: Conversation, measured: Measured) -> None:
    measured.given += len(conversation.texts)
    if measured.peer.imports:
        with tempfile.TemporaryDirectory(prefix="peers-") as folder:
            source = Path(folder) / "conversation.json"
            source.write_text(json.dumps([conversation.sample]), "utf-8")
            reply = worker.ask(**{"import": str(source)})
        measured.stored += reply["stored"]
        measured.writes += _laps(reply)
        return
    for batch in _batches(conversation.texts):
        reply = worker.ask(write=batch)
        measured.stored += reply["stored"]
        measured.writes += _laps(reply)


def _laps(reply: dict[str, Any]) -> list[Lap]:
    return [Lap(wall_ms=wall, process_ms=process) for wall, process in reply["laps"]]


def _batches(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), _BATCH):
        yield items[start : start + _BATCH]


def _environment(peer: Peer, folder: Path) -> dict[str, str]:
    """Return a worker the working tree, a home of its own and nothing to download."""
    remaining = {
        name: value for name, value in os.environ.items() if not name.startswith("COMMONBRAIN_")
    }
    return {
        **remaining,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
        "HOME": str(folder),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "HF_HUB_OFFLINE": "1",
        **peer.environment,
    }
