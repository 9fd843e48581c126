"""Servers of one store, as the clients of several agents start them."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
import psutil
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from benchmarks.processes import BRAIN, Cost, brain_environment

_INITIALIZE: Final = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "benchmark", "version": "1"},
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What one more agent takes, after each agent has recalled once; 0 where it is not known."""

    resident_mb: float
    own_mb: float
    """Its proportional set size: pages that processes share are divided among them."""


def agents_memory(store: Path, questions: list[str]) -> list[Memory]:
    """Start one server for each question, ask each, and measure all in the order of their start."""
    return anyio.run(_measure, store, questions)


async def _measure(store: Path, questions: list[str]) -> list[Memory]:
    server = StdioServerParameters(command=BRAIN, args=["mcp"], env=brain_environment(store))
    started: list[list[psutil.Process]] = []
    async with AsyncExitStack() as clients:
        for question in questions:
            known = {process for processes in started for process in processes}
            client = await clients.enter_async_context(Client(server))
            await client.call_tool("recall", {"query": question})
            started.append([one for one in _children() if one not in known])
        return [_memory(processes) for processes in started]


def _children() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def _memory(processes: list[psutil.Process]) -> Memory:
    held = [process.memory_full_info() for process in processes if process.is_running()]
    return Memory(
        resident_mb=sum(one.rss for one in held) / 1e6,
        own_mb=sum(getattr(one, "pss", 0) for one in held) / 1e6,
    )


def initialize(environment: Mapping[str, str]) -> Cost:
    """Start a server and measure it until it has answered the client's first message."""
    started = time.perf_counter()
    with subprocess.Popen(  # noqa: S603 our own program
        [BRAIN, "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as server:
        if server.stdin is None or server.stdout is None:
            raise RuntimeError
        server.stdin.write(json.dumps(_INITIALIZE).encode() + b"\n")
        server.stdin.flush()
        answer = server.stdout.readline()
        wall = time.perf_counter() - started
        used = psutil.Process(server.pid).cpu_times()
        server.stdin.close()
    return Cost(wall_ms=wall * 1000, process_ms=(used.user + used.system) * 1000, output=answer)
