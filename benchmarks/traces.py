"""How long traces take over a great web of causes, three links an atom."""

import random
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import typer

import commonbrain
from commonbrain.causality.result import TraceResult
from commonbrain.client import Brain
from commonbrain.model import ids
from commonbrain.model.kinds import AtomDetail, Kind
from commonbrain.model.links import LinkType
from commonbrain.testing.builders import NOON, a_memory
from tests.storage.store_steps import a_link

app = typer.Typer()
_RUNS = 100
_TYPES = (LinkType.CAUSES, LinkType.CAUSES, LinkType.ENABLES, LinkType.PRECEDES)
_PARTS = ("disk", "queue", "cache", "index", "broker", "proxy", "worker", "ledger", "cart", "mail")
_ACTIONS = ("filled", "stalled", "restarted", "leaked", "drifted", "timed out", "dropped", "froze")
_BACK = 0.001
_NEAR = 2000
"""A cause is at most so many atoms older than its effect."""


@app.command()
def trace(atoms: int = typer.Argument(default=100_000)) -> None:
    """Measure traces from random atoms; one link in a thousand closes a circle."""
    with tempfile.TemporaryDirectory() as folder, commonbrain.open(Path(folder) / "b.db") as brain:
        random_source = random.Random(7)
        _fill(brain, atoms, random_source=random_source)
        traces: dict[str, Callable[[str], TraceResult]] = {
            "causes": brain.trace.causes,
            "effects": brain.trace.effects,
            "dependents": brain.trace.dependents,
            "before": brain.trace.before,
        }
        start_ids = [ids.show(ids.MEMORY, random_source.randint(1, atoms)) for _ in range(_RUNS)]
        early_ids = [ids.show(ids.MEMORY, random_source.randint(1, 20)) for _ in range(_RUNS)]
        for name, trace_of in traces.items():
            _measure(name, trace_of, start_ids)
        _measure("causes, ends near", brain.trace.causes, early_ids)
        words = [f"the broker stalled in zone {zone}" for zone in range(1, 21)]
        for trace_of in (brain.trace.causes, brain.trace.before, brain.trace.patterns):
            _measure(f"{trace_of.__name__}, by words", trace_of, words)
        _measure("deepen", brain.trace.deepen, words)


def _measure(name: str, trace_of: Callable[[str], TraceResult], starts: list[str]) -> None:
    walls, works, steps = list[float](), list[float](), list[int]()
    for start in starts:
        wall, work = time.perf_counter(), time.process_time()
        steps.append(len(trace_of(start).steps))
        walls.append((time.perf_counter() - wall) * 1000)
        works.append((time.process_time() - work) * 1000)
    p95 = statistics.quantiles(walls, n=20)[-1]
    print(
        f"{name:<18} p50 {statistics.median(walls):7.1f} ms p95 {p95:7.1f} "
        f"(process p50 {statistics.median(works):.1f}), {statistics.fmean(steps):.0f} steps"
    )


def _fill(brain: Brain, atoms: int, *, random_source: random.Random) -> None:
    with brain.services.store.begin(brain.caller.tenant) as tx:
        for id_ in range(1, atoms + 1):
            part, done = random_source.choice(_PARTS), random_source.choice(_ACTIONS)
            zone = random_source.randint(1, 400)
            also = random_source.choice(_PARTS), random_source.choice(_ACTIONS)
            after = f"the {also[0]} {also[1]} in zone {zone}"
            action = f"{done} in zone {zone}"
            detail = AtomDetail(subject=f"the {part}", action=action, outcome=after)
            text = f"the {part} {action}, and {after} (case {id_})"
            memory = a_memory(
                id_, text, kind=Kind.ATOM, detail=detail, occurred_at=NOON + timedelta(minutes=id_)
            )
            tx.memories.add(memory)
            tx.index.put(memory, None)
        for id_ in range(2, atoms + 1):
            for _ in range(3):
                cause = random_source.randint(max(1, id_ - _NEAR), id_ - 1)
                ends = (id_, cause) if random_source.random() < _BACK else (cause, id_)
                strength = random_source.random()
                tx.links.replace(
                    a_link(*ends, type=random_source.choice(_TYPES), strength=strength)
                )
