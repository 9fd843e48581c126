"""Processes that live and die as a test says."""

from datetime import datetime

from commonbrain.model.sessions import Process, is_same_process


class FakeProcesses:
    """A process table a test writes itself; it is the only client's when `parent` is set."""

    def __init__(self, *, host: str = "here", born: datetime) -> None:
        self.host = host
        self.born = born
        self.running: list[Process] = []
        self.parent: Process | None = None
        self.sessions: dict[str, str] = {}
        self.looks = 0

    def start(self, pid: int) -> Process:
        """Let a process begin to run."""
        started = Process(host=self.host, pid=pid, created_at=self.born)
        self.running.append(started)
        return started

    def kill(self, process: Process) -> None:
        """Let a process be gone."""
        self.running.remove(process)

    def own(self) -> Process:
        """Give the process that the test is said to be."""
        return Process(host=self.host, pid=1, created_at=self.born)

    def client(self) -> Process | None:
        """Give what the test said has started it."""
        return self.parent

    def folder(self) -> str | None:
        """Give a folder."""
        return "/home/ann/api"

    def session(self, agent: str) -> str | None:
        """Give what the test said the agent's client told."""
        return self.sessions.get(agent)

    def is_alive(self, process: Process) -> bool:
        """Say whether the test lets it run, and count the look."""
        self.looks += 1
        return any(is_same_process(one, process) for one in self.running)
