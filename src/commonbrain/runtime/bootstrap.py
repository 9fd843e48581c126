"""Builds the services from settings; the only module that knows all implementations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final, Unpack, cast

from pydantic import SecretStr

from commonbrain.client import Brain, Identity
from commonbrain.clock import Clock, RandomSource, SystemClock, SystemRandom
from commonbrain.config import Settings
from commonbrain.coordination.processes import LocalProcesses
from commonbrain.embeddings.interface import (
    ENDPOINTS,
    CachingEmbedder,
    Embedder,
    EmbeddingSpace,
    SpaceState,
)
from commonbrain.extras import is_installed, load_row
from commonbrain.model import ids
from commonbrain.model.errors import CommonbrainError, InvalidInputError, NotFoundError
from commonbrain.model.limits import BOOT_CAPS, BriefingLimits, ImportLimits
from commonbrain.model.scope import LOCAL_TENANT, Authority, Caller
from commonbrain.observability.health import HealthProbes
from commonbrain.observability.hook_runs import HOOKS_FOLDER, HookRuns
from commonbrain.observability.interface import Telemetry
from commonbrain.observability.tool_events import EarlyEventFile, ToolEvent
from commonbrain.retrieval.write_behind import RecallLogPolicy, WriteBehindQueue
from commonbrain.runtime import models
from commonbrain.runtime.settings_loading import load_settings, login_name
from commonbrain.runtime.stores import make_queue, open_store, resolve_store
from commonbrain.security.secrets import SecretScanner
from commonbrain.services import ModelRunner, Services, TrainedModels
from commonbrain.setting_types import StoreLocation
from commonbrain.storage.blobs import S3, Blobs, make_blobs
from commonbrain.storage.interface import SpaceMismatch
from commonbrain.storage.store import Store as StoreInterface
from commonbrain.storage.uploads import UploadStore

if TYPE_CHECKING:
    from commonbrain.transfer.importer import Importer

_FLUSH_INTERVAL_S: Final = 1.0
"""How long recall logs are batched before they are written to a file."""
_SERVER_FLUSH_INTERVAL_S: Final = 5.0
"""The same for a server, where one write of a tenant costs half as much as a recall."""


def open_brain(
    store: str | Path | None = None,
    *,
    tenant: str | None = None,
    lock_timeout_s: float | None = None,
    server_name: str | None = None,
    **identity: Unpack[Identity],
) -> Brain:
    """Open a store by path, by the environment, or at the default location.

    Args:
        store: A file, or the URL of a Postgres store.
        tenant: Tenant; that of the settings by default.
        lock_timeout_s: Seconds to wait for other writers, if shorter than the setting.
        server_name: Name of the server, which enables its telemetry as set.
        identity: The acting agent, session and project.

    Raises:
        InvalidInputError: A setting or an environment variable is invalid.
        NotFoundError: There is no such tenant.
        UnavailableError: The store cannot be opened or stayed locked; it is unchanged.
        StoreCorruptError: The store is damaged, foreign or newer; it is unchanged.

    """
    settings = load_settings()
    if lock_timeout_s is not None:
        settings = settings.model_copy(
            update={"lock_timeout_s": min(lock_timeout_s, settings.lock_timeout_s)}
        )
    location = resolve_store(store, settings)
    services = build_services(settings, location)
    with ExitStack() as on_failure:
        on_failure.callback(lambda: Brain(services, Caller(agent=login_name())).close())
        if not isinstance(location, Path) or _is_shared(server_name):
            services = _guarded(services, settings)
        if server_name is not None:
            services = replace(
                services, telemetry=listen(settings, server_name, space=services.store.space)
            )
        brain = brain_of(services, settings, tenant=tenant, **identity)
        on_failure.pop_all()
    return brain


def _is_shared(server_name: str | None) -> bool:
    """Return whether a server has the callers of a team; a worker alone may serve one person."""
    return server_name in _SHARED_SERVERS and is_installed("commonbrain_server")


def _guarded(services: Services, settings: Settings) -> Services:
    """Return the services of a server, which limit and audit their callers."""
    guard = cast(
        "Callable[[Services, Settings], Services]", load_row("services", "guard", extra="server")
    )
    return guard(services, settings)


def brain_of(
    services: Services,
    settings: Settings,
    *,
    tenant: str | None = None,
    **identity: Unpack[Identity],
) -> Brain:
    """Return the brain of a local caller, as the settings describe it.

    Raises:
        NotFoundError: There is no such tenant.

    """
    caller = Caller(
        tenant=tenant or settings.tenant,
        agent=settings.agent or login_name(),
        session=settings.session,
        project=settings.project,
        # The program that opens the store is its owner's.
        authority=Authority.PERSON,
    )
    brain = Brain(services, caller).acting_as(**identity)
    if caller.tenant != LOCAL_TENANT:
        # The store creates the local tenant; others must exist.
        with services.store.snapshot(caller.tenant) as tx:
            if tx.credentials.tenant() is None:
                raise NotFoundError(
                    f"There is no tenant {caller.tenant}.", hint="`brain tenant list` shows them."
                )
    return brain


def build_services(
    settings: Settings,
    location: StoreLocation,
    *,
    clock: Clock | None = None,
    random_source: RandomSource | None = None,
) -> Services:
    """Assemble the services of one store; clock and randomness are the system's by default."""
    clock = clock or SystemClock()
    is_file = isinstance(location, Path)
    embedder, store = models.open_with_model(
        settings, lambda chosen: _open_with_embedder(location, chosen, clock=clock)
    )
    scanner = SecretScanner()
    artifacts = _blobs_location(settings, location)
    blobs = cache(partial(make_blobs, artifacts, _blobs_key(settings)))
    trained = make_trained_models(store, artifacts=artifacts, blobs=blobs, clock=clock)
    return Services(
        store=store,
        embedder=CachingEmbedder(embedder),
        extractor=partial(models.make_extractor, settings),
        reflector=models.make_reflector(settings),
        schedules_reflection=bool(settings.reflector),
        reflector_tokens=settings.reflector_run_tokens_max,
        clock=clock,
        random_source=random_source or SystemRandom(),
        journal=_recall_log_queue(
            store,
            scanner,
            settings=settings,
            trained=trained,
            clock=clock,
            flush_interval_s=_FLUSH_INTERVAL_S if is_file else _SERVER_FLUSH_INTERVAL_S,
        ),
        trained=trained,
        importers=cache(_load_importers),
        reranker=models.make_reranker(settings, clock=clock),
        embedders=partial(models.make_next_embedder, settings=settings),
        next_space=settings.embedder_next,
        processes=LocalProcesses(),
        queue=make_queue(settings),
        session_idle=timedelta(minutes=settings.session_idle_minutes),
        session_silence_max=timedelta(hours=settings.session_silent_hours),
        http_session_idle=timedelta(minutes=settings.http_session_idle_minutes),
        has_embedded_worker=settings.redis_url is None,
        secret_scanner=scanner,
        blobs=blobs,
        uploads=UploadStore(blobs),
        import_limits=_import_limits(settings),
        owner=login_name(),
        early=early(settings, clock),
        hook_runs=HookRuns(settings.state.expanduser() / HOOKS_FOLDER),
        probe=HealthProbes(dependency_locations(settings, location), clock),
        started_at=clock.now(),
        parameters=settings.parameters,
        briefing_limits=_briefing_limits(settings),
    )


