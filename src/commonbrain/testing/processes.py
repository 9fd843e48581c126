"""A process table under a test's control."""

from datetime import datetime

from commonbrain.model.sessions import Process, is_same_process


class FakeProcesses:
    """A fake process table; with `parent`, one client owns it."""

    def __init__(self, *, host: str = "here", born: datetime) -> None:
        self.host = host
        self.born = born
        self.running: list[Process] = []
        self.parent: Process | None = None
        self.sessions: dict[str, str] = {}
        self.checks = 0

    def start(self, pid: int) -> Process:
        """Start a process."""
        started = Process(host=self.host, pid=pid, created_at=self.born)
        self.running.append(started)
        return started

    def kill(self, process: Process) -> None:
        """End a process."""
        self.running.remove(process)

    def own(self) -> Process:
        """Return the process of the test."""
        return Process(host=self.host, pid=1, created_at=self.born)

    def client(self) -> Process | None:
        """Return the configured client process."""
        return self.parent

    def folder(self) -> str | None:
        """Return a folder."""
        return "/home/ann/api"

    def session(self, agent: str) -> str | None:
        """Return the configured session of the agent's client."""
        return self.sessions.get(agent)

    def is_alive(self, process: Process) -> bool:
        """Whether the process runs; counts the calls."""
        self.checks += 1
        return any(is_same_process(one, process) for one in self.running)
