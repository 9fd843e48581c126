"""`brain eval self` and `brain eval history`: how well this store is searched, now and before."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Final

import typer
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from commonbrain.cli.context import State
from commonbrain.cli.progress import bar
from commonbrain.cli.render import Inert
from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.escaping import escaped
from commonbrain.model.timestamps import show_instant
from commonbrain.storage.evaluation import Evaluation, Figure, Moved, changed, moved
from commonbrain_evals.retrieval.plotting import over_time

_MEANINGS: Final = {
    "hit_1": "the memory comes first",
    "hit_5": "it is among the first five",
    "hit_10": "it is among the first ten",
    "mrr": "one by its place, on average",
    "ndcg": "what answers stands high",
    "packed": "an answer of usual size holds its words",
    "abstained": "what is not there is not found",
}
_ASKED: Final = "asked_"
_COLUMNS: Final = ("hit_1", "hit_5", "mrr", "packed", "asked_hit_5", "abstained")
_BARS: Final = "▁▂▃▄▅▆▇█"


def run_self(state: State, *, questions: int, seed: int, as_json: bool) -> None:
    """Measure, keep and print.

    Raises:
        InvalidInputError: the number of questions is out of bounds.
        RejectedError: `too_little`, the store holds too few memories.

    """
    with state.open() as brain, bar("asking", is_shown=not as_json) as move:
        before = brain.evaluate.history(limit=1)
        done = brain.evaluate(questions=questions, seed=seed, on_progress=move)
    if as_json:
        typer.echo(escaped(json.dumps(_plain(done), ensure_ascii=False)))
        return
    shown = [_table(done), *_compared(before[0], done)] if before else [_table(done)]
    Console().print(Inert(Group(*shown)))


def show_history(state: State, name: str, *, plot: Path | None, as_json: bool) -> None:
    """Print results over time, the oldest first; draw them if that is wanted.

    Raises:
        InvalidInputError: the plot cannot be written, or the library that draws is not installed.

    """
    with state.open() as brain:
        known = brain.evaluate.history(name)[::-1]
    if plot is not None:
        _write(plot, over_time(known, _COLUMNS))
    if as_json:
        typer.echo(escaped(json.dumps({"evaluations": [_plain(one) for one in known]})))
    elif known:
        Console().print(Inert(Group(_history(known), *_all_changes(known), *_lines(known))))
    else:
        typer.echo(f"Nothing was measured under {name} yet. brain eval self does it.")


def _plain(one: Evaluation) -> dict[str, object]:
    at, id_ = show_instant(one.at), ids.show(ids.EVALUATION, one.id)
    return {**asdict(one), "id": id_, "at": at}


def _table(done: Evaluation) -> RenderableType:
    table = Table()
    for title in ("", "mean", "95% interval", "questions", "that"):
        table.add_column(title)
    for name, one in done.figures.items():
        plain = name.removeprefix(_ASKED)
        source = ", as agents asked" if name.startswith(_ASKED) else ""
        meaning = f"{_MEANINGS.get(plain, '')}{source}"
        interval = f"{one.low:.2f} to {one.high:.2f}"
        table.add_row(name, f"{one.mean:.3f}", interval, str(one.count), meaning)
    told = ", ".join(f"{name} {value}" for name, value in done.setup.items())
    took = ", ".join(f"{name} {value} ms" for name, value in done.took_ms.items())
    return Group(table, Text(f"An answer took {took}.", style="dim"), Text(told, style="dim"))


def _history(known: Sequence[Evaluation]) -> RenderableType:
    table = Table()
    for title in ("at", *_COLUMNS, "p50 ms"):
        table.add_column(title.replace("_", " "), overflow="fold")
    before: Evaluation | None = None
    for one in known:
        worse = {item.name for item in (moved(before, one) if before else ()) if item.is_worse}
        cells = [_cell(one.figures.get(name), is_worse=name in worse) for name in _COLUMNS]
        table.add_row(_day(one), *cells, f"{one.took_ms.get('p50', '')}")
        before = one
    return table


def _cell(known: Figure | None, *, is_worse: bool) -> Text:
    if known is None or not known.count:
        return Text("")
    shown = f"{known.mean:.3f} ±{known.spread:.2f}"
    return Text(f"{shown} worse" if is_worse else shown, style="red" if is_worse else "")


def _all_changes(known: Sequence[Evaluation]) -> Iterator[RenderableType]:
    for before, after in pairwise(known):
        yield from _compared(before, after)


def _compared(before: Evaluation, after: Evaluation) -> Iterator[RenderableType]:
    """Tell what differs in what was used, and what moved beyond chance."""
    other = [f"{name} {was} to {now}" for name, (was, now) in changed(before, after).items()]
    beyond = [one for one in moved(before, after) if one.is_beyond_noise]
    if other or beyond:
        parts = [f"{_day(after)}:", *([f"changed {', '.join(other)};"] if other else [])]
        parts.append(", ".join(map(_told, beyond)) or "nothing moved beyond chance")
        worse = any(one.is_worse for one in beyond)
        yield Text(" ".join(parts), style="red" if worse else "dim")


def _told(one: Moved) -> str:
    way = "worse" if one.is_worse else "better"
    return f"{one.name} {one.before:.3f} to {one.after:.3f} ({way})"


def _day(one: Evaluation) -> str:
    """Give the moment of one, to the minute."""
    return show_instant(one.at)[: len("2026-01-01T00:00")].replace("T", " ")


def _lines(known: Sequence[Evaluation]) -> Iterator[RenderableType]:
    """Draw each figure over time on one line, from 0 to 1."""
    if len(known) > 1:
        for name in _COLUMNS:
            means = [one.figures[name].mean for one in known if name in one.figures]
            bars = "".join(_BARS[round(mean * (len(_BARS) - 1))] for mean in means)
            yield Text(f"{name:>12} {bars}" if bars else "")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be written: {error.strerror}.") from error
