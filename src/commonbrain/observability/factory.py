"""Creates the telemetry of one server from its options; libraries load only when needed."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from commonbrain.clock import Clock
from commonbrain.extras import load_extra
from commonbrain.model.errors import InvalidInputError
from commonbrain.observability.dispatch import TelemetryDispatch
from commonbrain.observability.interface import SILENT, Telemetry

if TYPE_CHECKING:
    from commonbrain.observability.metrics import PrometheusMetrics

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
    name: str, options: TelemetryOptions, *, clock: Clock, about: dict[str, str]
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
        load_extra("opentelemetry.sdk.trace", extra="server")
        from commonbrain.observability.tracing import OtelSpans  # noqa: PLC0415 an extra's

        spans = OtelSpans.sent(options.otlp_endpoint, about=about)
    if options.counts:
        load_extra("prometheus_client", extra="server")
        from commonbrain.observability.metrics import PrometheusMetrics  # noqa: PLC0415 an extra's

        prometheus = PrometheusMetrics(**about)
        _serve_metrics(prometheus, options)
        meters = prometheus
    receivers = list(_receivers(name, options, clock=clock))
    is_enabled = receivers or spans is not SILENT or meters is not SILENT
    return TelemetryDispatch(receivers, spans=spans, meters=meters) if is_enabled else SILENT


def _serve_metrics(meters: PrometheusMetrics, options: TelemetryOptions) -> None:
    """Serve the metrics at a port of their own, if one is set.

    Raises:
        InvalidInputError: The address cannot be used.

    """
    try:
        if options.port and not meters.listen(options.host, options.port):
            _LOG.info("Another process serves the metrics at port %d.", options.port)
    except OSError as error:
        raise InvalidInputError(
            f"Cannot listen at {options.host}, port {options.port}: {error.strerror}.",
            hint="Correct COMMONBRAIN_METRICS_HOST or COMMONBRAIN_METRICS_PORT.",
        ) from error


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
        from commonbrain.observability.notifications import DesktopNotifications  # noqa: PLC0415 an extra's

        yield DesktopNotifications(clock)
