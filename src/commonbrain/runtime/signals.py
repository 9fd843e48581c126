"""The signals that end a server."""

import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_ENDING: Final = (signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []))
"""Windows has no terminal that hangs up."""


@contextmanager
def stopped_by_signals() -> Generator[None]:
    """Let SIGTERM, and the end of the terminal, end every block inside, whenever they come.

    The server catches the signal while it drains and raises it again at the end: without this
    handler the process would end at once, and leave its files and child processes.
    """
    # What nohup ignores stays ignored.
    heeded = [one for one in _ENDING if signal.getsignal(one) is not signal.SIG_IGN]
    before = {one: signal.signal(one, _stop) for one in heeded}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _stop(signal_number: int, _frame: FrameType | None) -> None:
    """End every block; ignore further signals."""
    signal.signal(signal_number, signal.SIG_IGN)
    sys.exit(0)
