"""The cost of writes as a ratio to embedding plus one durable insert."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Final

import typer

import commonbrain
from benchmarks.corpus import drafts
from benchmarks.large_stores import Filling
from benchmarks.lower_bounds import Insert, embed_in_batches, open_insert
from benchmarks.timing import Lap, timed
from commonbrain.client import Brain
from commonbrain.embeddings.interface import Embedder
from commonbrain.model.limits import IMPORT_BATCH, ITEMS_PER_CALL_MAX
from commonbrain.model.memory import Draft
from commonbrain.runtime.models import make_embedder
from commonbrain.runtime.settings_loading import load_settings

app = typer.Typer()
_RUNS: Final = 200
_WARM: Final = 20
"""Calls before the measured ones: a new process fills its caches."""
_IMPORTED: Final = 640
_ROUNDS: Final = 3


@app.command()
def writes(memories: int = typer.Argument(default=1000)) -> None:
    """Measure one remember, a remember of 100 and an import, each as a ratio to its lower bound.

    Ratios of one run hold on any machine. Each call follows its parts, so that all of them see
    the same machine. Times are those that the process worked; an import, which uses all cores, is
    measured by the clock too.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        commonbrain.open(Path(folder) / "b.db") as brain,
        open_insert(Path(folder) / "plain.db") as insert_row,
    ):
        Filling.of(brain)(0, until=memories)
        # No text is embedded twice.
        embedder = make_embedder(load_settings())
        own = Brain(replace(brain.services, embedder=embedder), brain.caller)
        fresh = drafts(memories + _RUNS + _WARM + _ROUNDS * ITEMS_PER_CALL_MAX, seed=memories)
        rest = islice(fresh, memories, None)
        insert = _insert_with(embedder, insert_row)
        _print_one(own, list(islice(rest, _RUNS + _WARM)), insert)
        _print_many(own, [list(islice(rest, ITEMS_PER_CALL_MAX)) for _ in range(_ROUNDS)], insert)
    with tempfile.TemporaryDirectory() as folder:
        _print_import(Path(folder))


def _print_one(brain: Brain, given: Sequence[Draft], insert: Callable[[str], object]) -> None:
    """Print the time of one `remember` and its ratio."""
    embed = brain.services.embedder.passages
    laps: list[tuple[Lap, Lap, Lap]] = [
        (
            timed(lambda: embed([draft.body])),  # noqa: B023 at once
            timed(partial(insert, draft.body)),
            timed(partial(brain.remember, draft)),
        )
        for draft in given
    ][_WARM:]
    embedding, inserted, remembered = (
        median(each[part].process_ms for each in laps) for part in range(3)
    )
    ratio = remembered / (embedding + inserted)
    print(f"embedding {embedding:.2f} ms, one durable insert {inserted:.2f} ms")
    print(f"remember {remembered:.2f} ms: {ratio:.2f} times both")
    print(f"  without the embedding: {remembered - embedding:.2f} ms")


def _print_many(
    brain: Brain, batches: Sequence[Sequence[Draft]], insert: Callable[[str], object]
) -> None:
    """Print the time of each item of a `remember` of 100 and its ratio."""
    embed = brain.services.embedder.passages
    count = ITEMS_PER_CALL_MAX
    ratios: list[float] = []
    each: list[float] = []
    for batch in batches:
        alone = timed(partial(embed, [one.body for one in batch])).process_ms
        alone += timed(partial(insert, batch[0].body)).process_ms
        together = timed(partial(brain.remember, batch)).process_ms
        ratios.append(together / alone)
        each.append(together / count)
    print(
        f"remember of {count}: {median(each):.2f} ms each, {median(ratios):.2f} times its embedding"
    )


def _print_import(folder: Path) -> None:
    """Print the memories a second of an import, and its share of the speed of the model alone."""
    embedder = make_embedder(load_settings())
    shares: list[float] = []
    shares_of_work: list[float] = []
    rates: list[float] = []
    for number in range(_ROUNDS):
        given = list(drafts(_IMPORTED, seed=100 + number))
        source = folder / str(number)
        source.mkdir()
        for place, one in enumerate(given):
            (source / f"note-{place}.md").write_text(one.body, "utf-8")
        texts = [one.body for one in given]
        embedder.passages(texts[:IMPORT_BATCH])

        with commonbrain.open(folder / f"{number}.db") as brain:
            brain.remember("The model is loaded before the import.")
            model = timed(partial(embed_in_batches, embedder, texts))
            whole = timed(partial(brain.import_, "markdown", source))
            stored = brain.status().memories - 1
        rates.append(stored / whole.wall_ms * 1000)
        shares.append(model.wall_ms / whole.wall_ms)
        shares_of_work.append(model.process_ms / whole.process_ms)
    print(
        f"import {median(rates):.0f} memories a second: {median(shares):.2f} of the speed of the "
        f"model alone in batches; the model is {median(shares_of_work):.2f} of its processor time"
    )


def _insert_with(embedder: Embedder, insert: Insert) -> Callable[[str], object]:
    """Return a function that inserts a text with a vector of the embedder's size."""
    vector = embedder.query("one of its size").tobytes()
    return lambda text: insert(text, vector)
