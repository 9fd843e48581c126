"""Functions that read foreign bytes run in a process of their own, with bounds.

A native parser may crash, loop or exhaust the memory on bytes made to harm; that ends this process
alone. It has the rights of its parent, so it is no sandbox.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from pkgutil import resolve_name
from queue import Empty, Queue
from threading import Thread
from traceback import extract_tb
from typing import TYPE_CHECKING, Final

from commonbrain.folders import temporary_folder
from commonbrain.model.errors import CommonbrainError, InvalidInputError, UnavailableError
from commonbrain.model.limits import CHILD_LINE_BYTES_MAX, ChildLimits

if TYPE_CHECKING:
    from typing import NoReturn

_START: Final = (
    "import json, sys; call = json.loads(sys.stdin.buffer.readline()); "
    "sys.path[:] = call.pop('path'); from commonbrain.child_process import serve; serve(**call)"
)
_VALUE, _ERROR, _FAULT, _END = b"v", b"e", b"f", b"."
"""What a line from the child holds by its first byte; the last three end the output."""
_MEMORY_FAULT: Final = _FAULT + b'"memory"'
_POLL_S: Final = 0.5
"""How often a waiting parent asks whether it may go on."""
_LINES_AHEAD: Final = 4
"""Lines that wait in memory for their reader, each as long as it may be, while the child waits."""


class ChildFailedError(Exception):
    """The child ended before its function did; the message says why, as the end of a sentence."""

    def __init__(self, reason: str, *, is_over_limit: bool = False) -> None:
        super().__init__(reason)
        self.is_over_limit = is_over_limit
        """Whether it ended for what it took, as opposed to a crash."""


@contextmanager
def run_in_child(
    function: str,
    arguments: Mapping[str, object],
    *,
    limits: ChildLimits,
    check: Callable[[], None] = lambda: None,
) -> Generator[Iterator[bytes]]:
    """Call a generator function in a child process and yield an iterator of what it yields.

    Args:
        function: its full name, as `package.module:function`.
        arguments: by name, as JSON has them.
        limits: what the child may take.
        check: called twice a second while the iterator waits; may raise to stop.

    The iterator gives lines of bytes of at most `CHILD_LINE_BYTES_MAX` without their end, to be
    checked like any foreign input. The child and its temporary files end with the block. The
    iterator raises the function's `InvalidInputError` or `UnavailableError`, and `ChildFailedError`
    if the child dies, exceeds a limit or has another fault.

    Raises:
        UnavailableError: `io_error`, no process could be started.

    """
    call = {
        "path": [one or os.getcwd() for one in sys.path],  # noqa: PTH109 a string
        "function": function,
        "arguments": arguments,
        "memory_bytes_max": limits.memory_bytes_max,
        "silence_s_max": limits.silence_s_max,
    }
    with temporary_folder() as scratch, _started(scratch) as process:
        child = _Child(process=process, limits=limits, check=check)
        try:
            # One that cannot be written to has died, which its output says.
            with suppress(OSError):
                child.send(json.dumps(call).encode() + b"\n")
            child.reader.start()
            yield child.values()
        finally:
            child.end()


@contextmanager
def _started(scratch: Path) -> Generator[subprocess.Popen[bytes]]:
    folders = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(scratch))
    try:
        process = subprocess.Popen(  # noqa: S603 our own program and arguments
            # Without -P, a folder in the project with our name would run instead.
            [sys.executable, "-P", "-c", _START],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **folders},
        )
    except OSError as error:
        raise UnavailableError(
            f"No process could be started to read foreign data: {error}.",
            code="io_error",
            hint="Retry when the machine has memory and processes to spare.",
        ) from error
    with process:
        yield process


@dataclass(slots=True, kw_only=True)
class _Child:
    """A running child, and a thread that reads its output ahead."""

    process: subprocess.Popen[bytes]
    limits: ChildLimits
    check: Callable[[], None]
    lines: Queue[bytes] = field(default_factory=lambda: Queue(_LINES_AHEAD))
    reader: Thread = field(init=False)

    def __post_init__(self) -> None:
        """Make the thread."""
        self.reader = Thread(target=self._read, daemon=True)

    def send(self, line: bytes) -> None:
        """Write to the input of the child, which stays open: the child ends when it is closed."""
        rest = memoryview(line)
        while self.process.stdin and rest:
            rest = rest[os.write(self.process.stdin.fileno(), rest) :]

    def end(self) -> None:
        """End the child, and the thread that may wait for a free place."""
        self.process.kill()
        while self.reader.is_alive():
            with suppress(Empty):
                self.lines.get(timeout=_POLL_S)

    def values(self) -> Iterator[bytes]:
        """Yield the values, see `run_in_child`."""
        while True:
            line = self._next_line()
            kind, content = line[:1], line[1:-1]
            if not line.endswith(b"\n"):
                raise _too_long() if len(line) > CHILD_LINE_BYTES_MAX else self._death()
            if kind == _VALUE:
                yield content
            elif kind == _END:
                return
            elif kind == _ERROR:
                raise _error(json.loads(content))
            elif line[:-1] == _MEMORY_FAULT:
                raise _out_of_memory(self.limits)
            else:
                raise ChildFailedError(
                    f"the process that reads it failed with {json.loads(content)[:200]}"
                )

    def _read(self) -> None:
        """Queue the lines, and their end; a line that is too long ends them."""
        line = b"\n"
        while self.process.stdout and line.endswith(b"\n"):
            line = self.process.stdout.readline(CHILD_LINE_BYTES_MAX + 2)
            self.lines.put(line)

    def _next_line(self) -> bytes:
        """Return the next line; nothing at the end."""
        until = time.monotonic() + self.limits.silence_s_max
        while True:
            is_read = not self.reader.is_alive()
            with suppress(Empty):
                return self.lines.get(timeout=min(_POLL_S, self.limits.silence_s_max))
            if is_read:
                return b""
            self.check()
            if time.monotonic() > until:
                raise _silent(self.limits)

    def _death(self) -> ChildFailedError:
        status = self.process.wait()
        if sys.platform != "win32" and status == -signal.SIGXCPU:
            return _silent(self.limits)
        if status >= 0:
            return ChildFailedError(f"the process that reads it ended with status {status}")
        name = next((one.name for one in signal.Signals if one == -status), f"signal {-status}")
        return ChildFailedError(f"the process that reads it was ended by {name}")


def _error(given: Mapping[str, str]) -> CommonbrainError:
    type_ = UnavailableError if given["type"] == UnavailableError.__name__ else InvalidInputError
    return type_(given["message"], code=given["code"], hint=given["hint"])


def _silent(limits: ChildLimits) -> ChildFailedError:
    return ChildFailedError(
        f"the process that reads it gave nothing for {limits.silence_s_max:g} s", is_over_limit=True
    )


def _too_long() -> ChildFailedError:
    return ChildFailedError(
        f"the process that reads it gave a value of more than {CHILD_LINE_BYTES_MAX:,} bytes",
        is_over_limit=True,
    )


def _out_of_memory(limits: ChildLimits) -> ChildFailedError:
    megabytes = limits.memory_bytes_max // 2**20
    return ChildFailedError(
        f"the process that reads it needs more than {megabytes:,} MiB of memory", is_over_limit=True
    )


def serve(
    function: str,
    arguments: Mapping[str, object],
    *,
    memory_bytes_max: int,
    silence_s_max: float,
) -> NoReturn:
    """Call a function in this process, the child, and write what it yields; end the process."""
    # An interrupt is for the parent, which then ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()
    # What a parser prints is no line of ours.
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    _limit_memory(memory_bytes_max)
    try:
        _limit_time(silence_s_max)
        for value in resolve_name(function)(**arguments):
            output.write(_VALUE + value + b"\n")
            output.flush()
            _limit_time(silence_s_max)
        last = _END
    except CommonbrainError as error:
        fields = {"type": type(error).__name__, "code": error.code}
        texts = {"message": error.message, "hint": error.hint}
        last = _ERROR + json.dumps({**fields, **texts}).encode()
    except MemoryError:
        last = _MEMORY_FAULT
    except BaseException as error:  # noqa: BLE001 whatever a parser meets, panics of Rust too
        at = extract_tb(error.__traceback__)[-1]
        cause = f"{type(error).__name__}: {error} ({Path(at.filename).name}, line {at.lineno})"
        last = _FAULT + json.dumps(cause).encode()
    # Here an error no longer holds the memory of what raised it.
    output.write(last + b"\n")
    output.flush()
    os._exit(0)


def _end_with_parent() -> NoReturn:
    os.read(0, 1)
    os._exit(1)


def _limit_memory(bytes_max: int) -> None:
    """Limit the address space where the system has such a limit, and be the first to be killed."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    with suppress(ImportError, OSError, ValueError):
        import resource  # noqa: PLC0415 not on Windows

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (bytes_max, bytes_max))


def _limit_time(seconds: float) -> None:
    """Let this process use the processor for so many seconds from now on, in whole ones."""
    with suppress(ImportError, OSError, ValueError):
        import resource  # noqa: PLC0415 not on Windows

        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time() + seconds) + 1, most))
