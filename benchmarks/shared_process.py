"""What each further agent costs that shares a store's process, and what a takeover costs."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import IO, Any

import psutil
import typer

import commonbrain
from benchmarks.corpus import questions
from benchmarks.large_stores import Filling
from benchmarks.timing import timed

app = typer.Typer()
BRAIN = str(Path(sys.executable).with_name("brain"))
CALLS = 40
TAKEOVERS = 3
MEGABYTE = 1_000_000


@dataclass(slots=True)
class Agent:
    """A running `brain mcp` and its client."""

    process: subprocess.Popen[bytes]
    started: float = field(default_factory=time.perf_counter)
    number: int = 0

    @property
    def pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        """The pipes to its stdin and from its stdout."""
        if self.process.stdin is None or self.process.stdout is None:
            raise RuntimeError
        return self.process.stdin, self.process.stdout

    def request(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a request and wait for its answer."""
        self.number += 1
        to, of = self.pipes
        message = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}
        to.write(json.dumps(message).encode() + b"\n")
        to.flush()
        if "result" not in json.loads(of.readline()):
            raise RuntimeError(method)

    def initialize(self) -> float:
        """Shake hands; returns the ms since the start of the process."""
        client = {"name": "benchmark", "version": "1"}
        handshake = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
        self.request("initialize", handshake)
        elapsed = (time.perf_counter() - self.started) * 1000
        to, _ = self.pipes
        to.write(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        return elapsed

    def recall(self, query: str) -> None:
        """Call the tool."""
        self.request("tools/call", {"name": "recall", "arguments": {"query": query}})

    def processor_ms(self) -> float:
        """Return the processor time that the process has used."""
        used = psutil.Process(self.process.pid).cpu_times()
        return (used.user + used.system) * 1000

    def memory(self) -> str:
        """Describe its memory; pages that processes share count in parts for each in PSS."""
        held = psutil.Process(self.process.pid).memory_full_info()
        pss = f", {held.pss / MEGABYTE:.0f} PSS" if hasattr(held, "pss") else ""
        return f"{held.rss / MEGABYTE:.0f} MB{pss}"


@app.command("sharing")
def run(memories: int = 1000, agents: int = 4) -> None:
    """Measure memory, start and calls of agents that share a process, and takeovers."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        store = Path(folder) / "b.db"
        with commonbrain.open(store) as brain:
            Filling.of(brain)(0, until=memories)
        queries = questions(CALLS, of=memories)
        environment = {**os.environ, "COMMONBRAIN_STORE": str(store)}
        # As an installed program runs: its modules are compiled once, by the first process.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        alone = _start(stack, {**environment, "COMMONBRAIN_MCP_SHARED": "off"})
        _measure("alone", alone, queries)
        alone.process.kill()
        alone.process.wait()
        first = _start(stack, environment)
        _measure("first", first, queries)
        further: list[Agent] = []
        for place in range(2, agents + 1):
            further.append(_start(stack, environment))
            _measure(f"agent {place}", further[-1], queries)
        server = first
        for _ in range(min(TAKEOVERS, len(further))):
            server = _take_over(server, further, queries[0])


def _start(stack: ExitStack, environment: Mapping[str, str]) -> Agent:
    process = stack.enter_context(
        subprocess.Popen(  # noqa: S603 our own program
            [BRAIN, "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )
    )
    agent = Agent(process)
    stack.callback(process.kill)
    return agent


def _measure(name: str, agent: Agent, queries: list[str]) -> None:
    initialized = agent.initialize()
    started = agent.processor_ms()
    for query in queries:
        # Embeds the questions, whose vectors agents share too.
        agent.recall(query)
    walls = [timed(lambda: agent.recall(query)).wall_ms for query in queries]  # noqa: B023 at once
    print(
        f"{name:<8} {agent.memory():>18}; initialize after {initialized:6.0f} ms "
        f"({started:5.0f} processor), recall p50 {median(walls):6.1f} ms"
    )


def _take_over(server: Agent, further: list[Agent], query: str) -> Agent:
    """Kill the server and let all others call at once; returns the new server."""
    before = {one.process.pid: one.processor_ms() for one in further}
    server.process.kill()
    server.process.wait()
    at = time.perf_counter()
    for one in further:
        one.recall(query)
    wall = (time.perf_counter() - at) * 1000
    used = {one.process.pid: one.processor_ms() - before[one.process.pid] for one in further}
    successor = max(further, key=lambda one: used[one.process.pid])
    further.remove(successor)
    print(
        f"takeover: all {len(used)} answered after {wall:6.0f} ms, "
        f"{used[successor.process.pid]:6.0f} processor; then {successor.memory()}"
    )
    return successor
