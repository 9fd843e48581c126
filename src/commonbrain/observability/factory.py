"""Makes what listens to one server from what its settings say; a library is loaded where wanted."""

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
_STANDARD: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""The variables by which every program is told where its spans go."""
_OFF: Final = "OTEL_SDK_DISABLED"


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryOptions:
    """What is to listen."""

    log: Path | None = None
    """The folder of its log; None: none is written."""
    otlp_endpoint: str | None = None
    """Where spans go, where the standard variables do not say."""
    counts: bool = False
    """Whether Prometheus asks it."""
    desktop_notifications: bool = False
    host: str = "127.0.0.1"
    port: int | None = None
    """Where Prometheus finds the figures, beside whatever else shows them."""


def make_telemetry(
    name: str, wanted: TelemetryOptions, *, clock: Clock, about: dict[str, str]
) -> Telemetry:
    """Make what listens to a server.

    Args:
        name: of the server: its log is called so.
        wanted: what is to listen.
        clock: measures how far notices are apart.
        about: its version and the vector space, which its figures tell.

    Raises:
        InvalidInputError: a library that it takes is not installed.

    """
    spans: Telemetry = SILENT
    meters: Telemetry = SILENT
    if wants_spans(wanted):
        load_extra("opentelemetry.sdk.trace", extra="server")
        from commonbrain.observability.tracing import OtelSpans  # noqa: PLC0415 an extra's

        spans = OtelSpans.sent(wanted.otlp_endpoint, about=about)
    if wanted.counts:
        load_extra("prometheus_client", extra="server")
        from commonbrain.observability.metrics import PrometheusMetrics  # noqa: PLC0415 an extra's

        counted = PrometheusMetrics(**about)
        _open_page(counted, wanted)
        meters = counted
    ears = list(_ears(name, wanted, clock=clock))
    is_heard = ears or spans is not SILENT or meters is not SILENT
    return TelemetryDispatch(ears, spans=spans, meters=meters) if is_heard else SILENT


def _open_page(meters: PrometheusMetrics, wanted: TelemetryOptions) -> None:
    """Show the figures at a port of their own, where one is wanted.

    Raises:
        InvalidInputError: nobody can listen there.

    """
    try:
        if wanted.port and not meters.listen(wanted.host, wanted.port):
            _LOG.info("Another process shows the figures at port %d.", wanted.port)
    except OSError as error:
        raise InvalidInputError(
            f"Nobody can listen at {wanted.host}, port {wanted.port}: {error.strerror}.",
            hint="Mend COMMONBRAIN_METRICS_HOST or COMMONBRAIN_METRICS_PORT.",
        ) from error


def wants_spans(wanted: TelemetryOptions) -> bool:
    """Say whether anybody said where spans go."""
    is_off = os.environ.get(_OFF, "").strip().lower() == "true"
    return not is_off and bool(
        wanted.otlp_endpoint or any(os.environ.get(name) for name in _STANDARD)
    )


def _ears(name: str, wanted: TelemetryOptions, *, clock: Clock) -> Iterator[Telemetry]:
    if wanted.log is not None:
        from commonbrain.observability.logs import ServerLog  # noqa: PLC0415 a command has none

        try:
            yield ServerLog(wanted.log, name)
        except OSError as error:
            # A server that cannot write its log still serves.
            _LOG.warning("No log is written to %s: %s", wanted.log, error.strerror or error)
    if wanted.desktop_notifications:
        from commonbrain.observability.notifications import DesktopNotifications  # noqa: PLC0415 an extra's

        yield DesktopNotifications(clock)
