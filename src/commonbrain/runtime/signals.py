"""The signals that end a server."""

import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stopped_by_signals(status: int = 0) -> Generator[None]:
    """Let SIGTERM and SIGHUP, which a closed terminal sends, end every block inside.

    The process then ends with a status.

    The server catches SIGTERM while it drains and raises it again at the end: without this handler
    the process would end at once, and leave its files and child processes.
    """
    handlers: dict[signal.Signals, Callable[[int, FrameType | None], None]]
    handlers = {signal.SIGTERM: lambda number, _frame: _stop(number, status=status)}
    # Windows has no SIGHUP, and what nohup ignores stays ignored.
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        handlers[signal.SIGHUP] = _terminate
    before = {one: signal.signal(one, handler) for one, handler in handlers.items()}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _stop(signal_number: int, *, status: int) -> None:
    """End every block; ignore further signals."""
    signal.signal(signal_number, signal.SIG_IGN)
    sys.exit(status)


def _terminate(_signal_number: int, _frame: FrameType | None) -> None:
    """End as SIGTERM does, for which the server drains."""
    signal.raise_signal(signal.SIGTERM)
