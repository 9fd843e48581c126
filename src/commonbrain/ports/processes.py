"""The processes of this machine: which one calls, and whether one still runs."""

from typing import Protocol

from commonbrain.domain.session import Process


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
