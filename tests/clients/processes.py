"""Runs a foreign program to its end: own environment, a deadline, nothing left behind."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

from tests.processes import TIMEOUT_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What a program left: its exit status and all it printed."""

    status: int
    out: str
    err: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A home of its own for foreign programs, and the environment that stands for a machine's."""

    home: Path
    environment: Mapping[str, str] = field(default_factory=dict[str, str])

    def run(self, command: Sequence[str | Path], *, timeout_s: float, **more: str) -> Ended:
        """Run a command in the home, with `more` environment variables and no input.

        Raises:
            TimeoutError: it did not end in time; it and what it started were killed.

        """
        process = subprocess.Popen(
            [*map(str, command)],
            cwd=self.home,
            env={**self.environment, "HOME": str(self.home), **more},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            start_new_session=True,
        )
        try:
            out, err = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired as late:
            _kill_group(process)
            out, err = process.communicate()
            message = f"{command[0]} had {timeout_s} s; it printed:\n{out}\n{err}"
            raise TimeoutError(message) from late
        finally:
            # Servers it started live in its group, and may outlive a client that crashed.
            _kill_group(process)
        return Ended(status=process.returncode, out=out, err=err)


def in_project(place: Place) -> Place:
    """Let the home be a project, which it is not by itself."""
    return replace(place, environment={**place.environment, "COMMONBRAIN_PROJECT": "shop"})


def patient_hooks(store: Path) -> Mapping[str, str]:
    """Let hooks of a store take more than a busy machine does, and less than their clients wait."""
    limits = {"START": "9", "PROMPT": "5", "EDIT": "7"}
    named = {f"COMMONBRAIN_HOOK_{name}_TIMEOUT_S": limit for name, limit in limits.items()}
    return {"COMMONBRAIN_STORE": str(store), **named}


def wait_for_hooks(store: Path) -> None:
    """Wait for what goes on after the client is gone, known by its command line and store."""
    running = [
        one
        for one in psutil.process_iter(["cmdline"])
        if "--detached" in (one.info["cmdline"] or ()) and _uses(one, store)
    ]
    _, alive = psutil.wait_procs(running, timeout=TIMEOUT_S)
    assert not alive


def _uses(process: psutil.Process, store: Path) -> bool:
    with suppress(psutil.Error):
        return process.environ().get("COMMONBRAIN_STORE") == str(store)
    return False


def _kill_group(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
