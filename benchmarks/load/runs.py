"""`python -m benchmarks load`: a server of a million memories under the load of 300 agents."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Generator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import psutil
import psycopg
import typer
from commonbrain_server.dev_servers import login, postgres_server
from commonbrain_server.stores import upgrade_store

from benchmarks.corpus import drafts, questions
from benchmarks.load.bulk import Bulk
from benchmarks.load.dataset import Clusters, sizes
from benchmarks.load.monitor import Use, uses
from benchmarks.load.plan import Plan
from benchmarks.load.stack import PROGRAM, SETTINGS, Stack, keys, stack
from commonbrain.runtime.models import make_embedder
from commonbrain.runtime.settings_loading import load_settings

load = typer.Typer(help="A shared server under load.", no_args_is_help=True)

_WRITES: Final = 0.2
_ASKED: Final = 2000
_TIMEOUT_S: Final = 30
_CONNECTING_S: Final = 15
"""How long 300 agents that come at once are felt; a fleet of agents does not come at once."""
_WARM_RATE: Final = 40
_SPELL_S: Final = 10
_WARM_S: Final = 90
"""Long enough for nearly every key to be hashed once by each process of the server."""

Folder = Annotated[Path, typer.Argument(help="The folder of the store, which is not deleted.")]


@load.command()
def fill(folder: Folder, memories: int = 1_000_000, tenants: int = 20, agents: int = 300) -> None:
    """Create a store in Postgres with tenants of uneven size."""
    embedder = make_embedder(load_settings())
    clusters = Clusters.of(embedder)
    with postgres_server(folder / "postgres", settings=SETTINGS) as url:
        login(url, PROGRAM)
        upgrade_store(url, role=PROGRAM)
        with closing(psycopg.connect(url)) as connection:
            [(space,)] = connection.execute("SELECT id FROM spaces").fetchall()
        bulk = Bulk(
            url=url,
            clusters=clusters,
            space_id=space,
            agents=agents // tenants,
            now=datetime.now(UTC),
        )
        since = time.monotonic()
        known = bulk.indexes()
        with ProcessPoolExecutor() as pool:
            made = {f"tenant-{n}": size for n, size in enumerate(sizes(memories, tenants))}
            each = [
                pool.submit(bulk.fill, name, size, seed=seed)
                for seed, (name, size) in enumerate(made.items())
            ]
            for one in each:
                one.result()
        print(f"{memories:,} memories written in {time.monotonic() - since:,.0f} s")
        since = time.monotonic()
        bulk.index(known)
        print(f"indexed in {time.monotonic() - since:,.0f} s")


@load.command()
def run(
    folder: Folder,
    rates: Annotated[
        list[float], typer.Argument(help="The requests a second, one rate after the other.")
    ],
    seconds: int = 60,
    agents: int = 300,
    workers: int = 2,
) -> None:
    """Send requests at each rate; four fifths recall, one fifth remembers."""
    with stack(folder, workers=workers) as running:
        plan = planned(running, folder, agents=agents)
        sent(running, plan, rate=_WARM_RATE, seconds=_WARM_S, folder=folder)
        for rate in rates:
            result = sent(running, plan, rate=rate, seconds=seconds, folder=folder)
            print("\n".join(result.lines()), flush=True)


def planned(running: Stack, folder: Path, *, agents: int) -> Plan:
    """Say who asks what of a running server; at which rate is said later."""
    return Plan(
        url=running.url,
        keys=keys(folder, _tenants(running.postgres), agents=agents),
        questions=questions(_ASKED, of=20_000),
        words=sorted({word for draft in drafts(500) for word in draft.body.split()})[:2000],
        rate=0,
        agents=agents,
        writes=_WRITES,
        timeout_s=_TIMEOUT_S,
        report=str(folder / "report.json"),
        ledger=str(folder / "ledger.jsonl"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """The result of a load."""

    rate: float
    seconds: float
    report: dict[str, Any]
    by_spell: Sequence[float]
    """The 95th percentile of each ten seconds, in milliseconds: what a whole run hides."""
    before: dict[str, Use]
    after: dict[str, Use]

    def lines(self) -> list[str]:
        """Describe it: each call, then the processor time of each part for one request."""
        calls = self.report["calls"]
        count = sum(one["count"] for one in calls.values())
        rows = [f"{self.rate:g} requests/s asked for, {count / self.seconds:.1f} answered"]
        rows += [
            f"  {name:<9} n {one['count']:6}  failed {one['failures']:4}  p50 {one['p50_ms']:6.0f}"
            f"  p95 {one['p95_ms']:6.0f}  p99 {one['p99_ms']:6.0f}"
            f"  longest {one['longest_ms']:6.0f} ms"
            for name, one in calls.items()
        ]
        for name, use in self.after.items():
            spent = use.processor_s - self.before[name].processor_s
            rows.append(
                f"  {name:<9} {spent * 1000 / max(count, 1):6.1f} ms of processor a request"
                f" ({spent / self.seconds:4.0%} of a core), {use.resident_mb:6.0f} MB"
                f" ({use.resident_mb - self.before[name].resident_mb:+.0f})"
            )
        rows.append(
            f"  each {_SPELL_S} s: p95 from {min(self.by_spell):.0f} to {max(self.by_spell):.0f} ms"
        )
        return [*rows, *(f"  ! {error}" for error in self.report["errors"][:5])]


def sent(running: Stack, plan: Plan, *, rate: float, seconds: float, folder: Path) -> Sent:
    """Send requests at a rate for so long by Locust, once all agents are connected."""
    plan_file = folder / "plan.json"
    replace(plan, rate=rate, uncounted_s=_CONNECTING_S).write(plan_file)
    parts = {name: one.pid for name, one in running.processes.items()}
    parts["postgres"] = postmaster(folder)
    with sending(running, plan, plan_file, seconds=_CONNECTING_S + seconds) as load_:
        with suppress(subprocess.TimeoutExpired):
            load_.wait(_CONNECTING_S)
        before, since, begun = uses(parts), time.monotonic(), time.time()
        load_.wait()
    report = json.loads(Path(plan.report).read_text("utf-8"))
    took = time.monotonic() - since
    return Sent(
        rate=rate,
        seconds=took,
        report=report,
        by_spell=_by_spell(Path(plan.ledger), since=begun),
        before=before,
        after=uses(parts),
    )


def _by_spell(ledger: Path, *, since: float) -> list[float]:
    """Return the 95th percentile of the answers of each ten seconds from a time on."""
    spells: defaultdict[int, list[float]] = defaultdict(list)
    for line in ledger.read_text("utf-8").splitlines():
        answer = json.loads(line)
        if answer["at"] >= since:
            spells[int(answer["at"] - since) // _SPELL_S].append(answer["ms"])
    return [float(np.percentile(spells[number], 95)) for number in sorted(spells)]


@contextmanager
def sending(
    running: Stack, plan: Plan, plan_file: Path, *, seconds: float
) -> Generator[subprocess.Popen[bytes]]:
    """Send requests by Locust for so long, while something else is done here."""
    command = [sys.executable, "-m", "locust", "-f", str(Path(__file__).with_name("agents.py"))]
    command += ["--headless", "--users", str(plan.agents), "--spawn-rate", "100", "--only-summary"]
    command += ["--run-time", f"{seconds:g}s", "--loglevel", "ERROR"]
    environment = {**running.environment, "COMMONBRAIN_LOAD_PLAN": str(plan_file)}
    with subprocess.Popen(  # noqa: S603 our own command
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as started:
        try:
            yield started
        finally:
            started.terminate()
            started.wait()


def _tenants(url: str) -> list[str]:
    with closing(psycopg.connect(url)) as connection:
        rows = connection.execute("SELECT id FROM tenants WHERE id LIKE 'tenant-%' ORDER BY id")
        return [name for (name,) in rows.fetchall()]


def postmaster(folder: Path) -> int:
    """Find the first process of Postgres, which writes its number into its folder."""
    written = (folder / "postgres" / "data" / "postmaster.pid").read_text("utf-8")
    return psutil.Process(int(written.splitlines()[0])).pid
