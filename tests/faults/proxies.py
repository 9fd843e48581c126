"""A stretch of network of a test's own: it goes silent while it still takes every packet."""

import socket
from contextlib import suppress
from dataclasses import dataclass, field
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Event, Thread
from types import TracebackType
from typing import Self

_PIECE = 65536


@dataclass(slots=True)
class Line:
    """Whether what arrives is passed on."""

    is_black: Event = field(default_factory=Event)


class Proxy(ThreadingTCPServer):
    """Passes bytes on to a server; once black, it acknowledges them and passes nothing on."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, host: str, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Passing)
        self.to = (host, port)
        self.line = Line()
        self._thread = Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def port(self) -> int:
        return self.socket.getsockname()[1]

    def go_black(self) -> None:
        """Pass on nothing more of any connection there is; only new ones after `go_on`."""
        self.line.is_black.set()

    def go_on(self) -> None:
        """Serve new connections again; those before stay black for ever."""
        self.line = Line()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Passing(BaseRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, Proxy)
        line = self.server.line
        with socket.create_connection(self.server.to) as there:
            Thread(target=_pass_on, args=(there, self.request, line), daemon=True).start()
            _pass_on(self.request, there, line)


def _pass_on(taken: socket.socket, given: socket.socket, line: Line) -> None:
    with suppress(OSError):
        while piece := taken.recv(_PIECE):
            if not line.is_black.is_set():
                given.sendall(piece)
        given.shutdown(socket.SHUT_WR)
