"""Creates the telemetry of one server from its options; libraries load only when needed."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, Thread
from typing import Final, cast

from commonbrain.clock import Clock
from commonbrain.extras import load_extra, load_row
from commonbrain.model.errors import InvalidInputError
from commonbrain.observability.interface import (
    SILENT,
    Telemetry,
)
from commonbrain.observability.tool_events import ToolEvent

_NOTIFIER_LOG: Final = logging.getLogger(__name__)
_INTERVAL_MS: Final = 60_000.0
"""At most one notification a minute: a failing operation is often called repeatedly."""
_SERVER_ERROR: Final = 500


class DesktopNotifications(Telemetry):
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
            _NOTIFIER_LOG.debug("desktop notification failed: %s", type(error).__name__)


def _forwarding(name: str) -> Callable[..., None]:
    """Make a method that calls the one of this name of every receiver."""

    def forward(self: TelemetryDispatch, *values: object, **more: object) -> None:
        for receiver in self.receivers:
            getattr(receiver, name)(*values, **more)

    return forward


class TelemetryDispatch(Telemetry):
    """Forwards each event to several receivers.

    At most one creates spans and one exports metrics.
    """

    def __init__(
        self,
        receivers: Sequence[Telemetry],
        *,
        spans: Telemetry = SILENT,
        meters: Telemetry = SILENT,
    ) -> None:
        self._spans = spans
        self._meters = meters
        self.receivers = tuple(one for one in (spans, meters, *receivers) if one is not SILENT)

    @property
    def is_on(self) -> bool:
        """Whether any receiver wants pipeline metrics."""
        return any(one.is_on for one in self.receivers)

    def calling(self, tool: str, *, transport: str) -> AbstractContextManager[object]:
        """Open the span of a call."""
        return self._spans.calling(tool, transport=transport)

    called = _forwarding("called")
    remembered = _forwarding("remembered")
    recalled = _forwarding("recalled")
    voted = _forwarding("voted")
    turned_away = _forwarding("turned_away")
    queued = _forwarding("queued")
    worked = _forwarding("worked")
    modelled = _forwarding("modelled")
    read_from = _forwarding("read_from")
    close = _forwarding("close")

    def metrics(self) -> tuple[bytes, str]:
        """Return the metrics and their media type."""
        return self._meters.metrics()


_LOG: Final = logging.getLogger(__name__)
_ENDPOINT_VARIABLES: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""The standard variables that set the OTLP endpoint."""
_DISABLED_VARIABLE: Final = "OTEL_SDK_DISABLED"


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryOptions:
    """Which telemetry to enable."""

    log: Path | None = None
    """The log folder; None disables the log."""
    otlp_endpoint: str | None = None
    """OTLP endpoint, used when the standard variables are unset."""
    counts: bool = False
    """Whether to collect Prometheus metrics."""
    desktop_notifications: bool = False
    host: str = "127.0.0.1"
    port: int | None = None
    """Port of a separate page with the metrics."""


def make_telemetry(
    name: str, options: TelemetryOptions, *, clock: Clock, about: Mapping[str, str]
) -> Telemetry:
    """Create the telemetry of a server.

    Args:
        name: Name of the server and of its log file.
        options: Which telemetry to enable.
        clock: Limits the rate of notifications.
        about: Version and embedding space, reported with the metrics.

    Raises:
        InvalidInputError: A required library is not installed.

    """
    spans: Telemetry = SILENT
    meters: Telemetry = SILENT
    if wants_spans(options):
        try:
            spans = _exporter("spans")(options, about)
        except InvalidInputError as missing:
            if options.otlp_endpoint:
                raise
            # The variables of OpenTelemetry may be there for other programs.
            _LOG.warning("No traces are exported: %s", missing)
    if options.counts:
        meters = _exporter("meters")(options, about)
    receivers = list(_receivers(name, options, clock=clock))
    is_enabled = receivers or spans is not SILENT or meters is not SILENT
    return TelemetryDispatch(receivers, spans=spans, meters=meters) if is_enabled else SILENT


def _exporter(name: str) -> Callable[[TelemetryOptions, Mapping[str, str]], Telemetry]:
    """Load what makes an exporter, of which the server package has two."""
    return cast(
        "Callable[[TelemetryOptions, Mapping[str, str]], Telemetry]",
        load_row("telemetry", name, extra="server"),
    )


def wants_spans(options: TelemetryOptions) -> bool:
    """Whether an OTLP endpoint is configured."""
    is_off = os.environ.get(_DISABLED_VARIABLE, "").strip().lower() == "true"
    return not is_off and bool(
        options.otlp_endpoint or any(os.environ.get(name) for name in _ENDPOINT_VARIABLES)
    )


def _receivers(name: str, options: TelemetryOptions, *, clock: Clock) -> Iterator[Telemetry]:
    if options.log is not None:
        from commonbrain.observability.logs import ServerLog  # noqa: PLC0415 commands have no log

        try:
            yield ServerLog(options.log, name)
        except OSError as error:
            # A server that cannot write its log still serves.
            _LOG.warning("No log is written to %s: %s", options.log, error.strerror or error)
    if options.desktop_notifications:
        yield DesktopNotifications(clock)
