"""The processes of this machine: which one calls, and whether one still runs."""

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
    """What can be told of processes from here; asking changes nothing."""

    @property
    def host(self) -> str:
        """Name where process numbers mean the same as here, up to 255 characters."""
        ...

    def own(self) -> Process:
        """Give this process."""
        ...

    def client(self) -> Process | None:
        """Give the long-lived program that started this one, past shells and launchers.

        None when there is none, or it cannot be told.
        """
        ...

    def folder(self) -> str | None:
        """Give the folder that the client was started in, as a rule this process's own."""
        ...

    def session(self, agent: str) -> str | None:
        """Give the client's own id of the session in which it started this process, if it told."""
        ...

    def is_alive(self, process: Process) -> bool:
        """Say whether a process of this host still runs; True where it cannot be told."""
        ...


LAUNCHERS: Final = frozenset(
    "bash brain cmd dash env fish ksh npm npx nu pipx powershell pwsh sh uv uvx zsh".split()
)
"""Programs that start others and are no agent themselves; node and python may be agents."""
ROOTS: Final = frozenset("init launchd systemd".split())
"""What adopts a process whose parent is gone: nobody's client."""
FOLDER_VARIABLES: Final = ("CLAUDE_PROJECT_DIR", "CURSOR_PROJECT_DIR", "GEMINI_PROJECT_DIR")
"""Where clients tell hooks of the folder they were started in, wherever the hook itself runs."""
SESSION_VARIABLES: Final = {"claude-code": "CLAUDE_CODE_SESSION_ID"}
"""Where a client tells what it starts of its session; only its own word counts, for a client that
another one's shell starts inherits that one's."""
_ANCESTORS_MAX: Final = 8
_HOST_CHARS_MAX: Final = 255


class LocalProcesses:
    """Reads the process table when asked, and loads psutil then, not at the program's start."""

    @property
    def host(self) -> str:
        """Name the machine, and the namespace of its process numbers where there are several."""
        return _host()

    def own(self) -> Process:
        """Give this process."""
        import psutil  # noqa: PLC0415 its loading would hold up every start

        return self._process(psutil.Process())

    def client(self) -> Process | None:
        """Give the nearest ancestor that is no launcher."""
        import psutil  # noqa: PLC0415 its loading would hold up every start

        try:
            ancestors = psutil.Process().parents()[:_ANCESTORS_MAX]
            at = client_among(one.name() for one in ancestors)
            return None if at is None else self._process(ancestors[at])
        except psutil.Error:
            # An ancestor ended while it was looked at, or is another user's.
            return None

    def folder(self) -> str | None:
        """Give the client's folder where it says so, else this process's own."""
        told = next(filter(None, map(os.environ.get, FOLDER_VARIABLES)), None)
        try:
            return told or str(Path.cwd())
        except OSError:
            # It was deleted meanwhile.
            return None

    def session(self, agent: str) -> str | None:
        """Give the session that the agent's client named in the environment."""
        told = os.environ.get(SESSION_VARIABLES.get(agent, ""), "")
        return told if 0 < len(told) <= NAME_CHARS_MAX and told.isprintable() else None

    def is_alive(self, process: Process) -> bool:
        """Say whether this very process, born then, still runs."""
        import psutil  # noqa: PLC0415 its loading would hold up every start

        try:
            found = psutil.Process(process.pid)
            if found.status() in {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}:
                return False
            return is_same_process(self._process(found), process)
        except psutil.NoSuchProcess:
            return False
        except psutil.Error:
            return True

    def _process(self, found: "psutil.Process") -> Process:
        born = to_utc(datetime.fromtimestamp(found.create_time(), UTC))
        return Process(host=self.host, pid=found.pid, created_at=born)


@cache
def _host() -> str:
    try:
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        # Only Linux has several.
        namespace = ""
    return f"{platform.node()} {namespace}".strip()[:_HOST_CHARS_MAX]


def client_among(names: Iterable[str]) -> int | None:
    """Say which of a process's ancestors, nearest first, is the client; None when none is."""
    for at, name in enumerate(names):
        # npm calls itself "npm exec ..." and a login shell "-bash".
        program = name.lower().removesuffix(".exe").split(" ")[0].lstrip("-")
        if program in ROOTS:
            return None
        if program not in LAUNCHERS:
            return at
    return None
