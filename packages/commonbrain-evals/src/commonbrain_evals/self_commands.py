"""`brain eval self` and `brain eval history`: how well this store is searched, now and before."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Final

import typer
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from commonbrain.cli.context import GlobalOptions
from commonbrain.cli.terminal import Sanitized, progress_bar
from commonbrain.model import ids
from commonbrain.model.timestamps import show_instant
from commonbrain.storage.repositories.learning import Figure, StoredEvaluation
from commonbrain_evals.output import print_json, print_report, write_text
from commonbrain_evals.retrieval.plots import over_time
from commonbrain_evals.self_evaluation import Evaluate, SpaceComparison
from commonbrain_evals.self_evaluation_figures import FigureChange, compare_figures, compare_setups

_MEANINGS: Final = {
    "hit_1": "the memory comes first",
    "hit_5": "it is among the first five",
    "hit_10": "it is among the first ten",
    "mrr": "one by its place, on average",
    "ndcg": "what answers stands high",
    "packed": "an answer of usual size holds its words",
    "abstained": "what is not there is not found",
}
_SOURCE_LABELS: Final = "asked_"
_COLUMNS: Final = ("hit_1", "hit_5", "mrr", "packed", "asked_hit_5", "abstained")
_SPARK_CHARS: Final = "▁▂▃▄▅▆▇█"


def run_self(state: GlobalOptions, *, questions: int, seed: int, as_json: bool) -> None:
    """Measure, keep and print.

    Raises:
        InvalidInputError: the number of questions is out of bounds.
        RejectedError: `too_little`, the store holds too few memories.

    """
    with state.open() as brain, progress_bar("asking", is_shown=not as_json) as move:
        evaluate = Evaluate(brain.services, brain.caller)
        before = evaluate.history(limit=1)
        done = evaluate(questions=questions, seed=seed, on_progress=move)
    if as_json:
        print_json(_plain_name(done))
        return
    shown = (
        [_render_evaluation(done), *_describe_changes(before[0], done)]
        if before
        else [_render_evaluation(done)]
    )
    Console().print(Sanitized(Group(*shown)))


def run_comparison(
    state: GlobalOptions, embedder: str, *, questions: int, seed: int, as_json: bool
) -> None:
    """Compare the serving space with that of another embedder, and print.

    Raises:
        InvalidInputError: the number of questions is out of bounds, or the embedder is unknown.
        NotFoundError: the other space is not built.
        RejectedError: `too_little`, the store holds too few memories; or the caller may not.

    """
    with state.open() as brain, progress_bar("asking", is_shown=not as_json) as move:
        evaluate = Evaluate(brain.services, brain.caller)
        done = evaluate.compare(embedder, questions=questions, seed=seed, on_progress=move)
    print_report(
        done, lambda one: Console().print(Sanitized(_render_comparison(one))), as_json=as_json
    )


def _render_comparison(done: SpaceComparison) -> RenderableType:
    table = Table()
    for title in ("", "serving", "other", "difference", "95% interval", "questions"):
        table.add_column(title)
    for name, one in done.figures.items():
        style = "" if not one.is_beyond_noise else "green" if one.difference > 0 else "red"
        table.add_row(
            name,
            f"{one.serving:.3f}",
            f"{one.other:.3f}",
            Text(f"{one.difference:+.3f}", style=style),
            f"{one.low:+.3f} to {one.high:+.3f}",
            str(one.count),
        )
    before_ms, after_ms = done.median_ms
    notes = [f"serving: {done.serving}, median {before_ms} ms"]
    notes.append(f"other: {done.other}, median {after_ms} ms")
    if done.missing:
        notes.append(f"Memories without a vector in the other space: {done.missing}.")
    if done.lacks:
        notes.append(f"Parts of recall that failed: {', '.join(done.lacks)}.")
    beyond = [name for name, one in done.figures.items() if one.is_beyond_noise]
    notes.append(f"Beyond chance: {', '.join(beyond) or 'nothing'}.")
    return Group(table, *(Text(note, style="dim") for note in notes))


def show_history(state: GlobalOptions, name: str, *, plot: Path | None, as_json: bool) -> None:
    """Print results over time, the oldest first; draw them if that is wanted.

    Raises:
        InvalidInputError: the plot cannot be written, or the library that draws is not installed.

    """
    with state.open() as brain:
        results = Evaluate(brain.services, brain.caller).history(name)[::-1]
    if plot is not None:
        write_text(plot, over_time(results, _COLUMNS))
    if as_json:
        print_json({"evaluations": [_plain_name(result) for result in results]})
    elif results:
        Console().print(
            Sanitized(
                Group(
                    _render_history(results),
                    *_describe_all_changes(results),
                    *_render_sparklines(results),
                )
            )
        )
    else:
        typer.echo(f"Nothing was measured under {name} yet. brain eval self does it.")


def _plain_name(one: StoredEvaluation) -> dict[str, object]:
    at, id_ = show_instant(one.at), ids.show(ids.EVALUATION, one.id)
    return {**asdict(one), "id": id_, "at": at}


def _render_evaluation(done: StoredEvaluation) -> RenderableType:
    table = Table()
    for title in ("", "mean", "95% interval", "questions", "that"):
        table.add_column(title)
    for name, one in done.figures.items():
        plain = name.removeprefix(_SOURCE_LABELS)
        source = ", as agents asked" if name.startswith(_SOURCE_LABELS) else ""
        meaning = f"{_MEANINGS.get(plain, '')}{source}"
        interval = f"{one.low:.2f} to {one.high:.2f}"
        table.add_row(name, f"{one.mean:.3f}", interval, str(one.count), meaning)
    interval_text = ", ".join(f"{name} {value}" for name, value in done.setup.items())
    took = ", ".join(f"{name} {value} ms" for name, value in done.took_ms.items())
    return Group(
        table, Text(f"An answer took {took}.", style="dim"), Text(interval_text, style="dim")
    )


def _render_history(results: Sequence[StoredEvaluation]) -> RenderableType:
    table = Table()
    for title in ("at", *_COLUMNS, "p50 ms"):
        table.add_column(title.replace("_", " "), overflow="fold")
    before: StoredEvaluation | None = None
    for result in results:
        worse = {
            item.name
            for item in (compare_figures(before, result) if before else ())
            if item.is_worse
        }
        cells = [
            _history_cell(result.figures.get(name), is_worse=name in worse) for name in _COLUMNS
        ]
        table.add_row(_day(result), *cells, f"{result.took_ms.get('p50', '')}")
        before = result
    return table


def _history_cell(figure: Figure | None, *, is_worse: bool) -> Text:
    if figure is None or not figure.count:
        return Text("")
    shown = f"{figure.mean:.3f} ±{figure.spread:.2f}"
    return Text(f"{shown} worse" if is_worse else shown, style="red" if is_worse else "")


def _describe_all_changes(results: Sequence[StoredEvaluation]) -> Iterator[RenderableType]:
    for before, after in pairwise(results):
        yield from _describe_changes(before, after)


def _describe_changes(
    before: StoredEvaluation, after: StoredEvaluation
) -> Iterator[RenderableType]:
    """Tell what differs in what was used, and what moved beyond chance."""
    differs_in = [
        f"{name} {was} to {now}" for name, (was, now) in compare_setups(before, after).items()
    ]
    significant = [one for one in compare_figures(before, after) if one.is_beyond_noise]
    if differs_in or significant:
        parts = [f"{_day(after)}:", *([f"changed {', '.join(differs_in)};"] if differs_in else [])]
        parts.append(", ".join(map(_format_change, significant)) or "nothing moved beyond chance")
        worse = any(one.is_worse for one in significant)
        yield Text(" ".join(parts), style="red" if worse else "dim")


def _format_change(one: FigureChange) -> str:
    direction = "worse" if one.is_worse else "better"
    return f"{one.name} {one.before:.3f} to {one.after:.3f} ({direction})"


def _day(one: StoredEvaluation) -> str:
    """Return the moment of one, to the minute."""
    return show_instant(one.at)[: len("2026-01-01T00:00")].replace("T", " ")


def _render_sparklines(results: Sequence[StoredEvaluation]) -> Iterator[RenderableType]:
    """Draw each figure over time on one line, from 0 to 1."""
    if len(results) > 1:
        for name in _COLUMNS:
            means = [result.figures[name].mean for result in results if name in result.figures]
            bars = "".join(_SPARK_CHARS[round(mean * (len(_SPARK_CHARS) - 1))] for mean in means)
            yield Text(f"{name:>12} {bars}" if bars else "")
