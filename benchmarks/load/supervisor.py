"""A server's process as a supervisor sees it: stopped, started anew, kept running."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Final

import psutil

if TYPE_CHECKING:
    from collections.abc import Generator

_PAUSE_S: Final = 1.0
"""How long a supervisor waits before it starts anew what has ended."""
_STOP_S: Final = 30


@dataclass(slots=True)
class Supervised:
    """One process: how it was started, and which it is now."""

    process: psutil.Process
    command: list[str]
    folder: str
    owner: dict[str, Any]
    restarts: int = 0

    @classmethod
    def of(cls, process: psutil.Process) -> Supervised:
        """Learn from a process how it is started."""
        owner: dict[str, Any] = {}
        if os.geteuid() == 0:
            owner = {"user": process.uids().real, "group": process.gids().real, "extra_groups": []}
        return cls(
            process=process,
            command=process.cmdline(),
            folder=process.cwd(),
            owner=owner,
        )

    def stop(self) -> None:
        """Stop it, and wait until it is gone."""
        with suppress(psutil.NoSuchProcess):
            self.process.send_signal(signal.SIGINT)
        with suppress(psutil.TimeoutExpired):
            self.process.wait(_STOP_S)

    @property
    def has_ended(self) -> bool:
        """Return whether it has ended."""
        if isinstance(self.process, psutil.Popen):
            return self.process.poll() is not None
        return not self.process.is_running()

    def start(self) -> None:
        """Start it again as it was."""
        self.process = psutil.Popen(
            self.command,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            **self.owner,
        )
        self.restarts += 1


@contextmanager
def supervised(process: psutil.Process) -> Generator[Supervised]:
    """Start a process anew whenever it ends, as systemd or Kubernetes would."""
    watched, stopping = Supervised.of(process), Event()

    def watch() -> None:
        while not stopping.wait(_PAUSE_S):
            if watched.has_ended:
                watched.start()

    watching = Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield watched
    finally:
        stopping.set()
        watching.join()
        if watched.restarts:
            watched.stop()
