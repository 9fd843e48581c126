"""A socket next to a store, by which other processes use one that already serves it.

A request is one JSON object on a line. Most get one answer; one that names a `stream` keeps the
connection, if the server has that stream. Imports must be fast: a hook connects before anything
else.
Processes meet only on the same machine, under the same user, with the same program and settings;
all others work without it.
"""

import json
import os
import socket
import stat
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import BoundedSemaphore, Condition, Event, Thread
from time import monotonic, sleep
from typing import IO, Any, Final, cast

import commonbrain
from commonbrain.folders import name_digest
from commonbrain.model.values import dataclass, field

JsonObject = Mapping[str, Any]
Stream = Callable[[JsonObject, socket.socket], None]
"""Serves a connection that stays open, in a thread of its own, until either side closes it."""

STREAMS_MAX: Final = 32
"""Connections that stay open; further ones are refused. Each has a few threads."""
_BYTES_MAX: Final = 4_194_304
"""A request or answer is at most this long."""
_ANSWERS_AT_ONCE: Final = 4
"""Concurrent requests; further ones are refused."""
_GREETING: Final = b"\x06"
"""Sent at once, so that callers do not wait for a process that hangs."""
_REFUSAL: Final = b"\x15"
_GREETING_S: Final = 0.5
"""Four times what a process took that loaded its model among eight busy ones, 0.13 s; one that
hangs never greets."""
_REQUEST_S: Final = 5.0
"""A process that does not send its request within this time is disconnected."""
_PATH_BYTES_MAX: Final = 100
"""macOS accepts 104 bytes, Linux 108; the socket of a longer path, or of a URL, is in `/tmp`."""
_BACKLOG: Final = 16
_CLOSE_S: Final = 1.0
_RETRY_S: Final = 0.1
_FOLDER_MODE: Final = 0o700
_FILE_MODE: Final = 0o600
_OF_SERVERS: Final = "COMMONBRAIN_SERVE_"
_OF_CALLERS: Final = frozenset(
    {
        "COMMONBRAIN_AGENT",
        "COMMONBRAIN_AS_OWNER",
        "COMMONBRAIN_HOOKS",
        "COMMONBRAIN_HOOK_EDIT_TIMEOUT_S",
        "COMMONBRAIN_HOOK_PROMPT_TIMEOUT_S",
        "COMMONBRAIN_HOOK_START_TIMEOUT_S",
        "COMMONBRAIN_HOOK_WRITE_TIMEOUT_S",
        "COMMONBRAIN_KEY",
        "COMMONBRAIN_MCP_PROFILE",
        "COMMONBRAIN_MCP_SHARED",
        "COMMONBRAIN_SESSION",
        "COMMONBRAIN_STORE",
    }
)
"""Settings that may differ: the store names the folder, and callers apply the others themselves."""


def socket_path(store: Path | str, environment: Mapping[str, str]) -> Path | None:
    """Return the socket of a store in a file or at a URL; None if the system has none that suits.

    Its name depends on the machine, the program and the settings, so that processes that would
    answer differently do not meet. Of a URL it has a digest alone, with the password: who gives
    another one does not meet a process that opened the store.
    """
    is_clear = all(name == name.upper() for name in environment if _is_setting(name))
    if sys.platform == "win32" or not (hasattr(socket, "AF_UNIX") and is_clear):
        return None
    settings = sorted(
        (name, value)
        for name, value in environment.items()
        if _is_setting(name) and not name.startswith(_OF_SERVERS) and name not in _OF_CALLERS
    )
    file = None if isinstance(store, str) else Path(os.path.realpath(store.expanduser()))
    named = repr((str(file or store), os.uname().nodename, os.getuid(), _program(), settings))
    name = name_digest(named, chars=12)
    if file is not None:
        path = file.with_name(f".{file.name}.local") / name
        if len(os.fsencode(path)) <= _PATH_BYTES_MAX:
            return path
    # Not the folder of TMPDIR, which clients change for what they start.
    return Path("/tmp") / f"commonbrain-{os.getuid()}" / name  # noqa: S108 its rights are checked


