"""Builds the house from settings; nobody else knows the adapters."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from functools import cache, partial
from pathlib import Path
from typing import Final, Unpack

from commonbrain.client import Brain, Identity
from commonbrain.clock import Clock, RandomSource, SystemClock, SystemRandom
from commonbrain.config import Settings, StoreLocation
from commonbrain.coordination.processes import LocalProcesses
from commonbrain.embeddings.cache import CachingEmbedder
from commonbrain.embeddings.interface import Reranker
from commonbrain.ingestion.salience import SalienceModels
from commonbrain.learning.factory import make_salience_trainer, make_statistics, make_trainer
from commonbrain.learning.monitor import CanaryMonitor
from commonbrain.learning.serving import RerankerRegistry
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.scope import LOCAL_TENANT, Caller
from commonbrain.observability.health import HealthProbes
from commonbrain.retrieval.write_behind import RecallLogPolicy, WriteBehindQueue
from commonbrain.runtime.access import make_access, make_local_access, reveal
from commonbrain.runtime.listening import dependency_locations, early, listen, note_unopened
from commonbrain.runtime.models import (
    apply_thresholds,
    make_embedder,
    make_extractor,
    make_next_embedder,
    make_reflector,
    redacted_settings,
)
from commonbrain.runtime.settings_loading import load_server_settings, load_settings, login_name
from commonbrain.runtime.stores import (
    copy_store,
    distribute_store,
    make_queue,
    open_store,
    preview_copy,
    preview_distribute,
    preview_restore,
    resolve_store,
    restore,
    upgrade_store,
)
from commonbrain.security import factory
from commonbrain.security.denials import AccessDenials
from commonbrain.security.quotas import Quotas
from commonbrain.security.secrets import PatternSecretScanner, SecretScanner
from commonbrain.services import Services
from commonbrain.storage.blobs import Blobs, make_blobs
from commonbrain.storage.store import Store
from commonbrain.storage.uploads import UploadStore
from commonbrain.text.redaction import OnSecret
from commonbrain.transfer.archive import JsonLines
from commonbrain.transfer.importers import IMPORTERS

__all__ = [
    "build_services",
    "copy_store",
    "distribute_store",
    "listen",
    "load_server_settings",
    "load_settings",
    "make_access",
    "make_embedder",
    "make_extractor",
    "make_local_access",
    "make_queue",
    "make_reflector",
    "note_unopened",
    "open_brain",
    "preview_copy",
    "preview_distribute",
    "preview_restore",
    "restore",
    "upgrade_store",
]

_FLUSH_INTERVAL_S: Final = 1.0
"""How long what reads leave gathers before it is written to a file."""
_SERVER_FLUSH_INTERVAL_S: Final = 5.0
"""The same for a server, where each write of a tenant costs half of a recall."""


def open_brain(
    store: str | Path | None = None,
    *,
    tenant: str | None = None,
    lock_timeout_s: float | None = None,
    server_name: str | None = None,
    **identity: Unpack[Identity],
) -> Brain:
    """Open a store by path, by the environment, or where the user's data lives.

    Args:
        store: the file, or the URL of a Postgres.
        tenant: whose memories; by default those that the settings name.
        lock_timeout_s: how long to wait for other writers, where that is less than the settings
            say.
        server_name: the name of the server that this is for, which is listened to as settings say.
        identity: who acts.

    Raises:
        InvalidInputError: a setting or an environment variable is out of bounds.
        NotFoundError: there is no such tenant.
        UnavailableError: the store cannot be opened or stayed locked; it was left as found.
        StoreCorruptError: the store is damaged, foreign or newer; it was left as found.

    """
    settings = load_settings()
    if lock_timeout_s is not None:
        settings = settings.model_copy(
            update={"lock_timeout_s": min(lock_timeout_s, settings.lock_timeout_s)}
        )
    services = build_services(settings, resolve_store(store, settings))
    if server_name is not None:
        services = replace(
            services, telemetry=listen(settings, server_name, space=services.store.space)
        )
    caller = Caller(
        tenant=tenant or settings.tenant,
        agent=settings.agent or login_name(),
        session=settings.session,
        project=settings.project,
    )
    brain = Brain.of(services, caller).acting_as(**identity)
    if caller.tenant != LOCAL_TENANT:
        # The first is made with the store; of the others each must have been made by name.
        with ExitStack() as on_failure:
            on_failure.callback(brain.close)
            brain.tenants.get(caller.tenant)
            on_failure.pop_all()
    return brain


def build_services(
    settings: Settings,
    location: StoreLocation,
    *,
    clock: Clock | None = None,
    random_source: RandomSource | None = None,
) -> Services:
    """Put ports and adapters together for one store; time and chance are the machine's own."""
    embedder = CachingEmbedder(make_embedder(settings))
    clock = clock or SystemClock()
    with redacted_settings():
        store = open_store(
            location, settings, space=apply_thresholds(embedder.space, settings), clock=clock
        )
    screen = PatternSecretScanner()
    blobs = cache(partial(make_blobs, _blobs_location(settings, location), _blobs_key(settings)))
    salience_trainer = cache(make_salience_trainer)
    rerankers = RerankerRegistry(partial(_reranker, blobs), clock=clock)
    guards = CanaryMonitor(store, clock=clock, statistics=make_statistics, moved=rerankers.forget)
    return Services(
        store=store,
        embedder=embedder,
        extractor=make_extractor(settings),
        reflector=make_reflector(settings),
        reflector_tokens=settings.reflector_run_tokens_max,
        clock=clock,
        random_source=random_source or SystemRandom(),
        journal=_write_behind(
            store,
            screen,
            settings=settings,
            guards=guards,
            clock=clock,
            flush_interval_s=_FLUSH_INTERVAL_S
            if isinstance(location, Path)
            else _SERVER_FLUSH_INTERVAL_S,
        ),
        rerankers=rerankers,
        guards=guards,
        importers=IMPORTERS,
        archive=JsonLines(),
        embedders=partial(make_next_embedder, settings=settings),
        next_space=settings.embedder_next,
        processes=LocalProcesses(),
        queue=make_queue(settings),
        has_embedded_worker=settings.redis_url is None,
        screen=screen,
        quotas=Quotas(
            store=store,
            clock=clock,
            rates=cache(partial(factory.make_rates, reveal(settings.redis_url))),
            key_calls_per_minute=settings.key_calls_per_minute,
            tenant_calls_per_minute=settings.tenant_calls_per_minute,
        ),
        refusals=AccessDenials(store=store, clock=clock),
        trainer=cache(make_trainer),
        seals=cache(factory.make_password_hasher),
        blobs=blobs,
        salience_trainer=salience_trainer,
        saliences=SalienceModels(
            lambda digest: salience_trainer().load(blobs().get(digest)), store=store, clock=clock
        ),
        staging=UploadStore(blobs),
        early=early(settings, clock),
        probe=HealthProbes(dependency_locations(settings, location), clock),
        started_at=clock.now(),
        on_secret=OnSecret(settings.secrets),
    )


