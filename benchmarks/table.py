"""`python -m benchmarks table`: every ratio that the project holds itself to, in one run."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Final
from uuid import uuid4

import typer

import commonbrain
from benchmarks.agents import agents_memory, initialize
from benchmarks.call_profile import count_visits
from benchmarks.corpus import drafts, questions
from benchmarks.hooks import served
from benchmarks.large_stores import Filling
from benchmarks.lower_bounds import (
    embed_in_batches,
    open_insert,
    time_recall_floor,
    time_remember_floor,
)
from benchmarks.machine import describe_machine
from benchmarks.peers.comparison import ratios
from benchmarks.peers.conversations import read_conversations
from benchmarks.peers.driver import LIMIT, measure
from benchmarks.peers.environments import environments_folder, prepare
from benchmarks.peers.systems import PEERS, REFERENCE
from benchmarks.processes import (
    BRAIN,
    Cost,
    brain_environment,
    medians,
    run,
    run_python,
)
from benchmarks.stages import Watched
from benchmarks.timing import Timing, timed, timing
from commonbrain.model.limits import HOOK_PROMPT_TIMEOUT_S
from commonbrain.runtime.models import make_embedder
from commonbrain.runtime.settings_loading import load_settings

table = typer.Typer()
_BULK_SEED: Final = 5
"""Other notes than those that the store is filled with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How often each thing is measured."""

    starts: int
    cold_hooks: int
    calls: int
    imported: int
    sizes: tuple[int, ...]
    turns: int
    """Of LoCoMo."""


_FULL: Final = Effort(
    starts=7, cold_hooks=20, calls=100, imported=500, sizes=(1000, 10_000), turns=3000
)
_QUICK: Final = Effort(starts=3, cold_hooks=5, calls=30, imported=200, sizes=(1000,), turns=400)


@dataclass(frozen=True, slots=True)
class Target:
    """A ratio or figure to reach, and the reason for it."""

    bound: str
    reason: str


VERSION: Final = Target("<= 6", "It needs the interpreter and one module of the library.")
COLD_RECALL: Final = Target("<= 3.2", "The libraries of the model are imported in any case.")
SERVED_HOOK: Final = Target("<= 4", "It exchanges one line with a server; prompts wait for it.")
SERVED_RECALL: Final = Target("none", "It prints for people what a server found.")
COLD_HOOK: Final = Target(">= 0.99", "A hook that is late adds nothing to the prompt.")
INITIALIZE: Final = Target("<= 1.2", "Clients drop a server that answers late.")
FURTHER_AGENT: Final = Target("<= 40 MB", "Five agents then take less than two servers.")
RECALL: Final[Mapping[int, Target]] = {
    1000: Target("<= 1.5", "Ranking and packing take as long in every store."),
    10_000: Target("<= 1.5", "The searches take longer, ranking and packing do not."),
}
"""By the size of the store."""
RECALL_LARGE: Final = Target("<= 1.4", "The searches take most of the time.")
REMEMBER: Final = Target("<= 1.5", "It checks duplicates and changes by the same vector.")
IMPORT: Final = Target(">= 0.7", "An import stores a batch while it embeds the next one.")
VISITED: Final = Target("<= 30, 220, 1,500", "Whoever changes ranking can read all of it.")
VISITED_WRITE: Final = Target("<= 36 modules", "It checks what a recall need not.")
STATEMENTS: Final = Target("<= 12", "Each takes a tenth of a millisecond; BEGIN counts.")
PEER_TIME: Final = Target("<= 1.3", "LangGraph's store only compares vectors.")
PEER_QUALITY: Final = Target(">= +25 points", "More time is worth it only if more is found.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line: what was measured, what it is compared with, and what is to be reached."""

    name: str
    measured: str
    floor: str
    ratio: str
    target: Target


