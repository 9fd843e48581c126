"""`python -m benchmarks growth`: what a store costs as it grows, by what it holds."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import Annotated, Final

import typer

import commonbrain
from benchmarks.agents import agents_memory
from benchmarks.corpus import WORDS_MAX, drafts, questions
from benchmarks.large_stores import EMBEDDED, Filling, Lending
from benchmarks.machine import describe_machine
from benchmarks.processes import BRAIN, brain_environment, medians, run
from benchmarks.stages import Watched, common_words
from benchmarks.timing import timed, timing
from commonbrain.client import Brain
from commonbrain.history.unit_of_work import write_unit
from commonbrain.model.revision import Action, superseded
from commonbrain.runtime.models import make_embedder
from commonbrain.runtime.settings_loading import load_settings
from commonbrain.testing.builders import FakeClock

growth = typer.Typer()
_LONG_WORDS: Final = 390
"""Up to three windows of the embedder; a fact has at most 400 words."""
_YEARS: Final = timedelta(days=5 * 365)
_NOW: Final = datetime(2026, 6, 1, tzinfo=UTC)
_VERSIONS: Final = 10
"""Of each note, the last of which is current: 90% are superseded."""
_PROJECT: Final = "project-3"
"""Every twentieth note belongs to it."""
_CALLS: Final = 60
_STARTS: Final = 3
_COLUMNS: Final = (
    ("memories", 11),
    ("filled/s", 10),
    ("recall p50", 12),
    ("p95", 8),
    ("one project", 13),
    ("common words", 14),
    ("remember", 10),
    ("cold recall", 13),
    ("bytes each", 12),
    ("MB resident", 13),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a store holds, and how the notes with the numbers from one to another get into it."""

    name: str
    fill: Callable[[Filling, int, int], None]
    words: int = WORDS_MAX


def _fill_notes(filling: Filling, held: int, size: int) -> None:
    filling(held, until=size)


def _fill_long(filling: Filling, held: int, size: int) -> None:
    filling(held, until=size, words=_LONG_WORDS)


def _fill_years(filling: Filling, held: int, size: int) -> None:
    """Store notes over five years; of every ten, each supersedes the one before."""
    clock = FakeClock(_NOW - _YEARS)
    past = Brain(replace(filling.brain.services, clock=clock), filling.brain.caller)
    for batch in filling.batches(held, until=size):
        _supersede(past, Filling(past).write(batch))
        clock.move(_YEARS * len(batch) / (size - held))


def _supersede(brain: Brain, ids: list[int]) -> None:
    with write_unit(brain.services, brain.caller) as unit:
        memories = unit.tx.memories.get(ids)
        for place, (old, new) in enumerate(pairwise(ids)):
            if (place + 1) % _VERSIONS:
                unit.amend(
                    memories[old],
                    superseded(memories[old], by=new, at=unit.now),
                    action=Action.SUPERSEDE,
                    reason="A newer value.",
                )


SHAPES: Final = (
    Shape(name="notes of 12 to 60 words in 20 projects", fill=_fill_notes),
    Shape(
        name="notes of 78 to 390 words, the longest that facts have",
        fill=_fill_long,
        words=_LONG_WORDS,
    ),
    Shape(name="five years, 90% superseded", fill=_fill_years),
)


@growth.command("growth")
def measure_growth(
    *,
    sizes: Annotated[str, typer.Option(help="Numbers of memories, separated by commas.")] = (
        "1000,10000"
    ),
    only: Annotated[
        str, typer.Option(help="Measure only the stores whose name contains this.")
    ] = "",
) -> None:
    """Measure recall, remember, start, file size and memory in stores of growing size.

    From 4,000 notes on, vectors are borrowed from the first, so that 100,000 take minutes; what is
    asked and what is timed while remembered is embedded. Times are ms of processor time.
    """
    print(describe_machine())
    for shape in SHAPES:
        if only in shape.name:
            print(f"\n{shape.name}")
            print("".join(f"{name:>{width}}" for name, width in _COLUMNS))
            for line in _lines(shape, sorted({int(size) for size in sizes.split(",")})):
                print(line, flush=True)


def _lines(shape: Shape, sizes: list[int]) -> Iterator[str]:
    held, lending = 0, Lending(make_embedder(load_settings()))
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "brain.db"
        for size in sizes:
            # Closed before it is measured: the log of what was written is then in the file.
            with commonbrain.open(store) as brain:
                filled = timed(partial(shape.fill, Filling.of(brain, lending), held, size))
            stored = sum(path.stat().st_size for path in Path(folder).iterdir())
            rate = (size - held) / filled.wall_ms * 1000
            values = (
                f"{size:,}",
                f"{rate:,.0f}{'*' if size > EMBEDDED else ''}",
                *_call_values(shape, store, size),
                *_process_values(store, size),
                f"{stored / size:,.0f}",
                f"{agents_memory(store, questions(1, of=size))[0].resident_mb:,.0f}",
            )
            yield "".join(
                f"{value:>{width}}" for value, (_, width) in zip(values, _COLUMNS, strict=True)
            )
            held = size + _CALLS


def _call_values(shape: Shape, store: Path, size: int) -> Iterator[str]:
    queries = questions(_CALLS, of=size)
    with commonbrain.open(store) as brain:
        # Every question is embedded, however often it is asked.
        watched = Watched.of(brain).brain
        watched.recall(queries[0])
        recall = timing(partial(watched.recall, question) for question in queries)
        yield f"{recall.process_p50_ms:.1f}"
        yield f"{recall.process_p95_ms:.1f}"
        in_project = timing(partial(watched.recall, query, project=_PROJECT) for query in queries)
        yield f"{in_project.process_p50_ms:.1f}"
        common = timing(partial(watched.recall, question) for question in common_words(queries))
        yield f"{common.process_p50_ms:.1f}"
        fresh = islice(drafts(size + _CALLS, seed=size, words=shape.words), size, None)
        remember = timing(partial(watched.remember, draft) for draft in fresh)
        yield f"{remember.process_p50_ms:.1f}"


def _process_values(store: Path, size: int) -> Iterator[str]:
    [question] = questions(1, of=size)
    command = [BRAIN, "recall", question, "--json"]
    cold = medians(partial(run, command, brain_environment(store)), _STARTS)
    yield f"{cold.process_ms:.0f}"
