"""What a server reports: metrics for Prometheus, and spans by OTLP."""

import logging
from collections.abc import Mapping
from typing import Final

from commonbrain.model.errors import InvalidInputError
from commonbrain.observability.factory import TelemetryOptions
from commonbrain.observability.interface import Telemetry

_LOG: Final = logging.getLogger(__name__)


def make_spans(options: TelemetryOptions, about: Mapping[str, str]) -> Telemetry:
    """Create what exports spans, reported with the version and the embedding space."""
    # A server may report metrics alone.
    from commonbrain_server.observability.tracing import OtelSpans  # noqa: PLC0415

    return OtelSpans.sent(options.otlp_endpoint, about=about)


def make_meters(options: TelemetryOptions, about: Mapping[str, str]) -> Telemetry:
    """Create the metrics, and serve them at a port of their own if one is set.

    Raises:
        InvalidInputError: The address cannot be used.

    """
    from commonbrain_server.observability.metrics import PrometheusMetrics  # noqa: PLC0415 as above

    meters = PrometheusMetrics(**about)
    try:
        if options.port and not meters.listen(options.host, options.port):
            _LOG.info("Another process serves the metrics at port %d.", options.port)
    except OSError as error:
        raise InvalidInputError(
            f"Cannot listen at {options.host}, port {options.port}: {error.strerror}.",
            hint="Correct COMMONBRAIN_METRICS_HOST or COMMONBRAIN_METRICS_PORT.",
        ) from error
    return meters
