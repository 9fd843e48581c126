"""The signals that end a server."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from threading import Timer, current_thread, main_thread
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import FrameType

_AGAIN_S: Final = 0.1
"""Seconds until a lost end is tried again; whatever lost it has returned by then."""


@contextmanager
def stopped_by_signals(status: int = 0) -> Generator[None]:
    """Let SIGTERM and SIGHUP, which a closed terminal sends, end every block inside.

    The process then ends with a status.

    The server catches SIGTERM while it drains and raises it again at the end: without this handler
    the process would end at once, and leave its files and child processes.
    """

    def stop(number: int, _frame: FrameType | None) -> None:
        """End every block; ignore further signals."""
        signal.signal(number, signal.SIG_IGN)
        sys.exit(status)

    def stop_again(lost: sys.UnraisableHookArgs) -> None:
        """Send the signal once more if it arrived where Python ignores what is raised.

        Such are finalizers and the callbacks of weak references, which run at any time.
        """
        if lost.exc_type is SystemExit and current_thread() is main_thread():
            signal.signal(signal.SIGTERM, stop)
            again = Timer(_AGAIN_S, os.kill, (os.getpid(), signal.SIGTERM))
            again.daemon = True
            again.start()
        else:
            shown(lost)

    handlers: dict[signal.Signals, Callable[[int, FrameType | None], None]]
    handlers = {signal.SIGTERM: stop}
    # Windows has no SIGHUP, and what nohup ignores stays ignored.
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        handlers[signal.SIGHUP] = _terminate
    before = {one: signal.signal(one, handler) for one, handler in handlers.items()}
    shown, sys.unraisablehook = sys.unraisablehook, stop_again
    try:
        yield
    finally:
        sys.unraisablehook = shown
        for one, handler in before.items():
            signal.signal(one, handler)


def _terminate(_signal_number: int, _frame: FrameType | None) -> None:
    """End as SIGTERM does, for which the server drains."""
    signal.raise_signal(signal.SIGTERM)
