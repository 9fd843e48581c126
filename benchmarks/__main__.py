"""The benchmarks by name: `speed`, `starts`, `evidence`."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from statistics import median, quantiles

import anyio
import typer
from mcp import Client
from mcp.client.stdio import StdioServerParameters

import commonbrain
from benchmarks.corpus import drafts, questions
from commonbrain.brain import Brain
from commonbrain.flows.remember.pipeline import Course

app = typer.Typer(no_args_is_help=True, add_completion=False)
BRAIN = str(Path(sys.executable).with_name("brain"))
RUNS = 200
STARTS = 7
ASKED = 10


def timed_ms(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return (time.perf_counter() - started) * 1000


def row(name: str, times_ms: Iterable[float]) -> None:
    taken = sorted(times_ms)
    p95 = quantiles(taken, n=20)[-1]
    print(f"{name:<44} p50 {median(taken):8.2f} ms   p95 {p95:8.2f} ms   n {len(taken)}")


@app.command()
def speed(sizes: list[int] = typer.Argument(default=[1000, 10_000])) -> None:  # noqa: B008 Typer's way
    """Warm recall and durable remember in stores of growing size, embedding included."""
    with tempfile.TemporaryDirectory() as folder, commonbrain.open(Path(folder) / "b.db") as brain:
        held = 0
        for size in sorted(sizes):
            seconds = timed_ms(lambda: _fill(brain, held, until=size)) / 1000  # noqa: B023 at once
            print(f"\n{size:,} memories; {(size - held) / seconds:,.0f} imported a second")
            held = size
            asked = questions(RUNS, of=size)
            brain.recall(asked[0])
            row("recall", [timed_ms(lambda: brain.recall(q)) for q in asked])  # noqa: B023
            row(
                "recall in one project",
                [timed_ms(lambda: brain.recall(q, project="project-3")) for q in asked],  # noqa: B023
            )
            fresh = islice(drafts(size + RUNS, seed=size), size, None)
            row("remember, durable", [timed_ms(lambda: brain.remember(d)) for d in fresh])  # noqa: B023
            held += RUNS


@app.command()
def starts(memories: int = 10_000) -> None:
    """A cold `brain recall`, stdio start to first answer, and what an idle server holds."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "b.db"
        with commonbrain.open(store) as brain:
            _fill(brain, 0, until=memories)
        [question] = questions(1, of=memories)
        environment = {**os.environ, "COMMONBRAIN_STORE": str(store)}
        # As an installed program runs: its modules are compiled once, by whoever comes first.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        _run([BRAIN, "recall", "what?"], environment)
        for words in (["--version"], ["recall", question, "--json"]):
            command = [BRAIN, *words]
            run = [timed_ms(lambda: _run(command, environment)) for _ in range(STARTS)]  # noqa: B023
            row("brain " + words[0], run)
        rows = [anyio.run(_stdio, store, question, environment) for _ in range(STARTS)]
        row("stdio: start to first answer", [first for first, _, _ in rows])
        row("stdio: start to first recall", [recalled for _, recalled, _ in rows])
        print(f"stdio: resident after a recall, idle: {median(held for _, _, held in rows):.0f} MB")


@app.command()
def evidence(source: Path, *, show: int = 0) -> None:
    """Share of a LoCoMo file's questions whose evidence is among the first ten recalled."""
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
                found = brain.recall(
                    qa["question"],
                    max_items=ASKED,
                    project=project,
                    max_tokens=4000,
                    bump=False,
                )
                verdicts.append(gold <= {str(item.source_ref) for item in found.items})
                tokens.append(found.tokens)
                if len(verdicts) <= show:
                    print("found " if verdicts[-1] else "missed", qa["question"])
    share = sum(verdicts) / len(verdicts)
    print(f"{share:.1%} of {len(verdicts)} questions: all evidence in the first {ASKED}")
    print(f"median answer {median(tokens)} tokens")


def _fill(brain: Brain, held: int, *, until: int) -> None:
    rest = islice(drafts(until), held, None)
    while batch := list(islice(rest, 64)):
        brain.remember.write(batch, Course(compares_meaning=False))


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
