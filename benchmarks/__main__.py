"""The benchmarks by name: `python -m benchmarks --help` lists them."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import anyio
import typer
from mcp import Client
from mcp.client.stdio import StdioServerParameters

import commonbrain
from benchmarks.atom_fields import app as atom_fields
from benchmarks.attacks import attacks
from benchmarks.boot import app as boot
from benchmarks.corpus import questions
from benchmarks.distribution import distributed
from benchmarks.embedders import embedders
from benchmarks.growth import growth
from benchmarks.hook_faults import app as hook_faults
from benchmarks.hooks import app as hooks
from benchmarks.invalidation import app as invalidation
from benchmarks.large_stores import EMBEDDED, Filling
from benchmarks.lists import app as lists
from benchmarks.load.cost import cost
from benchmarks.load.neighbours import nearest, neighbours
from benchmarks.load.recalls import load
from benchmarks.load.soak import soak
from benchmarks.messages import app as messages
from benchmarks.page import page
from benchmarks.peers.comparison import peers
from benchmarks.sealed import app as sealed
from benchmarks.shared_file import shared_file
from benchmarks.shared_process import app as shared_process
from benchmarks.sizes import app as sizes
from benchmarks.stages import RUNS, Watched, measure, print_growth, ratio_lines
from benchmarks.table import table
from benchmarks.telemetry import app as telemetry
from benchmarks.timing import Timing, timed
from benchmarks.traces import app as traces
from benchmarks.transcripts import transcripts
from benchmarks.writes import app as writes

app = typer.Typer(no_args_is_help=True, add_completion=False)
app.add_typer(attacks)
app.add_typer(sealed)
app.add_typer(shared_file)
app.add_typer(invalidation)
app.add_typer(hooks)
app.add_typer(hook_faults)
app.add_typer(boot)
app.add_typer(messages)
app.add_typer(traces)
app.add_typer(atom_fields)
app.add_typer(embedders)
app.add_typer(distributed)
load.command()(soak)
load.command()(neighbours)
load.command()(nearest)
load.command()(cost)
app.add_typer(load, name="load")
app.add_typer(telemetry)
app.add_typer(lists)
app.add_typer(sizes)
app.add_typer(peers)
app.add_typer(table)
app.add_typer(growth)
app.add_typer(shared_process)
app.add_typer(writes)
app.add_typer(page)
app.add_typer(transcripts)
BRAIN = str(Path(sys.executable).with_name("brain"))
STARTS = 7
ASKED = 10


@app.command()
def speed(sizes: list[int] = typer.Argument(default=[1000, 10_000])) -> None:  # noqa: B008 Typer's way
    """Measure recall and remember in stores of growing size, embedding included.

    The first 4,000 notes are embedded, the rest borrow their vectors with some noise, so that
    100,000 take minutes; what is asked and what is timed while remembered is embedded for real.
    Where wall time is longer than process time, other programs used the processor.
    """
    growth: dict[int, dict[str, Timing]] = {}
    with tempfile.TemporaryDirectory() as folder, commonbrain.open(Path(folder) / "b.db") as brain:
        watched = Watched.of(brain)
        fill = Filling.of(brain)
        held = 0
        for size in sorted(sizes):
            filled = timed(lambda: fill(held, until=size))  # noqa: B023 at once
            rate = (size - held) / filled.wall_ms * 1000
            borrowed = ", some vectors borrowed" if size > EMBEDDED else ""
            print(f"\n{size:,} memories; {rate:,.0f} imported a second{borrowed}")
            growth[size] = measure(watched, size)
            for name, timing in growth[size].items():
                print(timing.line(name))
            print("\n".join(ratio_lines(growth[size])))
            held = size + RUNS
    print_growth(growth)


@app.command()
def starts(memories: int = 10_000) -> None:
    """Measure a cold `brain recall`, the start of the MCP server and its idle memory."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "b.db"
        with commonbrain.open(store) as brain:
            Filling.of(brain)(0, until=memories)
        [question] = questions(1, of=memories)
        environment = {**os.environ, "COMMONBRAIN_STORE": str(store)}
        # As an installed program runs: its modules are compiled once, by the first process.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        _run([BRAIN, "recall", "what?"], environment)
        for words in (["--version"], ["recall", question, "--json"]):
            command = [BRAIN, *words]
            run = [timed(lambda: _run(command, environment)).wall_ms for _ in range(STARTS)]  # noqa: B023
            print(f"brain {words[0]:<38} p50 {median(run):8.2f} ms")
        rows = [anyio.run(_stdio, store, question, environment) for _ in range(STARTS)]
        for place, name in enumerate(("first answer", "first recall")):
            print(f"stdio: start to {name:<28} p50 {median(row[place] for row in rows):8.2f} ms")
        print(f"stdio: resident after a recall, idle: {median(held for _, _, held in rows):.0f} MB")


@app.command()
def evidence(source: Path, *, show: int = 0) -> None:
    """Print the share of a LoCoMo file's questions whose evidence is in the first ten results."""
    samples = json.loads(source.read_text("utf-8"))
    with tempfile.TemporaryDirectory() as folder, commonbrain.open(Path(folder) / "b.db") as brain:
        brain.import_("conversations", source)
        verdicts: list[bool] = []
        tokens: list[int] = []
        for sample in samples:
            for qa in sample["qa"]:
                gold = {f"{sample['sample_id']}#{turn}" for turn in qa.get("evidence", [])}
                if not gold:
                    continue
                project = sample["sample_id"]
                results = brain.recall(
                    qa["question"],
                    max_items=ASKED,
                    project=project,
                    max_tokens=4000,
                    bump=False,
                )
                verdicts.append(gold <= {str(item.source_ref) for item in results.items})
                tokens.append(results.tokens)
                if len(verdicts) <= show:
                    print("found " if verdicts[-1] else "missed", qa["question"])
    share = sum(verdicts) / len(verdicts)
    print(f"{share:.1%} of {len(verdicts)} questions: all evidence in the first {ASKED}")
    print(f"median answer {median(tokens)} tokens")


def _run(command: list[str], environment: dict[str, str]) -> None:
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=60)  # noqa: S603


async def _stdio(
    store: Path, question: str, environment: dict[str, str]
) -> tuple[float, float, float]:
    """Start a server and ask it twice: ms to the tool list, ms to a recall, resident MB."""
    started = time.perf_counter()
    server = StdioServerParameters(
        command=BRAIN, args=["--store", str(store), "mcp"], env=environment
    )
    async with Client(server) as client:
        await client.list_tools()
        first = (time.perf_counter() - started) * 1000
        await client.call_tool("recall", {"query": question})
        recalled = (time.perf_counter() - started) * 1000
        return first, recalled, _resident_mb(str(store))


def _resident_mb(store: str) -> float:
    """Read the memory of the server of a store from /proc, where there is one."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (entry / "cmdline").read_bytes().split(b"\0")
            if store.encode() in arguments and b"mcp" in arguments:
                return int((entry / "statm").read_text().split()[1]) * 4096 / 1e6
        except OSError:
            continue
    return float("nan")


if __name__ == "__main__":
    app()
