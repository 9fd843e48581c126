"""A store in use by two processes, and a plain model of what was acknowledged."""

# ruff: noqa: S311 it is meant to be foreseen

import secrets
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

from sqlalchemy import event

from commonbrain.client import Brain
from commonbrain.clock import Clock
from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.model import ids
from commonbrain.model.limits import LOCK_TIMEOUT_S
from commonbrain.model.memory import FINDABLE_STATES, State
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.retrieval.write_behind import WriteBehindQueue
from commonbrain.security.secrets import SecretScanner
from commonbrain.storage.sqlite.driver import driver
from commonbrain.storage.sqlite.engine import open_sqlite
from commonbrain.storage.store import Store
from commonbrain.testing.builders import FakeClock, SeededRandom, a_brain, use_store_opener
from tests.laid_out_stores import lay_out_store
from tests.simulation.faults import digest_of
from tests.tenant_rows import add_tenant

TENANTS = (LOCAL_TENANT, "acme")
AGENTS = ("ann", "bob", "eve")
WHY = "because the seed says so"
Rows = list[tuple[Any, ...]]


@dataclass(slots=True)
class Modelled:
    """A memory or message as it was last acknowledged; no other contains its word."""

    id: str
    tenant: str
    agent: str
    word: str
    readers: frozenset[str] | None
    """Agents that may see it; None for the team."""
    kind: str = "fact"
    state: State = State.ACTIVE
    by: "Modelled | None" = None
    is_erased: bool = False
    is_pinned: bool = False
    status: str = "open"
    """Of a task."""
    lease: tuple[str, datetime] | None = None
    """Who claimed the task, and until when."""
    tags: set[str] = field(default_factory=set[str])
    notes: set[str] = field(default_factory=set[str])
    links: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Memories to which it leads, and the types of the links."""
    votes: dict[str, int] = field(default_factory=dict[str, int])
    """By agent."""
    read: set[str] = field(default_factory=set[str])
    acked: set[str] = field(default_factory=set[str])
    """Agents that read or acknowledged a message."""
    changes: int = 1
    """How often it was changed since it was stored here; each has a line in the audit."""

    @property
    def number(self) -> int:
        return ids.parse(ids.MEMORY, self.id)

    @property
    def is_message(self) -> bool:
        return self.kind == "message"

    @property
    def is_findable(self) -> bool:
        return self.state in FINDABLE_STATES and not self.is_erased


class UnthreadedQueue(WriteBehindQueue):
    """Writes on request, not by the clock of the machine."""

    def __init__(self, store: Store, scanner: SecretScanner, *, clock: Clock) -> None:
        super().__init__(store, scanner, clock=clock)
        # A queue that is closed starts no thread.
        super().close()

    def close(self) -> None:
        """Write the rest."""
        self.flush()


class World:
    """The files, the clock, the brains of two processes, and the model."""

    def __init__(self, folder: Path, *, seed: int) -> None:
        self.folder = folder
        self.random_source = SeededRandom(seed)
        self.clock = FakeClock()
        self.checkpoint_pages = Random(seed).choice((8, 40, 200, 1000))
        self.numbers = iter(range(1_000_000))
        self.path = self.new_file()
        self.known: list[Modelled] = []
        self.busy: set[str] = set()
        """Ids in use by a call under way, which others leave alone."""
        self.done: Counter[str] = Counter()
        """Calls that did something, by name."""
        self.brains: list[Brain] = []
        self.is_open = False
        self._raw: Any = None
        self.create()

    def new_file(self) -> Path:
        return self.folder / f"{next(self.numbers)}.db"

    def word(self) -> str:
        return f"q{next(self.numbers)}x"

    def create(self) -> None:
        """Open a file that is not there yet."""
        self.open()
        add_tenant(self.brains[0], TENANTS[1])

    def open(self) -> None:
        with ExitStack() as opened, use_store_opener(self._open_store):
            self.brains = [opened.enter_context(self._open_brain()) for _ in range(2)]
            opened.pop_all()
        # Opening a file reads its schema, which takes longer than most of what is read here.
        self._raw = driver().connect(str(self.path), isolation_level=None)
        self.is_open = True

    def _open_brain(self) -> Brain:
        brain = a_brain(self.path, clock=self.clock, random_source=self.random_source)
        old = brain.services
        queue = UnthreadedQueue(old.store, old.secret_scanner, clock=self.clock)
        return Brain(replace(old, journal=queue), brain.caller)

    def _open_store(self, path: Path, *, space: EmbeddingSpace, clock: Clock) -> Store:
        lay_out_store(path)
        store = open_sqlite(
            path, space=space, clock=clock, is_durable=True, lock_timeout_s=LOCK_TIMEOUT_S
        )
        event.listen(store.dialect.engine, "connect", self._on_connect)
        return store

    def _on_connect(self, raw: Any, _record: object) -> None:  # noqa: ANN401 a driver's own
        raw.execute(f"PRAGMA wal_autocheckpoint = {self.checkpoint_pages}").close()

    def close(self) -> None:
        self._raw.close()
        self.is_open = False
        for brain in self.brains:
            brain.close()

    def drop(self) -> None:
        """Close what a crash ended; what it writes now is overwritten."""
        self._raw.close()
        for brain in self.brains:
            brain.services.store.close()
            brain.close()

    def view(self, draw: Random, *, tenant: str, agent: str) -> Brain:
        """Return one of the processes, as an agent uses it."""
        brain = draw.choice(self.brains)
        return Brain(brain.services, replace(brain.caller, tenant=tenant, agent=agent))

    def choose(
        self, draw: Random, fits: Callable[[Modelled], bool] = lambda _: True
    ) -> Modelled | None:
        """Draw a memory that nothing else uses now, nor what superseded it."""
        fitting = [
            one
            for one in self.known
            if fits(one)
            and not one.is_erased
            and one.id not in self.busy
            and (one.by is None or one.by.id not in self.busy)
        ]
        return draw.choice(fitting) if fitting else None

    def unerased(self, links: set[tuple[str, str]]) -> set[tuple[str, str]]:
        """Return the links that lead to what was not erased."""
        erased = {one.id for one in self.known if one.is_erased}
        return {link for link in links if link[0] not in erased}

    @contextmanager
    def rows(self) -> Generator[Callable[..., Rows]]:
        """Read committed rows by SQL."""
        self._raw.execute("BEGIN")

        def rows(statement: str, *given: object) -> Rows:
            return self._raw.execute(statement, given).fetchall()

        try:
            yield rows
        finally:
            self._raw.execute("ROLLBACK")

    def audited(self) -> int:
        """Count the lines of the audit."""
        with self.rows() as rows:
            return rows("SELECT count(*) FROM audit")[0][0]

    def digest(self) -> str:
        return digest_of(self.path)


@contextmanager
def seeded_secrets(seed: int) -> Generator[None]:
    """Let the ids of inner rows and the names of temporary files come from a seed, too."""
    draw, before = Random(seed), (secrets.randbits, secrets.token_bytes, secrets.token_hex)
    secrets.randbits = draw.getrandbits
    secrets.token_bytes = lambda nbytes=None: draw.randbytes(nbytes or 32)
    secrets.token_hex = lambda nbytes=None: draw.randbytes(nbytes or 32).hex()
    try:
        yield
    finally:
        secrets.randbits, secrets.token_bytes, secrets.token_hex = before
