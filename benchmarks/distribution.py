"""What calls cost on one server, and on clusters of one, two and three workers."""

from __future__ import annotations

import os
import random
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import numpy as np
import psycopg
import typer
from commonbrain_server.postgres.opening import distribute_postgres
from commonbrain_server.stores import upgrade_store

from benchmarks.corpus import drafts, questions
from benchmarks.load.bulk import Bulk
from benchmarks.load.dataset import Clusters, sizes
from benchmarks.load.monitor import uses
from commonbrain.client import Brain
from commonbrain.model.limits import LOCK_TIMEOUT_S
from commonbrain.runtime.bootstrap import open_brain
from commonbrain.runtime.models import make_embedder
from commonbrain.runtime.settings_loading import load_settings
from tests.citus import CitusServer, cluster

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.postgres import Database

distributed = typer.Typer()
_SHARDS: Final = {"citus.shard_count": "6"}
"""Shared evenly by one, two and three workers."""
_WRITE_EVERY: Final = 5
"""One call in so many remembers, the others recall."""
_EMBEDDED: Final = 200
"""Notes whose vectors are real; every other vector lies near one of theirs."""
_WARM: Final = 48
"""Calls that are not counted: connections open and plans are made."""


@distributed.command("distributed")
def compare(
    programs: Annotated[Path, typer.Argument(help="The folder that `tests.citus_build` prints.")],
    memories: int = 20_000,
    tenants: int = 24,
    calls: int = 400,
    threads: int = 4,
) -> None:
    """Measure recall and remember on several servers, and each server's processor time.

    All servers share this machine, so processor time per call and its split say more than rates.
    """
    bodies = [draft.body for draft in drafts(_EMBEDDED)]
    embedded = make_embedder(load_settings()).passages(bodies)
    clusters = Clusters(np.stack([windows[0] for windows in embedded]))
    for workers in (0, 1, 2, 3):
        with (
            tempfile.TemporaryDirectory() as state,
            cluster(programs, workers=workers, is_durable=True, settings=_SHARDS) as server,
            server.plain_database(is_empty=True) as database,
        ):
            os.environ |= {"COMMONBRAIN_STORE": database.program, "COMMONBRAIN_STATE": state}
            _fill(server, database, clusters, sizes=sizes(memories, tenants))
            load = Load(calls=calls, threads=threads, tenants=tenants)
            print(load.run(server).line(workers), flush=True)


def _fill(
    server: CitusServer, database: Database, clusters: Clusters, *, sizes: Sequence[int]
) -> None:
    """Fill a plain store, and distribute it if there are workers."""
    upgrade_store(database.owner, role=server.program)
    with closing(psycopg.connect(database.owner)) as connection:
        [(space,)] = connection.execute("SELECT id FROM spaces").fetchall()
    now = datetime.now(UTC)
    bulk = Bulk(url=database.owner, clusters=clusters, space_id=space, agents=4, now=now)
    known = bulk.indexes()
    for number, size in enumerate(sizes):
        bulk.fill(f"tenant-{number}", size, seed=number)
    bulk.index(known)
    if server.nodes:
        server.install(database.name)
        distribute_postgres(database.owner, lock_timeout_s=LOCK_TIMEOUT_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Calls of many tenants from one process."""

    calls: int
    threads: int
    tenants: int

    def run(self, server: CitusServer) -> Cost:
        """Make the calls; return their cost."""
        source = random.Random(1)
        queries = source.choices(questions(2000, of=20_000), k=self.calls + _WARM)
        noted = [draft.body for draft in drafts(self.calls + _WARM, seed=99)]
        with open_brain(tenant="tenant-0", agent="agent-0") as first:
            brains = [
                Brain(first.services, replace(first.caller, tenant=f"tenant-{number}"))
                for number in range(self.tenants)
            ]

            def call(number: int) -> None:
                brain = brains[number % self.tenants]
                if number % _WRITE_EVERY:
                    brain.recall(queries[number])
                else:
                    brain.remember(f"{noted[number]} ({number})")

            with ThreadPoolExecutor(self.threads) as pool:
                list(pool.map(call, range(_WARM)))
                before, since = _processor_s(server), time.perf_counter()
                list(pool.map(call, range(_WARM, _WARM + self.calls)))
                wall_s = time.perf_counter() - since
                after = _processor_s(server)
        spent = {name: after[name] - before[name] for name in after}
        return Cost(calls=self.calls, wall_s=wall_s, processor_s=spent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What some calls took."""

    calls: int
    wall_s: float
    processor_s: Mapping[str, float]

    def line(self, workers: int) -> str:
        """Describe it."""
        each = {name: spent / self.calls * 1000 for name, spent in self.processor_s.items()}
        split = ", ".join(f"{name} {ms:.1f}" for name, ms in each.items())
        name = f"{workers} worker{'s' * (workers > 1)}" if workers else "one server"
        return (
            f"{name:<11} {self.calls / self.wall_s:6.1f} calls a second; "
            f"{sum(each.values()):6.1f} ms of processor a call: {split}"
        )


def _processor_s(server: CitusServer) -> dict[str, float]:
    """Read the processor time of the program and of each server."""
    name = "coordinator" if server.nodes else "Postgres"
    parts = {name: server.coordinator.pid}
    parts |= {f"worker {number}": node.pid for number, node in enumerate(server.nodes, 1)}
    spent = {name: use.processor_s for name, use in uses(parts).items()}
    return {"program": time.process_time(), **spent}
