"""The signals that end a server."""

import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stopped_by_signals() -> Generator[None]:
    """Let SIGTERM end every block inside, before the server listens and after it.

    The server catches the signal while it drains and raises it again at the end: without this
    handler the process would end at once, and leave its files and child processes.
    """
    before = signal.signal(signal.SIGTERM, _stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _stop(signal_number: int, _frame: FrameType | None) -> None:
    """End every block; ignore further signals."""
    signal.signal(signal_number, signal.SIG_IGN)
    sys.exit(0)
