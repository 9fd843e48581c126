"""Builders of real objects for tests: a brain on a file, a memory."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from commonbrain.client import Brain
from commonbrain.clock import Clock, RandomSource
from commonbrain.embeddings.interface import Embedder, EmbeddingSpace
from commonbrain.ingestion.salience import SalienceModels
from commonbrain.ingestion.validation import derive_headline
from commonbrain.jobs.local_queue import LocalQueue
from commonbrain.learning.intervals import make_statistics
from commonbrain.learning.monitor import CanaryMonitor
from commonbrain.learning.serving import RerankerRegistry, make_salience_trainer, make_trainer
from commonbrain.llm.client import ExtractiveReflector, PatternExtractor
from commonbrain.model.kinds import KINDS, Kind
from commonbrain.model.limits import LOCK_TIMEOUT_S
from commonbrain.model.memory import Memory, semantic_hash
from commonbrain.model.scope import Caller, Trust
from commonbrain.retrieval.write_behind import WriteBehindQueue
from commonbrain.security.authentication import Authenticator, Issuer
from commonbrain.security.denials import AccessDenials
from commonbrain.security.factory import (
    AuthenticationServices,
    make_access,
    make_password_hasher,
    make_rates,
)
from commonbrain.security.quotas import Quotas
from commonbrain.security.secrets import PatternSecretScanner
from commonbrain.services import Services
from commonbrain.storage.blobs import make_blobs
from commonbrain.storage.sqlite.opening import open_sqlite
from commonbrain.storage.uploads import UploadStore
from commonbrain.testing.clock import FakeClock, SeededRandom
from commonbrain.testing.deterministic_embedder import WordHashEmbedder
from commonbrain.testing.processes import FakeProcesses
from commonbrain.text.redaction import OnSecret
from commonbrain.transfer.importers import IMPORTERS

if TYPE_CHECKING:
    from commonbrain.storage.store import Store

NOON: Final = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


class Opener(Protocol):
    """Opens a store at a path, on any engine."""

    def __call__(self, path: Path, *, space: EmbeddingSpace, clock: Clock) -> Store:
        """Open the store as another process would."""
        ...


def _open_file(path: Path, *, space: EmbeddingSpace, clock: Clock) -> Store:
    return open_sqlite(
        path, space=space, clock=clock, is_durable=True, lock_timeout_s=LOCK_TIMEOUT_S
    )


_OPENERS: Final[list[Opener]] = [_open_file]
"""The last one is active."""


@contextmanager
def use_store_opener(opener: Opener) -> Generator[None]:
    """Let every brain of the block use a store on another engine."""
    _OPENERS.append(opener)
    try:
        yield
    finally:
        _OPENERS.pop()


def a_brain(
    path: Path,
    *,
    agent: str = "ann",
    clock: Clock | None = None,
    random_source: RandomSource | None = None,
    embedder: Embedder | None = None,
    on_secret: OnSecret = OnSecret.REJECT,
) -> Brain:
    """Open a real store; clock, randomness and embedder are deterministic by default."""
    embedder = embedder or WordHashEmbedder()
    clock = clock or FakeClock()
    store = _OPENERS[-1](path, space=embedder.space, clock=clock)
    screen = PatternSecretScanner()
    blobs = cache(partial(make_blobs, path.with_name(f"{path.name}.blobs")))
    salience_trainer = cache(make_salience_trainer)
    rerankers = RerankerRegistry(
        lambda digest: make_trainer().load(blobs().get(digest)), clock=clock
    )
    guards = CanaryMonitor(store, clock=clock, statistics=make_statistics, moved=rerankers.forget)
    services = Services(
        store=store,
        embedder=embedder,
        extractor=PatternExtractor(),
        reflector=ExtractiveReflector(),
        clock=clock,
        random_source=random_source or SeededRandom(),
        journal=WriteBehindQueue(store, screen, clock=clock, on_written=guards.on_traces_written),
        rerankers=rerankers,
        guards=lambda: guards,
        importers=lambda: IMPORTERS,
        processes=FakeProcesses(born=NOON),
        queue=LocalQueue(),
        screen=screen,
        quotas=Quotas(store=store, clock=clock, rates=cache(make_rates)),
        refusals=AccessDenials(store=store, clock=clock),
        trainer=cache(make_trainer),
        password_hasher=cache(make_password_hasher),
        blobs=blobs,
        salience_trainer=salience_trainer,
        saliences=SalienceModels(
            lambda digest: salience_trainer().load(blobs().get(digest)), store=store, clock=clock
        ),
        staging=UploadStore(blobs),
        on_secret=on_secret,
    )
    return Brain(services, Caller(agent=agent))


def a_memory(id_: int, body: str, *, kind: Kind = Kind.FACT, **more: Any) -> Memory:  # noqa: ANN401
    """Create a memory as the write path would, with the given fields."""
    plain = Memory(
        id=id_,
        kind=kind,
        headline=derive_headline(body),
        body=body,
        detail=KINDS[kind].detail(),
        agent="ann",
        trust=Trust.USER_CLAIM,
        confidence=0.6,
        salience=KINDS[kind].salience,
        semantic_hash=semantic_hash(kind, body),
        recorded_at=NOON,
        occurred_at=NOON,
    )
    return replace(plain, **more)


def an_access(brain: Brain, issuer: Issuer | None = None) -> Authenticator:
    """Create the authenticator of a brain."""
    services = brain.services
    authenticator = AuthenticationServices(
        store=services.store,
        clock=services.clock,
        refusals=services.refusals,
        rates=services.quotas.rates(),
        password_hasher=services.password_hasher(),
    )
    return make_access(authenticator, issuer)
