"""A socket next to a store, by which short processes ask one that already serves it.

Imports must be fast: a hook connects before anything else. Processes meet only on the same
machine, under the same user, with the same program and settings; all others work without it.
"""

import hashlib
import json
import os
import platform
import socket
import stat
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import BoundedSemaphore, Event, Thread
from time import monotonic
from typing import Any, Final, cast

import commonbrain

JsonObject = Mapping[str, Any]

_BYTES_MAX: Final = 4_194_304
"""A request or answer is at most this long."""
_ANSWERS_AT_ONCE: Final = 4
"""Concurrent requests; further ones are refused."""
_GREETING: Final = b"\x06"
"""Sent at once, so that a process that hangs is not waited for."""
_GREETING_S: Final = 0.25
_REQUEST_S: Final = 5.0
"""A process that does not send its request within this time is disconnected."""
_PATH_BYTES_MAX: Final = 100
"""macOS accepts 104 bytes, Linux 108; the socket of a longer path is in `/tmp`."""
_BACKLOG: Final = 16
_CLOSE_S: Final = 1.0
_RETRY_S: Final = 0.1
_FOLDER_MODE: Final = 0o700
_FILE_MODE: Final = 0o600
_OF_SERVERS: Final = "COMMONBRAIN_SERVE_"
_OF_CALLERS: Final = frozenset(
    {
        "COMMONBRAIN_AGENT",
        "COMMONBRAIN_HOOKS",
        "COMMONBRAIN_HOOK_EDIT_TIMEOUT_S",
        "COMMONBRAIN_HOOK_PROMPT_TIMEOUT_S",
        "COMMONBRAIN_HOOK_START_TIMEOUT_S",
        "COMMONBRAIN_HOOK_WRITE_TIMEOUT_S",
        "COMMONBRAIN_KEY",
        "COMMONBRAIN_MCP_PROFILE",
        "COMMONBRAIN_SESSION",
        "COMMONBRAIN_STORE",
    }
)
"""Settings that may differ: the store names the folder, and callers apply the others themselves."""


