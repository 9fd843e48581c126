"""Desktop notifications of server errors."""

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
_INTERVAL_MS: Final = 60_000.0
"""At most one notification a minute: a failing operation is often called repeatedly."""
_SERVER_ERROR: Final = 500


class DesktopNotifications(NoTelemetry):
    """Notifies of server errors and unavailable services, not of invalid input."""

    def __init__(self, clock: Clock) -> None:
        """Load the notification library.

        Raises:
            InvalidInputError: The library is not installed.

        """
        self._notifier = load_extra("desktop_notifier", extra="notifications").DesktopNotifier(
            app_name="Commonbrain"
        )
        self._clock = clock
        self._last_ms: float | None = None
        self._lock = Lock()
        self._thread: Thread | None = None

    def called(self, event: ToolEvent, *, http_status: int) -> None:
        """Show a notification in a thread, unless one was shown within the last minute."""
        if http_status < _SERVER_ERROR:
            return
        with self._lock:
            now_ms = self._clock.elapsed_ms()
            if self._last_ms is not None and now_ms - self._last_ms < _INTERVAL_MS:
                return
            self._last_ms = now_ms
        self._thread = Thread(target=self._show, args=(event,), daemon=True, name="notification")
        self._thread.start()

    def join(self) -> None:
        """Wait for a notification in progress."""
        if self._thread is not None:
            self._thread.join()

    def _show(self, event: ToolEvent) -> None:
        message = f"{event.tool} failed: {event.outcome}. See: brain status --errors 10"
        try:
            asyncio.run(self._notifier.send(title="Commonbrain", message=message))
        except Exception as error:  # noqa: BLE001 desktops differ
            _LOG.debug("desktop notification failed: %s", type(error).__name__)
