"""What sealing costs: the same calls on a plain and on a sealed store, by turns."""

import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

import typer

import commonbrain
from benchmarks.corpus import drafts, questions
from benchmarks.large_stores import Filling
from benchmarks.timing import Lap, timed
from commonbrain.client import Brain
from commonbrain.runtime.stores import reseal, sealing_with

app = typer.Typer()
_RUNS: Final = 200
_WARM: Final = 20
"""Calls before the measured ones: a new process fills its caches."""


@app.command()
def sealed(memories: int = typer.Argument(default=10_000)) -> None:
    """Measure recall, remember, opening and size of a sealed store, as ratios to a plain one.

    Both have the same memories. Calls go to them by turns, so that they see the same machine.
    """
    with tempfile.TemporaryDirectory() as name, ExitStack() as opened:
        stores = [Path(name) / "plain.db", Path(name) / "sealed.db"]
        with commonbrain.open(stores[0]) as brain:
            Filling.of(brain)(0, until=memories)
            brain.backup(stores[1])
        _seal(stores[1])
        sizes = [store.stat().st_size for store in stores]
        opening = [[timed(partial(_open, store)) for store in stores] for _ in range(_WARM)]
        brains = [opened.enter_context(commonbrain.open(store)) for store in stores]
        queries = questions(2 * (_RUNS + _WARM), of=memories)
        recalls = _by_turns(brains, "recall", queries)
        fresh = list(drafts(memories + 2 * (_RUNS + _WARM)))[memories:]
        writes = _by_turns(brains, "remember", fresh)
    print(f"{memories:,} memories: {sizes[0]:,} bytes, sealed {sizes[1] / sizes[0]:.3f} times")
    for what, laps in (("recall", recalls), ("remember", writes), ("open and close", opening)):
        _print(what, laps[_WARM:] or laps)


def _seal(store: Path) -> None:
    key = store.with_name("key")
    sealing = sealing_with(
        store, key_file=key, uses_keyring=False, is_rotation=False, ask=lambda: ""
    )
    reseal(store, sealing)


def _open(store: Path) -> None:
    commonbrain.open(store).close()


def _by_turns(brains: list[Brain], method: str, given: list[Any]) -> list[list[Lap]]:
    """Give every other one to the plain store, so that neither finds what the other embedded."""
    return [
        [
            timed(partial(getattr(brain, method), one))
            for brain, one in zip(brains, pair, strict=True)
        ]
        for pair in zip(given[::2], given[1::2], strict=True)
    ]


def _print(what: str, laps: list[list[Lap]]) -> None:
    """Print medians by the clock and of what the process worked."""
    walls = [median(each[place].wall_ms for each in laps) for place in range(2)]
    worked = [median(each[place].process_ms for each in laps) for place in range(2)]
    print(
        f"{what:<16} plain {walls[0]:7.2f} ms, sealed {walls[1] / walls[0]:.2f} times; "
        f"process {worked[0]:7.2f} ms, sealed {worked[1] / worked[0]:.2f} times"
    )
