"""`python -m benchmarks load cost`: processor time of one request, by operation and process."""

from __future__ import annotations

import random
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import count
from typing import Annotated, Any, Final

import httpx2
import typer

from benchmarks.load.monitor import uses
from benchmarks.load.plan import Plan
from benchmarks.load.runs import Folder, planned, postmaster
from benchmarks.load.stack import Stack, stack

_SETTLE_S: Final = 7
"""Longer than the server takes to write traces and heartbeats after its replies."""
_WARM: Final = 200
"""Requests after which statements are prepared and each key has been hashed."""
_AGENTS: Final = 40
_MIX: Final = {"recall": 0.7, "remember": 0.2, "boot": 0.1}
_OPERATIONS: Final = "mix,recall,remember,boot,get,status,health"
Operations = Annotated[
    str, typer.Option(help="Separated by commas; mix is 70% recall, 20% remember, 10% boot.")
]


@dataclass(slots=True, kw_only=True)
class Agents:
    """Agents with a key each, who send one request after the other over one connection."""

    plan: Plan
    http: httpx2.Client
    source: random.Random = field(default_factory=lambda: random.Random(7))
    known: list[str] = field(default_factory=list[str])
    """Ids of memories that the agents have stored, by the number of the agent."""

    def send(self, operation: str, count_: int) -> None:
        """Send so many requests of an operation."""
        for number in range(count_):
            self._send(operation, number % len(self.plan.keys))

    def store_memories(self) -> None:
        """Store a memory for each agent, for those operations that read one."""
        replies = [self._send("remember", number) for number in range(len(self.plan.keys))]
        self.known = [str(reply["items"][0]["id"]) for reply in replies]

    def _send(self, operation: str, agent: int) -> dict[str, Any]:
        if operation == "mix":
            [operation] = self.source.choices([*_MIX], [*_MIX.values()])
        headers = {
            "Authorization": f"Bearer {self.plan.keys[agent]}",
            "Commonbrain-Session": f"cost-{agent}",
        }
        if operation == "health":
            answer = self.http.get("/healthz")
        else:
            body = self._body(operation, agent)
            answer = self.http.post(f"/v1/{operation}", json=body, headers=headers)
        if answer.status_code != HTTPStatus.OK:
            raise SystemExit(f"{operation}: {answer.status_code} {answer.text[:300]}")
        return answer.json()

    def _body(self, operation: str, agent: int) -> dict[str, Any]:
        match operation:
            case "recall":
                return {"query": self.source.choice(self.plan.questions)}
            case "remember":
                words = " ".join(self.source.sample(self.plan.words, 20))
                text = f"Agent {agent} noted {words} as {self.plan.mark} {next(_NUMBERS)}."
                return {"text": text, "kind": "fact", "project": f"project-{agent % 20}"}
            case "get":
                return {"id": self.known[agent]}
            case _:
                return {}


_NUMBERS: Final = count()


def cost(
    folder: Folder,
    requests: int = 400,
    rounds: int = 2,
    operations: Operations = _OPERATIONS,
) -> None:
    """Send requests one after the other to a server, and print what each costs.

    The processor time of every process is counted, so that a busy machine changes little. `health`
    touches no store: the other figures can be compared with it on any machine.
    """
    named = operations.split(",")
    with stack(folder, workers=1) as running:
        # Jobs would be counted with whatever request is under way.
        worker = running.processes.pop("worker")
        worker.terminate()
        worker.wait()
        plan = planned(running, folder, agents=_AGENTS)
        with httpx2.Client(base_url=running.url, timeout=plan.timeout_s) as http:
            agents = Agents(plan=plan, http=http)
            agents.store_memories()
            for operation in ("mix", *named):
                agents.send(operation, _WARM if operation == "mix" else _AGENTS)
            spent: dict[str, list[Mapping[str, float]]] = defaultdict(list)
            for operation in named * rounds:
                spent[operation].append(_spent(running, agents, operation, requests=requests))
    print("\n".join(_lines(spent)))


def _spent(running: Stack, agents: Agents, operation: str, *, requests: int) -> dict[str, float]:
    """Return the milliseconds of processor of each part for one request of an operation."""
    server = running.processes["server"]
    parts = {"server": server.pid, "postgres": postmaster(running.folder)}
    before = uses(parts)
    agents.send(operation, requests)
    with suppress(subprocess.TimeoutExpired):
        server.wait(_SETTLE_S)
    return {
        name: (use.processor_s - before[name].processor_s) * 1000 / requests
        for name, use in uses(parts).items()
    }


def _lines(spent: Mapping[str, Sequence[Mapping[str, float]]]) -> Iterator[str]:
    """Return a table: the least of all rounds, since other work only adds to it."""
    parts = ("server", "postgres")
    yield f"{'ms of processor':<16}" + "".join(
        f"{name:>10}" for name in (*parts, "all", "x health")
    )
    least = {name: min(rounds, key=lambda one: sum(one.values())) for name, rounds in spent.items()}
    health = sum(least.get("health", {}).values())
    for operation, each in least.items():
        every = sum(each.values())
        cells = "".join(f"{each[name]:10.2f}" for name in parts) + f"{every:10.2f}"
        yield f"{operation:<16}{cells}" + (f"{every / health:10.1f}" if health else "")
