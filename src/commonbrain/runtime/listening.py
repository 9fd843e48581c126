"""Telemetry of a server, and events of calls whose store could not be opened."""

from importlib.metadata import version
from pathlib import Path

from commonbrain.clock import Clock, SystemClock, SystemRandom
from commonbrain.config import Settings, Store
from commonbrain.embeddings.endpoint import ENDPOINTS
from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.model import ids
from commonbrain.model.errors import CommonbrainError, InvalidInputError
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.observability.early_events import EarlyEventFile
from commonbrain.observability.factory import TelemetryOptions, make_telemetry
from commonbrain.observability.interface import Telemetry
from commonbrain.observability.tool_events import ToolEvent
from commonbrain.runtime.settings_loading import load_settings, login_name

_METERED_SERVERS = frozenset({"serve", "worker"})
"""Servers that export metrics; the others serve one client."""


def listen(settings: Settings, name: str, *, space: EmbeddingSpace) -> Telemetry:
    """Create the telemetry of a server: all have a log, `serve` and `worker` also metrics.

    Raises:
        InvalidInputError: A required library is not installed.

    """
    options = TelemetryOptions(
        log=settings.state.expanduser() / "log" if settings.log else None,
        otlp_endpoint=settings.otlp_endpoint,
        counts=name in _METERED_SERVERS,
        desktop_notifications=settings.desktop_notifications,
        host=settings.metrics_host,
        port=settings.metrics_port,
    )
    about = {"version": version("commonbrain"), "space": space.name}
    return make_telemetry(name, options, clock=SystemClock(), about=about)


def note_unopened(
    tool: str, error: CommonbrainError, *, agent: str | None, transport: str, args: str
) -> None:
    """Queue the event of a call whose store could not be opened; never fails."""
    try:
        settings = load_settings()
    except InvalidInputError:
        # Invalid settings name no folder, and the caller gets their error.
        return
    clock = SystemClock()
    event = ToolEvent(
        id=ids.make_id(clock.now(), SystemRandom().bits(ids.RANDOM_BITS)),
        tenant=LOCAL_TENANT,
        at=clock.now(),
        session=None,
        agent=agent or settings.agent or login_name(),
        tool=tool,
        transport=transport,
        duration_ms=0.0,
        outcome=error.code,
        args=args,
    )
    if settings.event_retention_days:
        early(settings, clock).put(event)


def early(settings: Settings, clock: Clock) -> EarlyEventFile:
    """Return the queue of events that precede their session."""
    return EarlyEventFile(settings.state.expanduser() / "early.jsonl", clock)


def dependency_locations(settings: Settings, at: Store) -> dict[str, str | Path]:
    """Return the location of each external dependency by name."""
    store = at.expanduser() if isinstance(at, Path) else at.get_secret_value()
    dependency_locations: dict[str, str | Path] = {"store": store}
    if settings.redis_url is not None:
        dependency_locations["redis"] = settings.redis_url.get_secret_value()
    url = settings.embedder_url or ENDPOINTS.get(settings.embedder)
    if settings.embedder in ENDPOINTS and url:
        dependency_locations["embedder"] = url
    return dependency_locations
