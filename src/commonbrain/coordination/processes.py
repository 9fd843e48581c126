"""Processes of this machine: the client of a call, and whether a process still runs."""

import os
import platform
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from commonbrain.model.limits import NAME_CHARS_MAX
from commonbrain.model.sessions import Process, is_same_process
from commonbrain.model.timestamps import to_utc

if TYPE_CHECKING:
    import psutil


class Processes(Protocol):
    """Information about processes; reading it changes nothing."""

    @property
    def host(self) -> str:
        """Identify the scope of process numbers, in up to 255 characters."""
        ...

    def own(self) -> Process:
        """Return this process."""
        ...

    def client(self) -> Process | None:
        """Return the long-lived program that started this one, skipping shells and launchers.

        None if there is none or it cannot be determined.
        """
        ...

    def folder(self) -> str | None:
        """Return the working folder of the client, usually this process's own."""
        ...

    def session(self, agent: str) -> str | None:
        """Return the client's id of the session in which it started this process, if known."""
        ...

    def is_alive(self, process: Process) -> bool:
        """Return whether a process of this host still runs; True if it cannot be determined."""
        ...


LAUNCHERS: Final = frozenset(
    "bash brain cmd dash env fish ksh npm npx nu pipx powershell pwsh sh uv uvx zsh".split()
)
"""Programs that start others and are not agents; node and python may be agents."""
ROOTS: Final = frozenset("init launchd systemd".split())
"""Processes that adopt orphans, and are no client."""
FOLDER_VARIABLES: Final = ("CLAUDE_PROJECT_DIR", "CURSOR_PROJECT_DIR", "GEMINI_PROJECT_DIR")
"""Variables by which clients pass their folder to hooks, wherever those run."""
SESSION_VARIABLES: Final = {"claude-code": "CLAUDE_CODE_SESSION_ID"}
"""Variables by which clients pass their session to what they start.

Only a client's own variable counts, because another client started from its shell inherits it.
"""
_ANCESTORS_MAX: Final = 8
_HOST_CHARS_MAX: Final = 255


class LocalProcesses:
    """Reads the process table on request; psutil is imported then."""

    @property
    def host(self) -> str:
        """Return the machine, and the process namespace if there are several."""
        return _host()

    def own(self) -> Process:
        """Return this process."""
        import psutil  # noqa: PLC0415 its loading would hold up every start

        return self._process(psutil.Process())

    def client(self) -> Process | None:
        """Return the nearest ancestor that is not a launcher."""
        import psutil  # noqa: PLC0415 its loading would hold up every start

        try:
            ancestors = psutil.Process().parents()[:_ANCESTORS_MAX]
            at = client_among(one.name() for one in ancestors)
            return None if at is None else self._process(ancestors[at])
        except psutil.Error:
            # An ancestor ended meanwhile, or belongs to another user.
            return None

    def folder(self) -> str | None:
        """Return the client's folder if it gives one, else this process's own."""
        folder = next(filter(None, map(os.environ.get, FOLDER_VARIABLES)), None)
        try:
            return folder or str(Path.cwd())
        except OSError:
            # It was deleted meanwhile.
            return None

    def session(self, agent: str) -> str | None:
        """Return the session that the agent's client passed in the environment."""
        session = os.environ.get(SESSION_VARIABLES.get(agent, ""), "")
        return session if 0 < len(session) <= NAME_CHARS_MAX and session.isprintable() else None

    def is_alive(self, process: Process) -> bool:
        """Return whether this process, identified by its start time, still runs."""
        import psutil  # noqa: PLC0415 its loading would hold up every start

        try:
            running = psutil.Process(process.pid)
            if running.status() in {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}:
                return False
            return is_same_process(self._process(running), process)
        except psutil.NoSuchProcess:
            return False
        except psutil.Error:
            return True

    def _process(self, running: "psutil.Process") -> Process:
        born = to_utc(datetime.fromtimestamp(running.create_time(), UTC))
        return Process(host=self.host, pid=running.pid, created_at=born)


@cache
def _host() -> str:
    try:
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        # Only Linux has several.
        namespace = ""
    return f"{platform.node()} {namespace}".strip()[:_HOST_CHARS_MAX]


def client_among(names: Iterable[str]) -> int | None:
    """Return which ancestor, nearest first, is the client; None if there is none."""
    for at, name in enumerate(names):
        # npm calls itself "npm exec ..." and a login shell "-bash".
        program = name.lower().removesuffix(".exe").split(" ")[0].lstrip("-")
        if program in ROOTS:
            return None
        if program not in LAUNCHERS:
            return at
    return None