def _open_with_embedder(
    location: StoreLocation, settings: Settings, *, clock: Clock
) -> tuple[Embedder, StoreInterface]:
    """Open a store with the embedder of the settings.

    Without the package of the embedder, a store that exists is opened all the same: its memories
    are found by words, and new ones get their vectors later.
    """

    def open_in(space: EmbeddingSpace) -> StoreInterface:
        return open_store(location, settings, space=space, clock=clock)

    try:
        embedder = models.make_embedder(settings)
    except InvalidInputError as error:
        is_new = isinstance(location, Path) and not location.expanduser().exists()
        if error.code != "extra_missing" or is_new:
            raise
        embedder = models.make_missing_embedder(settings, error, open_in=open_in)
    store = open_in(models.with_thresholds(embedder.space, settings))
    for space in store.spaces.listed():
        is_left = space.state is SpaceState.CURRENT and space.name != embedder.space.name
        if is_left and models.packaged_embedder(space.name, settings):
            # The store has moved, and a program that starts now follows.
            store.close()
            raise SpaceMismatch(space.name, made=embedder.space.name)
    return embedder, store


def _briefing_limits(settings: Settings) -> BriefingLimits:
    return BriefingLimits(
        tokens=settings.boot_tokens,
        caps={name: getattr(settings, f"boot_{name}") for name in BOOT_CAPS},
        handoff_chars=settings.boot_handoff_chars,
        note_chars=settings.boot_note_chars,
    )