def socket_path(store: Path, environment: Mapping[str, str]) -> Path | None:
    """Return the socket of a store in a file; None if the system has none that suits.

    Its name depends on the machine, the program and the settings, so that processes that would
    answer differently do not meet.
    """
    if sys.platform == "win32" or not hasattr(socket, "AF_UNIX"):
        return None
    settings = sorted(
        (name, value)
        for name, value in environment.items()
        if name.startswith("COMMONBRAIN_")
        and not name.startswith(_OF_SERVERS)
        and name not in _OF_CALLERS
    )
    file = Path(os.path.realpath(store.expanduser()))
    named = repr((str(file), platform.node(), os.getuid(), _program(), settings))
    name = hashlib.sha256(named.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    path = file.with_name(f".{file.name}.local") / name
    if len(os.fsencode(path)) <= _PATH_BYTES_MAX:
        return path
    # Not the folder of TMPDIR, which clients change for what they start.
    return Path("/tmp") / f"commonbrain-{os.getuid()}" / name  # noqa: S108 its rights are checked


def _program() -> tuple[object, ...]:
    """Return the installed program: another version or installation differs."""
    package = Path(commonbrain.__file__)
    versions = sorted(one.name for one in package.parent.parent.glob("commonbrain-*.dist-info"))
    return str(package), package.stat().st_mtime_ns, versions


def ask(
    path: Path,
    request: JsonObject,
    *,
    timeout_s: float,
    on_sent: Callable[[], None] | None = None,
) -> JsonObject | None:
    """Send a request to the process behind a socket; None if none answers in time.

    A request that was sent may be carried out all the same, so a caller repeats only what may run
    twice; `on_sent` is called before it is sent.
    """
    until = monotonic() + timeout_s
    if not _is_own(path):
        return None
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(min(timeout_s, _GREETING_S))
            connection.connect(str(path))
            if connection.recv(1) != _GREETING:
                return None
            connection.settimeout(max(0.01, until - monotonic()))
            if on_sent is not None:
                on_sent()
            connection.sendall(json.dumps(request).encode())
            connection.shutdown(socket.SHUT_WR)
            return _read(connection, until=until)
    except OSError:
        return None


def _is_own(path: Path) -> bool:
    """Return whether nobody else can answer there."""
    try:
        return _is_private(path.parent) and path.lstat().st_uid == os.getuid()
    except OSError:
        return False


def _is_private(folder: Path) -> bool:
    about = folder.lstat()
    return stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid() and not about.st_mode & 0o077


def _read(connection: socket.socket, *, until: float) -> JsonObject | None:
    """Read one object up to the end of the stream."""
    parts: list[bytes] = []
    size = 0
    while True:
        connection.settimeout(max(0.01, until - monotonic()))
        part = connection.recv(65_536)
        if not part:
            break
        parts.append(part)
        size += len(part)
        if size > _BYTES_MAX:
            return None
    try:
        answer = json.loads(b"".join(parts))
    except ValueError:
        return None
    return cast("JsonObject", answer) if isinstance(answer, dict) else None


@dataclass(slots=True)
class LocalServer:
    """Answers at a store's socket until it is closed or its process ends.

    Of several processes of a store one answers; the next takes its place when it ends, however it
    ends: it holds a lock that the system releases. No request keeps a process from ending.
    """

    path: Path
    answer: Callable[[JsonObject], JsonObject]
    """Called in several threads at once; after an error, the one who asked gets no answer."""
    is_ready: Event = field(default_factory=Event)
    """Set while this process answers."""
    thread: Thread = field(init=False)
    _is_closed: Event = field(default_factory=Event)
    _listener: socket.socket | None = None
    _free: BoundedSemaphore = field(default_factory=lambda: BoundedSemaphore(_ANSWERS_AT_ONCE))

    def start(self) -> None:
        """Start in the background; where the system refuses, nothing answers."""
        self.thread = Thread(target=self._run, daemon=True, name="local-socket")
        self.thread.start()

    def close(self) -> None:
        """Stop answering, and let the next process take over."""
        self._is_closed.set()
        listener = self._listener
        if listener is not None:
            with suppress(OSError):
                # Wakes the thread that accepts connections.
                listener.shutdown(socket.SHUT_RDWR)
            self.thread.join(_CLOSE_S)

    def _run(self) -> None:
        if sys.platform == "win32":
            return
        import fcntl  # noqa: PLC0415 Windows has none

        with suppress(OSError):
            self.path.parent.mkdir(mode=_FOLDER_MODE, exist_ok=True)
            if not _is_private(self.path.parent):
                return
            with open(f"{self.path}.lock", "ab", opener=_opened_for_owner) as lock:
                # Waits until the process that answers ends.
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not self._is_closed.is_set():
                    self._serve()

    def _serve(self) -> None:
        """Accept connections; only called with the lock."""
        self.path.unlink(missing_ok=True)
        try:
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(self.path))
                self.path.chmod(_FILE_MODE)
                listener.listen(_BACKLOG)
                self._listener = listener
                self.is_ready.set()
                self._accept_all(listener)
        finally:
            self._listener = None
            self.is_ready.clear()
            self.path.unlink(missing_ok=True)

    def _accept_all(self, listener: socket.socket) -> None:
        while not self._is_closed.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                # Such as too many open files; unless the server was closed, they get fewer.
                self._is_closed.wait(_RETRY_S)
                continue
            if self._free.acquire(blocking=False):
                Thread(target=self._converse, args=(connection,), daemon=True).start()
            else:
                # The one who asks does without.
                connection.close()

    def _converse(self, connection: socket.socket) -> None:
        try:
            with connection, suppress(OSError):
                connection.settimeout(_REQUEST_S)
                connection.sendall(_GREETING)
                request = _read(connection, until=monotonic() + _REQUEST_S)
                if request is not None:
                    answer = json.dumps(self.answer(request)).encode()
                    connection.settimeout(_REQUEST_S)
                    connection.sendall(answer)
        finally:
            self._free.release()


def _opened_for_owner(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, mode=_FILE_MODE)
