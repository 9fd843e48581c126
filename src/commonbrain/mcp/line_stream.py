"""The lines of a connection between two processes, as a server reads and writes them."""

import asyncio
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Self

from commonbrain.mcp.replay import LINE_BYTES_MAX

_HEADER_BYTES: Final = 32
"""More than a number and its mark."""


@dataclass(slots=True)
class LineStream:
    """Reads and writes lines; some may be put back, and a read may be given up."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    _returned: list[bytes] = field(default_factory=list[bytes])
    _pending: asyncio.Task[bytes] | None = None

    @classmethod
    async def open(cls, connection: socket.socket) -> Self:
        """Read and write a connection in the current loop."""
        limit = LINE_BYTES_MAX + _HEADER_BYTES
        return cls(*await asyncio.open_unix_connection(sock=connection, limit=limit))

    async def read(self) -> bytes:
        """Return the next line; empty at the end."""
        if self._returned:
            return self._returned.pop(0)
        pending, self._pending = self._pending, None
        # A connection that breaks ends like one that is closed.
        with suppress(OSError):
            return await (pending or self.reader.readline())
        return b""

    async def read_until(self, over: asyncio.Future[Any]) -> bytes | None:
        """Return the next line; None if a future is done first."""
        if over.done():
            return None
        if self._pending is None:
            self._pending = asyncio.ensure_future(self.reader.readline())
        await asyncio.wait({self._pending, over}, return_when=asyncio.FIRST_COMPLETED)
        return await self.read() if self._pending.done() else None

    def put_back(self, lines: list[bytes]) -> None:
        """Let the next reads return lines that were read."""
        self._returned[:0] = lines

    def send(self, line: bytes) -> None:
        """Write a line with its end soon, unless the peer left."""
        if not self.writer.is_closing():
            self.writer.write(line)

    async def write(self, line: bytes) -> None:
        """Write a line with its end; waits for a peer that reads slowly, not for one that left."""
        self.send(line)
        with suppress(OSError):
            await self.writer.drain()