def _import_limits(settings: Settings) -> ImportLimits:
    return ImportLimits(
        unpacked_bytes_max=settings.import_unpacked_bytes_max,
        files_max=settings.import_files_max,
        pieces_max=settings.import_pieces_max,
    )


def _load_importers() -> Mapping[str, Importer]:
    from commonbrain.transfer.importers import InstalledImporters  # noqa: PLC0415

    return InstalledImporters()


def make_trained_models(
    store: StoreInterface, *, artifacts: Path | str, blobs: Callable[[], Blobs], clock: Clock
) -> TrainedModels:
    """Make what knows the trained models of a store; without any, it reads and loads nothing."""

    def make_runner() -> ModelRunner:
        make = cast("Callable[..., ModelRunner]", load_row("models", "runner", extra="learn"))
        return make(store=store, blobs=blobs, clock=clock, moved=trained.forget)

    folder = None if str(artifacts).startswith(S3) else Path(artifacts)
    trained = TrainedModels(make_runner, store=store, clock=clock, artifacts=folder)
    return trained


def _recall_log_queue(
    store: StoreInterface,
    scanner: SecretScanner,
    *,
    settings: Settings,
    trained: TrainedModels,
    clock: Clock,
    flush_interval_s: float,
) -> WriteBehindQueue:
    return WriteBehindQueue(
        store,
        scanner,
        clock=clock,
        ledger=RecallLogPolicy(
            share=settings.trace_sample_rate,
            retention=timedelta(days=settings.trace_retention_days),
            event_retention=timedelta(days=settings.event_retention_days),
        ),
        flush_interval_s=flush_interval_s,
        on_written=trained.on_traces_written,
    )


def _blobs_location(settings: Settings, location: StoreLocation) -> Path | str:
    """Return the location of artifacts.

    As set, next to the store's file, or in the state folder.
    """
    if settings.blobs is not None:
        return settings.blobs
    return (
        location.with_name(f"{location.name}.blobs")
        if isinstance(location, Path)
        else settings.state / "blobs"
    )


def _blobs_key(settings: Settings) -> tuple[str, str] | None:
    """Return id and key of the bucket's credentials, if set.

    Raises:
        InvalidInputError: Only one of the two is set.

    """
    id_, key = reveal(settings.blobs_key_id), reveal(settings.blobs_key)
    if (id_ is None) != (key is None):
        raise InvalidInputError(
            "Of COMMONBRAIN_BLOBS_KEY_ID and COMMONBRAIN_BLOBS_KEY one is set.",
            hint="Set both, or none and AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
        )
    return None if id_ is None or key is None else (id_, key)


def reveal(secret: SecretStr | None) -> str | None:
    """Return the plain text of a secret."""
    return secret.get_secret_value() if secret else None


_SHARED_SERVERS = frozenset({"serve", "worker"})
"""Servers that export metrics, and that have a guard; the others serve one client."""


def listen(settings: Settings, name: str, *, space: EmbeddingSpace) -> Telemetry:
    """Create the telemetry of a server: all have a log, `serve` and `worker` also metrics.

    Raises:
        InvalidInputError: A required library is not installed.

    """
    # Commands have no telemetry of their own.
    from commonbrain.observability.factory import TelemetryOptions, make_telemetry  # noqa: PLC0415

    options = TelemetryOptions(
        log=settings.state.expanduser() / "log" if settings.log else None,
        otlp_endpoint=settings.otlp_endpoint,
        counts=_is_shared(name) or settings.metrics_port is not None,
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


def dependency_locations(settings: Settings, at: StoreLocation) -> dict[str, str | Path]:
    """Return the location of each external dependency by name."""
    store = at.expanduser() if isinstance(at, Path) else at.get_secret_value()
    dependency_locations: dict[str, str | Path] = {"store": store}
    if settings.redis_url is not None:
        dependency_locations["redis"] = settings.redis_url.get_secret_value()
    url = settings.embedder_url or ENDPOINTS.get(settings.embedder)
    if settings.embedder in ENDPOINTS and url:
        dependency_locations["embedder"] = url
    return dependency_locations
