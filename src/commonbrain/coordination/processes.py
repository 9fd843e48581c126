"""Processes of this machine: the client of a call, and whether a process still runs."""

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from commonbrain.model.limits import METADATA_CHARS_MAX, NAME_CHARS_MAX, PATH_CHARS_MAX
from commonbrain.model.sessions import (
    BRANCH,
    FOLDER_VARIABLES,
    SESSION_VARIABLES,
    WORKTREE,
    Process,
    is_same_process,
)
from commonbrain.model.timestamps import to_utc
from commonbrain.model.values import dataclass
from commonbrain.working_tree import Repository

if TYPE_CHECKING:
    import psutil


class Processes(Protocol):
    """Information about processes; reading it changes nothing."""

    @property
    def host(self) -> str:
        """Identify the scope of process numbers, in up to 255 characters."""
        ...

    def own(self) -> Process:
        """Return this process, or the one on whose behalf it works."""
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

    def terminal(self) -> Process | None:
        """Return the shell or program in whose terminal this command runs.

        None if nothing outlives the command, or if it cannot be determined.
        """
        ...

    def checkout(self, folder: str | None) -> Mapping[str, str]:
        """Return the branch and worktree of a folder as metadata; empty if there is no Git."""
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
_ANCESTORS_MAX: Final = 8
_DEPTH_MAX: Final = 64
_HOST_CHARS_MAX: Final = 255


@dataclass(frozen=True, slots=True)
class LocalProcesses:
    """Reads the process table on request; psutil is imported then.

    It describes this process, or the process on whose behalf this one works.
    """

    pid: int | None = None
    environment: Mapping[str, str] | None = None
    cwd: str | None = None

    @property
    def host(self) -> str:
        """Return the machine, and the process namespace if there are several."""
        return _host()

    def own(self) -> Process:
        """Return this process, or the one on whose behalf it works."""
        import psutil  # noqa: PLC0415 its loading would hold up every start

        return self._process(psutil.Process(self.pid))

    def client(self) -> Process | None:
        """Return the nearest ancestor that is not a launcher."""
        import psutil  # noqa: PLC0415 its loading would hold up every start

        try:
            ancestors = psutil.Process(self.pid).parents()[:_ANCESTORS_MAX]
            at = client_among(one.name() for one in ancestors)
            return None if at is None else self._process(ancestors[at])
        except psutil.Error:
            # An ancestor ended meanwhile, or belongs to another user.
            return None

    def folder(self) -> str | None:
        """Return the client's folder if it gives one, else this process's own."""
        folder = next(filter(None, map(self._variables().get, FOLDER_VARIABLES)), None)
        try:
            known = folder or (str(Path.cwd()) if self.pid is None else self.cwd)
        except OSError:
            known = None
        # One that was deleted meanwhile is unknown.
        return known if known is not None and len(known) <= PATH_CHARS_MAX else None

    def session(self, agent: str) -> str | None:
        """Return the session that the agent's client passed in the environment."""
        session = self._variables().get(SESSION_VARIABLES.get(agent, ""), "")
        return session if 0 < len(session) <= NAME_CHARS_MAX and session.isprintable() else None

    def terminal(self) -> Process | None:
        """Return the nearest program of this terminal that is no launcher, else its shell."""
        import psutil  # noqa: PLC0415 its loading would hold up every start

        try:
            ancestors = psutil.Process(self.pid).parents()[:_DEPTH_MAX]
            # Windows has no process that leads a terminal session.
            leader = os.getsid(self.pid or 0) if hasattr(os, "getsid") else None
            at = terminal_among([(one.pid, one.name()) for one in ancestors], leader=leader)
            return None if at is None else self._process(ancestors[at])
        except (psutil.Error, OSError):
            # An ancestor ended meanwhile, or belongs to another user.
            return None

    def checkout(self, folder: str | None) -> Mapping[str, str]:
        """Read the branch from the repository's files; Git itself would take longer."""
        repository = Repository.above(Path(folder)) if folder else None
        if repository is None or (at := repository.branch or repository.commit) is None:
            return {}
        shown = {BRANCH: at, WORKTREE: str(repository.root)}
        return {
            name: value
            for name, value in shown.items()
            if value.isprintable() and len(value) <= METADATA_CHARS_MAX
        }

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

    def _variables(self) -> Mapping[str, str]:
        return os.environ if self.environment is None else self.environment

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


def terminal_among(ancestors: Sequence[tuple[int, str]], *, leader: int | None) -> int | None:
    """Return which ancestor, nearest first, this terminal belongs to; None if there is none.

    Ancestors beyond the session's leader are other terminals, or the program that shows them. In a
    container the leader may be no ancestor; then the program that runs the nearest shell counts.
    """
    pids = [pid for pid, _ in ancestors]
    if leader is None or leader not in pids:
        client = client_among(name for _, name in ancestors)
        return None if client is None else max(0, client - 1)
    shell = pids.index(leader)
    client = client_among(name for _, name in ancestors[: shell + 1])
    return shell if client is None else client


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
