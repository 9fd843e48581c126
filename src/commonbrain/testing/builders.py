"""Builders of real objects for tests: a brain on a file, a memory."""

from __future__ import annotations

import random
import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from commonbrain.client import Brain
from commonbrain.clock import Clock, RandomSource
from commonbrain.config import Settings
from commonbrain.embeddings.interface import Embedder, EmbeddingSpace, embed_passages
from commonbrain.model.kinds import KINDS, Kind
from commonbrain.model.limits import LOCK_TIMEOUT_S
from commonbrain.model.memory import Memory, semantic_hash
from commonbrain.model.parameters import DEFAULTS, Parameters
from commonbrain.model.scope import Authority, Caller, Trust
from commonbrain.model.sessions import Process, is_same_process
from commonbrain.retrieval.write_behind import WriteBehindQueue
from commonbrain.runtime.bootstrap import make_trained_models
from commonbrain.runtime.models import ExtractiveReflector, make_extractor
from commonbrain.runtime.stores import LocalQueue
from commonbrain.security.secrets import SecretScanner
from commonbrain.services import Services
from commonbrain.storage.blobs import make_blobs
from commonbrain.storage.sqlite.engine import open_sqlite
from commonbrain.storage.uploads import UploadStore
from commonbrain.text.headlines import derive_headline
from commonbrain.transfer.importers import InstalledImporters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from commonbrain.embeddings.interface import Matrix
    from commonbrain.storage.store import Store


class FakeProcesses:
    """A fake process table; with `parent`, one client owns it."""

    def __init__(self, *, host: str = "here", born: datetime) -> None:
        self.host = host
        self.born = born
        self.running: list[Process] = []
        self.parent: Process | None = None
        self.sessions: dict[str, str] = {}
        self.checkouts: dict[str, dict[str, str]] = {}
        self.checks = 0

    def start(self, pid: int) -> Process:
        """Start a process."""
        started = Process(host=self.host, pid=pid, created_at=self.born)
        self.running.append(started)
        return started

    def kill(self, process: Process) -> None:
        """End a process."""
        self.running.remove(process)

    def own(self) -> Process:
        """Return the process of the test."""
        return Process(host=self.host, pid=1, created_at=self.born)

    def client(self) -> Process | None:
        """Return the configured client process."""
        return self.parent

    def folder(self) -> str | None:
        """Return a folder."""
        return "/home/ann/api"

    def session(self, agent: str) -> str | None:
        """Return the configured session of the agent's client."""
        return self.sessions.get(agent)

    def terminal(self) -> Process | None:
        """Return the configured client process."""
        return self.parent

    def checkout(self, folder: str | None) -> dict[str, str]:
        """Return the configured branch and worktree of a folder."""
        return self.checkouts.get(folder or "", {})

    def is_alive(self, process: Process) -> bool:
        """Whether the process runs, as that of the test does; counts the calls."""
        self.checks += 1
        return any(is_same_process(one, process) for one in (self.own(), *self.running))


WORD = re.compile(r"\w+")
WINDOW_WORDS = 150
OVERLAP_WORDS = 37
"""Overlap of the default embedder's windows, in words: about 4 tokens for 3 words."""


class WordHashEmbedder:
    """Embeds texts by their words: shared words make vectors similar; synonyms do not.

    Each word adds 1 or -1 to one of 384 dimensions, both chosen by its hash (signed feature
    hashing, Weinberger et al. 2009): fast, and identical on every machine.
    """

    space = EmbeddingSpace(
        name="word-hash-1",
        dimensions=384,
        # Cosine is roughly the share of common words: half, one in five. Hash collisions of two
        # words stay below the last.
        similar_threshold=0.5,
        relevance_threshold=0.2,
    )

    def query(self, text: str) -> Matrix:
        """Embed a query."""
        return self._vector(_words(text)[:WINDOW_WORDS])

    @property
    def windows_at_once(self) -> int:
        """One, since threads would not make it faster."""
        return 1

    def windows(self, text: str) -> list[list[str]]:
        """Cut a text into windows of 150 words that overlap by 37."""
        words = _words(text)
        step = WINDOW_WORDS - OVERLAP_WORDS
        starts = range(0, max(len(words) - OVERLAP_WORDS, 1), step)
        return [words[start : start + WINDOW_WORDS] for start in starts]

    def vectors(self, windows: Sequence[list[str]]) -> Matrix:
        """Embed windows."""
        return np.stack([self._vector(words) for words in windows])

    def passages(self, texts: Sequence[str]) -> list[Matrix]:
        """Embed stored texts in windows."""
        return embed_passages(texts, cut=self.windows, embed=self.vectors)

    def _vector(self, words: list[str]) -> Matrix:
        vector = np.zeros(self.space.dimensions, np.float32)
        for word in words:
            place, sign = _bucket(word, self.space.dimensions)
            vector[place] += sign
        length = np.linalg.norm(vector)
        if not length:
            # No words, or words that cancel out: still a unit vector, as the interface requires.
            vector[0] = length = 1.0
        return (vector / length).astype(np.float32)


def _words(text: str) -> list[str]:
    return WORD.findall(text.casefold())


def _bucket(word: str, dimensions: int) -> tuple[int, float]:
    # "replace": a lone surrogate is a legal str without a UTF-8 encoding.
    number = int.from_bytes(blake2b(word.encode(errors="replace"), digest_size=8).digest())
    return (number >> 1) % dimensions, 1.0 if number & 1 else -1.0


class FakeClock:
    """Advances only by `move`."""

    def __init__(self, now: datetime = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)) -> None:
        self._now = now
        self._elapsed_ms = 0.0

    def now(self) -> datetime:
        """Return the current time of the clock."""
        return self._now

    def elapsed_ms(self) -> float:
        """Return the total advance in milliseconds."""
        return self._elapsed_ms

    def move(self, by: timedelta) -> None:
        """Move the clock forward, or back: wall clocks do both."""
        self._now += by
        self._elapsed_ms += max(by / timedelta(milliseconds=1), 0.0)


class SeededRandom:
    """Random bits from a seed."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)  # noqa: S311 it is meant to be foreseen

    def bits(self, count: int) -> int:
        """Return `count` bits as an integer of 0 to 2**count - 1."""
        return self._random.getrandbits(count)


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
    parameters: Parameters = DEFAULTS,
) -> Brain:
    """Open a real store; clock, randomness and embedder are deterministic by default."""
    embedder = embedder or WordHashEmbedder()
    clock = clock or FakeClock()
    store = _OPENERS[-1](path, space=embedder.space, clock=clock)
    scanner = SecretScanner()
    artifacts = path.with_name(f"{path.name}.blobs")
    blobs = cache(partial(make_blobs, artifacts))
    trained = make_trained_models(store, artifacts=artifacts, blobs=blobs, clock=clock)
    services = Services(
        store=store,
        embedder=embedder,
        extractor=partial(make_extractor, Settings.model_construct()),
        reflector=ExtractiveReflector(),
        clock=clock,
        random_source=random_source or SeededRandom(),
        journal=WriteBehindQueue(store, scanner, clock=clock, on_written=trained.on_traces_written),
        trained=trained,
        importers=cache(InstalledImporters),
        processes=FakeProcesses(born=NOON),
        queue=LocalQueue(),
        secret_scanner=scanner,
        blobs=blobs,
        uploads=UploadStore(blobs),
        parameters=parameters,
    )
    return Brain(services, Caller(agent=agent, authority=Authority.PERSON))


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
