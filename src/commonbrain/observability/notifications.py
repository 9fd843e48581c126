"""A notice on the desktop that something broke, for who wants that."""

from __future__ import annotations

import asyncio
import logging
from threading import Lock, Thread
from typing import Final

from commonbrain.clock import Clock
from commonbrain.extras import load_extra
from commonbrain.observability.interface import NoTelemetry
from commonbrain.observability.tool_events import ToolEvent

_LOG: Final = logging.getLogger(__name__)
_APART_MS: Final = 60_000.0
"""At most one a minute: what is broken is often called again and again."""
_BROKEN: Final = 500


class DesktopNotifications(NoTelemetry):
    """Tells of errors of ours and of what is away, never of what its caller has to mend."""

    def __init__(self, clock: Clock) -> None:
        """Load what shows notices.

        Raises:
            InvalidInputError: it is not installed.

        """
        self._shown = load_extra("desktop_notifier", extra="notifications").DesktopNotifier(
            app_name="Commonbrain"
        )
        self._clock = clock
        self._last_ms: float | None = None
        self._lock = Lock()
        self._thread: Thread | None = None

    def called(self, event: ToolEvent, *, http_status: int) -> None:
        """Show one unless there was one a moment ago; nobody waits for it."""
        if http_status < _BROKEN:
            return
        with self._lock:
            now_ms = self._clock.elapsed_ms()
            if self._last_ms is not None and now_ms - self._last_ms < _APART_MS:
                return
            self._last_ms = now_ms
        self._thread = Thread(target=self._show, args=(event,), daemon=True, name="notice")
        self._thread.start()

    def join(self) -> None:
        """Wait for the one that is being shown."""
        if self._thread is not None:
            self._thread.join()

    def _show(self, event: ToolEvent) -> None:
        message = f"{event.tool} failed: {event.outcome}. See: brain status --errors 10"
        try:
            asyncio.run(self._shown.send(title="Commonbrain", message=message))
        except Exception as error:  # noqa: BLE001 a desktop may lack anything
            _LOG.debug("no notice was shown: %s", type(error).__name__)