@table.command("table")
def print_table(
    *,
    quick: Annotated[
        bool, typer.Option(help="Run less often, in a store of 1,000 memories only.")
    ] = False,
    size: Annotated[
        list[int] | None, typer.Option(help="The sizes of the stores in which recall is measured.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="A LoCoMo file, to compare with LangGraph's store.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="The folder of the environments of `peers`.")
    ] = None,
) -> None:
    """Print the measured ratios next to their lower bounds and targets.

    Ratios are of processor time, medians of a few runs, so that they hold on a busy machine too.
    """
    effort = _QUICK if quick else _FULL
    print(describe_machine())
    print("Processor time; by the clock in brackets.")
    print(_line("", "measured", "divided by", "ratio", "target"))
    with tempfile.TemporaryDirectory() as place:
        store = Path(place) / "brain.db"
        with commonbrain.open(store) as brain:
            Filling.of(brain)(0, until=effort.sizes[0])
        rows = chain(
            _rows(store, effort, size or effort.sizes),
            _peer_rows(effort, data, folder or environments_folder()) if data else (),
        )
        for row in rows:
            print(
                _line(row.name, row.measured, row.floor, row.ratio, row.target.bound),
                row.target.reason,
                sep="   ",
                flush=True,
            )


def _line(name: str, *values: str) -> str:
    measured, floor, ratio, target = values
    return f"{name:<54}{measured:>20}{floor:>20}{ratio:>8}   {target:<13}"


def _rows(store: Path, effort: Effort, sizes: Sequence[int]) -> Iterator[Row]:
    yield from _command_rows(store, effort)
    yield from _hook_rows(store, effort)
    yield from _agent_rows(store, effort)
    yield from _visit_rows()
    yield from _store_rows(effort, sizes)
    yield _import_row(effort)


def _command_rows(store: Path, effort: Effort) -> Iterator[Row]:
    environment = brain_environment(store)
    [question] = questions(1, of=effort.sizes[0])
    recall = partial(run, [BRAIN, "recall", question, "--json"], environment)
    compared: tuple[tuple[str, Callable[[], Cost], str, Target], ...] = (
        ("brain --version", partial(run, [BRAIN, "--version"], environment), "pass", VERSION),
        ("brain recall, cold", recall, "import numpy, onnxruntime, tokenizers", COLD_RECALL),
    )
    for name, action, code, target in compared:
        yield _cost_row(name, action, code, effort=effort, target=target)


def _cost_row(
    name: str, action: Callable[[], Cost], code: str, *, effort: Effort, target: Target
) -> Row:
    cost = medians(action, effort.starts)
    floor = medians(partial(run_python, code), effort.starts)
    return Row(
        name=f"{name} / {code.removeprefix('import ')}",
        measured=f"{cost.process_ms:.0f} ms ({cost.wall_ms:.0f})",
        floor=f"{floor.process_ms:.0f} ms ({floor.wall_ms:.0f})",
        ratio=f"{cost.process_ms / floor.process_ms:.2f}",
        target=target,
    )


def _hook_rows(store: Path, effort: Effort) -> Iterator[Row]:
    environment = brain_environment(store)
    command = [BRAIN, "hook", "claude-code", "user-prompt-submit"]

    def prompt(text: str) -> Cost:
        # A session is shown a memory once.
        event = {"session_id": uuid4().hex, "cwd": str(store.parent), "prompt": text}
        return run(command, environment, given=json.dumps(event).encode())

    with served(environment):
        # To some prompts no memory is close enough: they say nothing of the limit.
        prompts = [
            one for one in questions(effort.cold_hooks, of=effort.sizes[0]) if prompt(one).output
        ]
        if not prompts:
            raise typer.BadParameter("The running server answered none of the prompts.")
        action = partial(prompt, prompts[0])
        yield _cost_row(
            "prompt hook, served", action, "import socket, json", effort=effort, target=SERVED_HOOK
        )
        recall = partial(run, [BRAIN, "recall", prompts[0]], environment)
        yield _cost_row(
            "brain recall, served",
            recall,
            "import socket, json",
            effort=effort,
            target=SERVED_RECALL,
        )
    cold = [prompt(one) for one in prompts]
    answered = sum(bool(cost.output) for cost in cold)
    yield Row(
        name=f"prompt hook, cold: answers within {HOOK_PROMPT_TIMEOUT_S:g} s",
        measured=f"{answered} of {len(cold)}",
        floor=f"slowest {max(cost.wall_ms for cost in cold):.0f} ms",
        ratio=f"{answered / len(cold):.2f}",
        target=COLD_HOOK,
    )


def _agent_rows(store: Path, effort: Effort) -> Iterator[Row]:
    yield _cost_row(
        "initialize answered",
        partial(initialize, brain_environment(store)),
        "import mcp.server.lowlevel",
        effort=effort,
        target=INITIALIZE,
    )
    first, *further = agents_memory(store, questions(3, of=effort.sizes[0]))
    held = max(one.resident_mb for one in further)
    yield Row(
        name="each further agent, MB resident",
        measured=f"{held:.0f} MB (own {max(one.own_mb for one in further):.0f})",
        floor=f"first {first.resident_mb:.0f} (own {first.own_mb:.0f})",
        ratio=f"{held / first.resident_mb:.2f}",
        target=FURTHER_AGENT,
    )


def _visit_rows() -> Iterator[Row]:
    """Count what a call goes through; that depends on no machine."""
    recall, remember = count_visits()
    for name, visits, most in (("recall", recall, VISITED), ("remember", remember, VISITED_WRITE)):
        yield Row(
            name=f"{name}, warm: modules, functions, calls",
            measured=f"{visits.modules}, {visits.functions}, {visits.calls:,}",
            floor="",
            ratio="",
            target=most,
        )
        yield Row(
            name=f"{name}, warm: statements",
            measured=f"{visits.statements}",
            floor=f"most {visits.statements_max}",
            ratio="",
            target=STATEMENTS if name == "recall" else Target("none", "A write checks more."),
        )


def _store_rows(effort: Effort, sizes: Sequence[int]) -> Iterator[Row]:
    with (
        tempfile.TemporaryDirectory() as folder,
        commonbrain.open(Path(folder) / "b.db") as brain,
        open_insert(Path(folder) / "floor.db") as insert,
    ):
        fill = Filling.of(brain)
        # Every question is embedded, however often it is asked.
        watched = Watched.of(brain).brain
        held = 0
        for size in sorted(sizes):
            fill(held, until=size)
            queries = questions(effort.calls, of=size)
            recall = timing(partial(watched.recall, question) for question in queries)
            yield _timing_row(
                f"recall p50, {size:,} / embedding, words, vectors",
                recall,
                time_recall_floor(watched, queries),
                target=RECALL.get(size, RECALL_LARGE),
            )
            fresh = list(islice(drafts(size + effort.calls, seed=size), size, None))
            remember = timing(partial(watched.remember, draft) for draft in fresh)
            floor = time_remember_floor(
                watched.services.embedder, [draft.body for draft in fresh], insert
            )
            yield _timing_row(
                f"remember p50, {size:,} / embedding, insert", remember, floor, target=REMEMBER
            )
            held = size + effort.calls


def _timing_row(name: str, taken: Timing, floor: Mapping[str, Timing], *, target: Target) -> Row:
    least = sum(part.process_p50_ms for part in floor.values())
    return Row(
        name=name,
        measured=_both(taken),
        floor=f"{least:.1f} ms ({sum(part.p50_ms for part in floor.values()):.1f})",
        ratio=f"{taken.process_p50_ms / least:.2f}",
        target=target,
    )


def _import_row(effort: Effort) -> Row:
    """Import a file of turns, and embed the same texts in the batches of an import."""
    texts = [draft.body for draft in drafts(effort.imported, seed=_BULK_SEED)]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "turns.json"
        turns = [{"speaker": "ann", "text": text, "id": str(at)} for at, text in enumerate(texts)]
        source.write_text(json.dumps(turns), "utf-8")
        with commonbrain.open(Path(folder) / "b.db") as brain:
            brain.services.embedder.query("ready")
            whole = timed(partial(brain.import_, "conversations", source))
    embedder = make_embedder(load_settings())
    embedder.query("ready")
    model = timed(partial(embed_in_batches, embedder, texts))
    count = len(texts)
    return Row(
        name="import / model alone in batches, texts a second",
        measured=f"{count / whole.process_ms * 1000:.0f} ({count / whole.wall_ms * 1000:.0f})",
        floor=f"{count / model.process_ms * 1000:.0f} ({count / model.wall_ms * 1000:.0f})",
        ratio=f"{model.process_ms / whole.process_ms:.2f}",
        target=IMPORT,
    )


def _peer_rows(effort: Effort, data: Path, folder: Path) -> Iterator[Row]:
    conversations = read_conversations(data, memories=effort.turns)
    chosen = [one for one in PEERS if one.is_ours or one.name == REFERENCE]
    measured = [measure(one, prepare(one, folder), conversations) for one in chosen]
    for ratio in ratios(measured):
        ours, floor = ratio.ours, ratio.reference
        yield Row(
            name=f"{ours.peer.name} / {floor.peer.name}, recall p50",
            measured=_both(ours.search_timing),
            floor=_both(floor.search_timing),
            ratio=f"{ratio.process:.2f}",
            target=PEER_TIME,
        )
        yield Row(
            name=f"{ours.peer.name} / {floor.peer.name}, R@{LIMIT}",
            measured=f"{ours.recall_at(LIMIT):.1f} %",
            floor=f"{floor.recall_at(LIMIT):.1f} %",
            ratio=f"{ratio.gain:+.1f}",
            target=PEER_QUALITY,
        )


def _both(calls: Timing) -> str:
    return f"{calls.process_p50_ms:.1f} ms ({calls.p50_ms:.1f})"