def _is_setting(name: str) -> bool:
    """Return whether a variable is a setting; their names are read in any case."""
    return name.upper().startswith("COMMONBRAIN_")


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

    A process that hangs takes half of the time: the rest is for the caller to do it alone. A
    request that was sent may be carried out all the same, so a caller repeats only what may run
    twice; `on_sent` is called before it is sent.
    """
    until = monotonic() + timeout_s
    try:
        with _connect(path, timeout_s=min(timeout_s / 2, _GREETING_S)) as connection:
            connection.settimeout(max(0.01, until - monotonic()))
            if on_sent is not None:
                on_sent()
            connection.sendall(json.dumps(request).encode())
            connection.shutdown(socket.SHUT_WR)
            return _read(connection, until=until)
    except OSError:
        return None


class StreamRefusedError(Exception):
    """A process serves the store, but no further connection of this kind."""


def open_stream(path: Path, request: JsonObject, *, timeout_s: float) -> socket.socket | None:
    """Open a connection that stays open; None if no process answers in time.

    Raises:
        StreamRefusedError: the process does not serve such connections, or no more of them.

    """
    try:
        connection = _connect(path, timeout_s=timeout_s)
    except OSError:
        return None
    try:
        connection.sendall(json.dumps(request).encode() + b"\n")
        reply = connection.recv(1)
        connection.settimeout(None)
    except OSError:
        reply = b""
    if reply == _GREETING:
        return connection
    connection.close()
    if reply:
        raise StreamRefusedError
    return None


def is_responsive(path: Path, *, timeout_s: float) -> bool:
    """Return whether the process behind a socket is running, busy or not, rather than stopped."""
    until = monotonic() + timeout_s
    while True:
        try:
            _connect(path, timeout_s=max(0.01, until - monotonic())).close()
        except ConnectionAbortedError:
            return True
        except BlockingIOError:
            # More processes are connecting than its queue takes.
            if monotonic() >= until:
                return False
            sleep(_RETRY_S)
        except OSError:
            return False
        else:
            return True


def _connect(path: Path, *, timeout_s: float) -> socket.socket:
    """Connect and wait for the greeting.

    Raises:
        ConnectionAbortedError: the process is too busy.
        OSError: no process of this user answers.

    """
    if not _is_own(path):
        raise FileNotFoundError(path)
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(timeout_s)
        connection.connect(str(path))
        if connection.recv(1) != _GREETING:
            raise ConnectionAbortedError(path)
    except OSError:
        connection.close()
        raise
    return connection


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
    """Read one object up to the end of its line, or of the stream."""
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
        if part.endswith(b"\n"):
            break
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
    answer: Callable[[JsonObject], JsonObject] | None = None
    """Called in several threads at once. If it raises, the connection closes without an answer.

    None until the process can answer; callers get an empty object and open the store themselves.
    """
    streams: Mapping[str, Stream] = field(default_factory=dict[str, Stream])
    """Serves connections that stay open, by the `stream` that their request names."""
    is_ready: Event = field(default_factory=Event)
    """Set while this process answers."""
    thread: Thread | None = None
    _is_closed: Event = field(default_factory=Event)
    _listener: socket.socket | None = None
    _free: BoundedSemaphore = field(default_factory=lambda: BoundedSemaphore(_ANSWERS_AT_ONCE))
    _open: set[socket.socket] = field(default_factory=set[socket.socket])
    """The connections that stay open."""
    _has_changed: Condition = field(default_factory=Condition)

    def start(self) -> None:
        """Start in the background; where the system refuses, nothing answers."""
        self.thread = Thread(target=self._run, daemon=True, name="local-socket")
        self.thread.start()

    def start_if_free(self) -> bool:
        """Start at once, unless another process answers; return whether this one does.

        Raises:
            OSError: the system refuses such a socket.

        """
        lock = self._open_lock()
        try:
            lock_file(lock, waits=False)
            self._listen()
        except BlockingIOError:
            lock.close()
            return False
        except OSError:
            lock.close()
            raise
        self.thread = Thread(target=self._serve, args=(lock,), daemon=True, name="local-socket")
        self.thread.start()
        return True

    def close(self) -> None:
        """Stop answering, and let the next process take over.

        Requests and calls that have begun have a second to finish.
        """
        self._is_closed.set()
        listener = self._listener
        if listener is not None and self.thread is not None:
            # Either wakes the thread that accepts connections: the first on Linux, where it makes
            # the second fail, the second on macOS.
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            with suppress(OSError):
                _connect(self.path, timeout_s=0.0).close()
            self.thread.join(_CLOSE_S)
        with self._has_changed:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RD)
            self._has_changed.wait_for(lambda: not self._open, _CLOSE_S)
        until = monotonic() + _CLOSE_S
        # All are free once no request is being answered.
        free = [
            self._free.acquire(timeout=max(0.0, until - monotonic()))
            for _ in range(_ANSWERS_AT_ONCE)
        ]
        if any(free):
            self._free.release(free.count(True))

    def _open_lock(self) -> IO[bytes]:
        self.path.parent.mkdir(mode=_FOLDER_MODE, exist_ok=True)
        if not _is_private(self.path.parent):
            raise PermissionError(self.path.parent)
        return open(f"{self.path}.lock", "ab", opener=_opened_for_owner)

    def _run(self) -> None:
        with suppress(OSError):
            lock = self._open_lock()
            try:
                # Waits until the process that answers ends.
                lock_file(lock, waits=True)
                if not self._is_closed.is_set():
                    self._listen()
                    self._serve(lock)
            finally:
                lock.close()

    def _listen(self) -> None:
        """Listen at the socket; only called with the lock."""
        self.path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        try:
            listener.bind(str(self.path))
            self.path.chmod(_FILE_MODE)
            listener.listen(_BACKLOG)
        except OSError:
            listener.close()
            raise
        self._listener = listener
        self.is_ready.set()

    def _serve(self, lock: IO[bytes]) -> None:
        """Accept connections until this is closed; then release the lock."""
        listener = self._listener
        try:
            if listener is not None:
                with listener:
                    self._accept_all(listener)
        finally:
            self._listener = None
            self.is_ready.clear()
            self.path.unlink(missing_ok=True)
            lock.close()

    def _accept_all(self, listener: socket.socket) -> None:
        while not self._is_closed.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                # Such as too many open files; unless the server was closed, they get fewer.
                self._is_closed.wait(_RETRY_S)
                continue
            if not self._is_closed.is_set() and self._free.acquire(blocking=False):
                Thread(target=self._converse, args=(connection,), daemon=True).start()
            else:
                # The caller opens the store itself.
                connection.close()

    def _converse(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            try:
                connection.settimeout(_REQUEST_S)
                connection.sendall(_GREETING)
                request = _read(connection, until=monotonic() + _REQUEST_S)
                is_stream = request is not None and "stream" in request
                if request is not None and not is_stream:
                    answer: JsonObject = self.answer(request) if self.answer is not None else {}
                    connection.settimeout(_REQUEST_S)
                    connection.sendall(json.dumps(answer).encode())
            finally:
                self._free.release()
            if request is not None and is_stream:
                self._serve_stream(connection, request)

    def _serve_stream(self, connection: socket.socket, request: JsonObject) -> None:
        """Serve a connection that stays open, or refuse it."""
        stream = self.streams.get(str(request["stream"]))
        with self._has_changed:
            is_admitted = stream is not None and len(self._open) < STREAMS_MAX
            if is_admitted and not self._is_closed.is_set():
                self._open.add(connection)
        if self._is_closed.is_set():
            # The next server serves it.
            return
        if stream is None or not is_admitted:
            connection.sendall(_REFUSAL)
            return
        try:
            connection.sendall(_GREETING)
            connection.settimeout(None)
            stream(request, connection)
        finally:
            with self._has_changed:
                self._open.discard(connection)
                self._has_changed.notify_all()


def lock_file(file: IO[bytes] | int, *, waits: bool) -> None:
    """Lock a file until it is closed.

    Raises:
        BlockingIOError: another process has locked it.

    """
    if sys.platform != "win32":
        import fcntl  # noqa: PLC0415 Windows has none

        fcntl.flock(file, fcntl.LOCK_EX if waits else fcntl.LOCK_EX | fcntl.LOCK_NB)


def _opened_for_owner(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, mode=_FILE_MODE)
