"""Who listens to a server, and what a call leaves that no store could be opened for."""

from importlib.metadata import version
from pathlib import Path

from commonbrain.clock import Clock, SystemClock, SystemRandom
from commonbrain.config import Settings, StoreLocation
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
"""Servers that Prometheus asks; the others serve one client."""


def listen(settings: Settings, name: str, *, space: EmbeddingSpace) -> Telemetry:
    """Make what listens to a server: `serve` and `work` are counted for Prometheus, all logged.

    Raises:
        InvalidInputError: a library that the settings want is not installed.

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
    """Let the event of a call wait for which no store could be opened; nothing fails for it."""
    try:
        settings = load_settings()
    except InvalidInputError:
        # Nobody knows the folder, and the caller is told of the setting that is wrong.
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
        early(settings, clock).keep(event)


def early(settings: Settings, clock: Clock) -> EarlyEventFile:
    """Give where events wait whose session is not known yet."""
    return EarlyEventFile(settings.state.expanduser() / "early.jsonl", clock)


def dependency_locations(settings: Settings, at: StoreLocation) -> dict[str, str | Path]:
    """Say where each thing is that the house depends on; what runs in this process is there."""
    store = at.expanduser() if isinstance(at, Path) else at.get_secret_value()
    dependency_locations: dict[str, str | Path] = {"store": store}
    if settings.redis_url is not None:
        dependency_locations["redis"] = settings.redis_url.get_secret_value()
    url = settings.embedder_url or ENDPOINTS.get(settings.embedder)
    if settings.embedder in ENDPOINTS and url:
        dependency_locations["embedder"] = url
    return dependency_locations
