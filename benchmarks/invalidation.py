"""How long a supersede takes whose old text much rests on, marks and archiving included."""

import statistics
import tempfile
import time
from pathlib import Path

import typer

import commonbrain
from commonbrain.client import Brain
from commonbrain.model import ids
from commonbrain.model.kinds import Kind
from commonbrain.model.links import LinkType
from commonbrain.storage.interface import Direction
from commonbrain.testing.builders import a_memory
from tests.storage.store_steps import a_link

app = typer.Typer()
_RUNS = 7


@app.command()
def cascade(sizes: list[int] = typer.Argument(default=[100, 1000, 10_000])) -> None:  # noqa: B008 Typer's way
    """Supersede a memory that so many depend on, half of them directly, and restore it.

    Where wall time is longer than process time, other programs used the processor.
    """
    for size in sizes:
        with (
            tempfile.TemporaryDirectory() as folder,
            commonbrain.open(Path(folder) / "b.db") as brain,
        ):
            with brain.services.store.begin(brain.caller.tenant) as tx:
                for id_ in range(1, size + 2):
                    tx.memories.add(a_memory(id_, f"memory {id_}", kind=Kind.EVENT))
                for id_ in range(2, size + 2):
                    on = 1 if id_ % 2 == 0 else id_ - 1
                    tx.links.replace(a_link(id_, on, type=LinkType.DERIVED_FROM))
            support, walls, works = ids.show(ids.MEMORY, 1), list[float](), list[float]()
            restore_ms, forget_ms = list[float](), list[float]()
            for run in range(_RUNS):
                wall, work = time.perf_counter(), time.process_time()
                done = brain.revise.supersede(support, f"Revision {run} of it", reason="measured")
                walls.append((time.perf_counter() - wall) * 1000)
                works.append((time.process_time() - work) * 1000)
                if done.affected is None:
                    raise RuntimeError(done.status)
                for times, change in (
                    (restore_ms, _restore),
                    (forget_ms, _forget),
                    (restore_ms, _restore),
                ):
                    work = time.process_time()
                    change(brain, support)
                    times.append((time.process_time() - work) * 1000)
            with brain.services.store.snapshot(brain.caller.tenant) as tx:
                wall = time.perf_counter()
                tx.graph.walk([1], Direction.AGAINST, types=[LinkType.DERIVED_FROM], limit=size)
                walked = (time.perf_counter() - wall) * 1000
            print(
                f"{size:>6,} resting: supersede p50 {statistics.median(walls):8.1f} ms "
                f"(process {statistics.median(works):.1f}), process of restore "
                f"{statistics.median(restore_ms):.1f}, "
                f"of forget {statistics.median(forget_ms):.1f}, walk {walked:.1f} ms"
            )


def _restore(brain: Brain, support: str) -> None:
    brain.revise.restore(support, reason="measured")


def _forget(brain: Brain, support: str) -> None:
    brain.forget(support, reason="measured")
