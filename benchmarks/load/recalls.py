"""`python -m benchmarks load recalls`: what each statement of a recall costs Postgres."""

from __future__ import annotations

import os
import random
import time
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean, median
from typing import Any, Final

import psycopg
from commonbrain_server.dev_servers import login, postgres_server
from commonbrain_server.stores import upgrade_store
from sqlalchemy import event
from sqlalchemy.pool import Pool

from benchmarks.corpus import questions
from benchmarks.load.faults import load
from benchmarks.load.runs import Folder
from benchmarks.load.stack import PROGRAM, SETTINGS
from commonbrain.client import Brain
from commonbrain.runtime.bootstrap import open_brain

_WARM: Final = 100
_SHOWN: Final = 14
_NAME_CHARS: Final = 62


@dataclass(slots=True)
class Spent:
    """What the statements of one process cost: processor and wall time in milliseconds."""

    _each: dict[str, list[tuple[float, float]]] = field(
        default_factory=lambda: defaultdict[str, "list[tuple[float, float]]"](list)
    )

    def listen(self) -> None:
        """Hear of every statement of connections that are made from now on."""
        event.listen(Pool, "connect", self._on_connect)

    def forget(self) -> None:
        """Begin anew."""
        self._each.clear()

    def lines(self, recalls: int) -> list[str]:
        """List what costs most for one recall, then all together."""
        dearest = sorted(self._each.items(), key=lambda one: -sum(cpu for cpu, _ in one[1]))
        rows = [
            f"{len(each) / recalls:5.2f}x  processor {mean(cpu for cpu, _ in each):6.2f} ms"
            f"  p50 {median(cpu for cpu, _ in each):6.2f}"
            f"  wall {mean(wall for _, wall in each):6.2f}"
            f"  a recall {sum(cpu for cpu, _ in each) / recalls:6.2f}  {name}"
            for name, each in dearest[:_SHOWN]
        ]
        every = [one for each in self._each.values() for one in each]
        return [
            *rows,
            f"{len(every) / recalls:5.1f} statements a recall,"
            f" {sum(cpu for cpu, _ in every) / recalls:.2f} ms of Postgres' processor,"
            f" {sum(wall for _, wall in every) / recalls:.2f} ms of wall time",
        ]

    def _on_connect(self, connection: psycopg.Connection[Any], _record: object) -> None:
        each = self._each

        class Timed(psycopg.Cursor[Any]):
            """A cursor that records what its statements cost."""

            def execute(self, query: Any, params: Any = None, **options: Any) -> Any:  # noqa: ANN401
                since = time.perf_counter(), processor_ms(connection)
                super().execute(query, params, **options)
                wall = (time.perf_counter() - since[0]) * 1000
                text = query if isinstance(query, str) else query.as_string(connection)
                name = " ".join(text.split())[:_NAME_CHARS]
                each[name].append((processor_ms(connection) - since[1], wall))
                return self

        connection.cursor_factory = Timed


@load.command()
def recalls(folder: Folder, count: int = 400, seed: int = 1, tenants: int = 20) -> None:
    """Recall as agents of every tenant in turn, and print what each statement costs.

    The time of Postgres' own process is counted, so that a busy machine changes little.
    """
    with ExitStack() as running:
        url = running.enter_context(postgres_server(folder / "postgres", settings=SETTINGS))
        os.environ["COMMONBRAIN_STORE"] = login(url, PROGRAM)
        os.environ["COMMONBRAIN_STATE"] = str(folder / "state")
        upgrade_store(url, role=PROGRAM)
        spent = Spent()
        spent.listen()
        brain = running.enter_context(open_brain(tenant="tenant-0", agent="agent-0"))
        brains = [
            Brain(brain.services, replace(brain.caller, tenant=f"tenant-{n}", agent=f"agent-{n}"))
            for n in range(tenants)
        ]
        random_source = random.Random(seed)
        queries = questions(2000, of=20_000)
        for number in range(_WARM + count):
            if number == _WARM:
                spent.forget()
            brains[number % tenants].recall(random_source.choice(queries))
        print("\n".join(spent.lines(count)))


def processor_ms(connection: psycopg.Connection[Any]) -> float:
    """Read how long the process of a connection has run on a processor, as Linux counts it."""
    schedstat = Path(f"/proc/{connection.info.backend_pid}/schedstat").read_text("ascii")
    return int(schedstat.split()[0]) / 1e6
