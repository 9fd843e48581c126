"""Real objects in one line: a brain on a file, a memory with what a test cares about."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, Protocol

from commonbrain.adapters.access.issuer import Issuer
from commonbrain.adapters.access.making import Ground, make_access, make_rates, make_seals
from commonbrain.adapters.access.refusals import CountedRefusals
from commonbrain.adapters.archive.lines import JsonLines
from commonbrain.adapters.blobs.making import make_blobs
from commonbrain.adapters.models.extractive import ExtractiveReflector
from commonbrain.adapters.models.patterns import PatternExtractor
from commonbrain.adapters.models.salience_making import make_salience_trainer
from commonbrain.adapters.models.training import make_trainer
from commonbrain.adapters.queue.local import LocalQueue
from commonbrain.adapters.screen import PatternScreen
from commonbrain.adapters.sql.opening import open_sqlite
from commonbrain.adapters.staging import BlobStaging
from commonbrain.adapters.statistics import make_statistics
from commonbrain.brain import Brain
from commonbrain.domain.gate import derive_headline
from commonbrain.domain.kinds import KINDS, Kind
from commonbrain.domain.limits import LOCK_WAIT_S
from commonbrain.domain.memory import Memory, semantic_hash
from commonbrain.domain.scope import Caller
from commonbrain.domain.screening import OnSecret
from commonbrain.domain.space import Space
from commonbrain.domain.trust import Trust
from commonbrain.flows.bounds import Bounds
from commonbrain.flows.guarding import Guards
from commonbrain.flows.house import House
from commonbrain.flows.journal import Journal
from commonbrain.flows.saliences import Saliences
from commonbrain.flows.serving import Rankers
from commonbrain.importers import IMPORTERS
from commonbrain.ports.access import Access
from commonbrain.ports.clock import Chance, Clock
from commonbrain.ports.models import Embedder
from commonbrain.ports.store import Store
from commonbrain.testing.clock import FakeClock, SeededChance
from commonbrain.testing.deterministic_embedder import WordHashEmbedder
from commonbrain.testing.processes import FakeProcesses

NOON: Final = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


class Opener(Protocol):
    """What opens a store under the path that a test gives, on whatever engine."""

    def __call__(self, path: Path, *, space: Space, clock: Clock) -> Store:
        """Open it as another process would."""
        ...


def _open_file(path: Path, *, space: Space, clock: Clock) -> Store:
    return open_sqlite(path, space=space, clock=clock, is_durable=True, lock_wait_s=LOCK_WAIT_S)


_OPENERS: Final[list[Opener]] = [_open_file]
"""The one in force is the last."""


@contextmanager
def stores_by(opener: Opener) -> Generator[None]:
    """Let every brain of the block have a store on another engine."""
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
    chance: Chance | None = None,
    embedder: Embedder | None = None,
    on_secret: OnSecret = OnSecret.REJECT,
) -> Brain:
    """Open a real store; time, chance and embedder are a test's own unless given."""
    embedder = embedder or WordHashEmbedder()
    clock = clock or FakeClock()
    store = _OPENERS[-1](path, space=embedder.space, clock=clock)
    screen = PatternScreen()
    blobs = cache(partial(make_blobs, path.with_name(f"{path.name}.blobs")))
    rankers = Rankers(lambda digest: make_trainer().load(blobs().get(digest)), clock=clock)
    guards = Guards(store, clock=clock, statistics=make_statistics, moved=rankers.forget)
    salience_trainer = cache(make_salience_trainer)
    house = House(
        store=store,
        embedder=embedder,
        extractor=PatternExtractor(),
        reflector=ExtractiveReflector(),
        clock=clock,
        chance=chance or SeededChance(),
        journal=Journal(store, screen, clock=clock, told=guards.heard),
        rankers=rankers,
        guards=guards,
        importers=IMPORTERS,
        archive=JsonLines(),
        processes=FakeProcesses(born=NOON),
        queue=LocalQueue(),
        screen=screen,
        bounds=Bounds(store=store, clock=clock, rates=cache(make_rates)),
        refusals=CountedRefusals(store=store, clock=clock),
        trainer=cache(make_trainer),
        seals=cache(make_seals),
        blobs=blobs,
        salience_trainer=salience_trainer,
        saliences=Saliences(
            lambda digest: salience_trainer().load(blobs().get(digest)), store=store, clock=clock
        ),
        staging=BlobStaging(blobs),
        on_secret=on_secret,
    )
    return Brain.of(house, Caller(agent=agent))


def a_memory(id_: int, body: str, *, kind: Kind = Kind.FACT, **more: Any) -> Memory:  # noqa: ANN401
    """Make a memory as the gate would, with anything else as given."""
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


def an_access(brain: Brain, issuer: Issuer | None = None) -> Access:
    """Make what tells callers of a brain's house by their credentials."""
    house = brain.house
    ground = Ground(
        store=house.store,
        clock=house.clock,
        refusals=house.refusals,
        rates=house.bounds.rates(),
        seals=house.seals(),
    )
    return make_access(ground, issuer)
