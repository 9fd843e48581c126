"""`python -m benchmarks listing`: pages and facets of a long list of memories, on both engines."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from time import process_time
from typing import Annotated, Any, Final, NoReturn

import psutil
import psycopg
import typer
from commonbrain_server.dev_servers import login, postgres_server
from commonbrain_server.stores import copy_store, upgrade_store

import commonbrain
from benchmarks.corpus import drafts
from benchmarks.large_stores import Filling
from benchmarks.load.monitor import processor_s
from benchmarks.machine import describe_machine
from commonbrain.client import Brain
from commonbrain.embeddings.interface import Embedder, EmbeddingSpace
from commonbrain.history.unit_of_work import write_unit
from commonbrain.model.errors import UnavailableError
from commonbrain.model.memory import Draft
from commonbrain.model.revision import Action, superseded
from commonbrain.model.scope import Scope
from commonbrain.testing.builders import FakeClock

app = typer.Typer()
_NOW: Final = datetime(2026, 6, 1, tzinfo=UTC)
_SPAN: Final = timedelta(days=2 * 365)
_KINDS: Final = ("fact",) * 5 + ("event",) * 3 + ("rule", "incident")
_LABELS: Final = (None, None, "decision", "convention", "preference", "bug", "release")
_AGENTS: Final = ("ann", "bob", "codex", "claude-code", "cursor")
_TAGS: Final = 300
_PRIVATE: Final = 0.05
_SUPERSEDED: Final = 10
"""One of so many memories is superseded."""
_BATCH: Final = 320
_CALLS: Final = 20
_PROGRAM: Final = "listing_program"
_LISTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "all, last recorded first": {},
    "all, first occurrence first": {"order": "occurred_oldest"},
    "one project of twenty": {"project": "project-3", "order": "occurred"},
    "one label of six": {"labels": ["bug"], "order": "occurred"},
    "a rare tag": {"tags": ["tag-277"], "order": "occurred"},
    "one kind, half of all": {"kinds": ["fact"]},
    "the last half year": {"since": "2025-12-01"},
}


@dataclass(frozen=True, slots=True)
class NoEmbedder:
    """Embeds nothing: no list needs a vector, and copying a store copies them all."""

    space: EmbeddingSpace

    def query(self, text: str) -> NoReturn:
        """Embed no query."""
        raise UnavailableError(f"Nothing embeds {text[:20]!r}.", code="embedder_down")

    def passages(self, texts: Sequence[str]) -> NoReturn:
        """Embed no text."""
        raise UnavailableError(f"Nothing embeds {len(texts)} texts.", code="embedder_down")


def varied(count: int) -> Iterator[tuple[str, Draft]]:
    """Yield authors, and memories of two years of several kinds, labels, tags and scopes."""
    random_source = random.Random(7)
    for number, draft in enumerate(drafts(count)):
        tags = {
            f"tag-{int(random_source.paretovariate(0.7)) % _TAGS}"
            for _ in range(random_source.randint(0, 3))
        }
        yield (
            _AGENTS[min(int(random_source.expovariate(0.7)), len(_AGENTS) - 1)],
            replace(
                draft,
                kind=random_source.choice(_KINDS),
                label=random_source.choice(_LABELS),
                project=None if number % 11 == 0 else draft.project,
                tags=tuple(sorted(tags)),
                scope=Scope.PRIVATE if random_source.random() < _PRIVATE else None,
                occurred_at=_NOW - _SPAN * random_source.random(),
            ),
        )


def fill(brain: Brain, count: int, *, embedder: Embedder | None = None) -> None:
    """Store memories of several agents over two years; some are superseded.

    Without an embedder, they get no vectors.
    """
    clock = FakeClock(_NOW - _SPAN)
    services = replace(
        brain.services,
        clock=clock,
        embedder=embedder or NoEmbedder(brain.services.embedder.space),
    )
    rest = varied(count)
    while given := list(islice(rest, _BATCH)):
        for agent in _AGENTS:
            author = Brain(services, replace(brain.caller, agent=agent))
            own = [draft for one, draft in given if one == agent]
            for batch in (own[at : at + 64] for at in range(0, len(own), 64)):
                _supersede(author, Filling(author).write(batch))
        clock.move(_SPAN * len(given) / count)


def _supersede(brain: Brain, ids: Sequence[int]) -> None:
    pairs = [(ids[at], ids[at + 1]) for at in range(0, len(ids) - 1, _SUPERSEDED)]
    with write_unit(brain.services, brain.caller) as unit:
        memories = unit.tx.memories.get(list(ids))
        for old, new in pairs:
            unit.amend(
                memories[old],
                superseded(memories[old], by=new, at=unit.now),
                action=Action.SUPERSEDE,
                reason="A newer value.",
            )


@app.command("listing")
def measure_lists(
    *,
    memories: Annotated[int, typer.Option(help="The number of memories in the store.")] = 100_000,
    file: Annotated[
        Path | None, typer.Option(help="Fill this file, or measure it if it exists.")
    ] = None,
    postgres: Annotated[bool, typer.Option(help="Copy the store to Postgres too.")] = True,
) -> None:
    """Measure the first, a middle and the last page of lists, and a page with facets.

    Times are ms of processor time a call, that of Postgres' processes included.
    """
    print(describe_machine())
    with tempfile.TemporaryDirectory() as folder:
        store = file or Path(folder) / "brain.db"
        if not store.exists():
            with commonbrain.open(store) as brain:
                fill(brain, memories)
        _print("SQLite", str(store), Processor())
        if postgres:
            with postgres_server() as url:
                program = login(url, _PROGRAM)
                upgrade_store(url, role=_PROGRAM)
                copy_store(store, program)
                with closing(psycopg.connect(url, autocommit=True)) as owner:
                    owner.execute("VACUUM ANALYZE")
                    server = psutil.Process(owner.info.backend_pid).parent()
                _print("Postgres", program, Processor(server))


@dataclass(frozen=True, slots=True)
class Processor:
    """How long this process, and those of a server, have run on a processor."""

    server: psutil.Process | None = None

    def used_s(self) -> float:
        """Read it."""
        others = [self.server, *self.server.children()] if self.server else []
        return process_time() + sum(map(processor_s, others))

    def each_ms(self, call: Callable[[], object]) -> float:
        """Measure calls, the first of which is not counted."""
        call()
        before = self.used_s()
        for _ in range(_CALLS):
            call()
        return (self.used_s() - before) / _CALLS * 1000


def _print(engine: str, store: str, processor: Processor) -> None:
    columns = ("first page", "middle", "last", "of 200", "with facets")
    print(f"\n{engine:<30}{''.join(f'{name:>13}' for name in columns)}   ms")
    with commonbrain.open(store) as brain:
        reader = brain.acting_as(agent=_AGENTS[0])
        for name, filters in _LISTS.items():
            pages = [reader.list, *_places(reader, filters)]
            calls = [
                *(partial(page, **filters) for page in pages),
                partial(reader.list, limit=200, **filters),
                partial(reader.list, facets=True, **filters),
            ]
            times = (processor.each_ms(call) for call in calls)
            print(f"{name:<30}{''.join(f'{time:13.1f}' for time in times)}", flush=True)


def _places(brain: Brain, filters: Mapping[str, Any]) -> Iterator[Callable[..., object]]:
    """Yield the calls of a middle and the last page, whose cursors are found page by page."""
    cursors: list[str] = []
    page = brain.list(limit=200, **filters)
    while page.next is not None:
        cursors.append(page.next)
        page = brain.list(limit=200, cursor=page.next, **filters)
    for place in (len(cursors) // 2, len(cursors) - 1):
        yield partial(brain.list, cursor=cursors[place] if cursors else None)