def _write_behind(
    store: Store,
    screen: SecretScanner,
    *,
    settings: Settings,
    guards: CanaryMonitor,
    clock: Clock,
    flush_interval_s: float,
) -> WriteBehindQueue:
    return WriteBehindQueue(
        store,
        screen,
        clock=clock,
        ledger=RecallLogPolicy(
            share=settings.trace_sample_rate,
            kept=timedelta(days=settings.trace_retention_days),
            events_kept=timedelta(days=settings.event_retention_days),
        ),
        flush_interval_s=flush_interval_s,
        told=guards.on_traces_written,
    )


def _reranker(blobs: Callable[[], Blobs], digest: str) -> Reranker:
    """Load a reranker by the digest of its artifact."""
    return make_trainer().load(blobs().get(digest))


def _blobs_location(settings: Settings, location: StoreLocation) -> Path | str:
    """Say where artifacts lie: as told, or beside the file of the store, or with the state."""
    if settings.blobs is not None:
        return settings.blobs
    return (
        location.with_name(f"{location.name}.blobs")
        if isinstance(location, Path)
        else settings.state / "blobs"
    )


def _blobs_key(settings: Settings) -> tuple[str, str] | None:
    """Give the key of the bucket with its id, where settings have both.

    Raises:
        InvalidInputError: they have one without the other.

    """
    id_, key = reveal(settings.blobs_key_id), reveal(settings.blobs_key)
    if (id_ is None) != (key is None):
        raise InvalidInputError(
            "Of COMMONBRAIN_BLOBS_KEY_ID and COMMONBRAIN_BLOBS_KEY one is set.",
            hint="Set both, or none and AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
        )
    return None if id_ is None or key is None else (id_, key)
