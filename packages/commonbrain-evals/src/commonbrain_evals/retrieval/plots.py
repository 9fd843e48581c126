"""Plots of evaluations, as SVG that needs no other file."""

import io
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final

from commonbrain.storage.repositories.learning import StoredEvaluation
from commonbrain_evals.measures import Estimate
from commonbrain_evals.retrieval.metrics import CUTS
from commonbrain_evals.retrieval.record import ALL, Run

_INCHES: Final = (7.5, 3.6)


def plots(run: Run) -> Mapping[str, str]:
    """Draw what a run has to show, by title."""
    plots_drawn = {
        "Recall of all evidence by rank": _by_rank(run),
        "Whole evidence by tokens packed": _by_tokens(run),
    }
    if len(run.systems.get("recall", {})) > 1:
        plots_drawn["R@10 all by category"] = _by_category(run)
    if run.ablation:
        plots_drawn["R@10 all when a part is left out"] = _by_part(run)
    return plots_drawn


def lines(
    places: Sequence[float],
    series: Mapping[str, Sequence[float]],
    *,
    across: str,
    marks: Mapping[str, float],
) -> str:
    """Draw shares as lines over the same places, with upright marks at some."""
    canvas, axes = _canvas(across, "%")
    for label, shares in series.items():
        axes.plot(places, [share * 100 for share in shares], label=label)
    for label, place in marks.items():
        axes.axvline(place, color="#888", linestyle=":")
        axes.text(place, 1, f" {label} {place:g}", fontsize="small", rotation=90, va="bottom")
    return _svg(canvas, axes)


def over_time(evaluations: Sequence[StoredEvaluation], names: Sequence[str]) -> str:
    """Draw figures of one store as they were measured, the oldest first, with their intervals."""
    canvas, axes = _canvas("", "%")
    for name in names:
        those = [
            (evaluation.at, evaluation.figures[name])
            for evaluation in evaluations
            if name in evaluation.figures
        ]
        series = [Estimate(mean=one.mean, low=one.low, high=one.high) for _, one in those]
        _line(axes, [at for at, _ in those], up=series, label=name)
    canvas.autofmt_xdate()
    return _svg(canvas, axes)


def _by_rank(run: Run) -> str:
    canvas, axes = _canvas("first k", "% of questions")
    for name, of in run.systems.items():
        _line(axes, list(CUTS), up=[of[ALL][f"R@{k} all"] for k in CUTS], label=name)
    axes.set_xticks(list(CUTS))
    return _svg(canvas, axes)


def _by_tokens(run: Run) -> str:
    canvas, axes = _canvas("tokens packed", "% of questions")
    for name in run.systems:
        rows = [one for tokens, one in run.budgets[name].items() if tokens.isdecimal()]
        _line(axes, [row.tokens for row in rows], up=[row.evidence for row in rows], label=name)
    return _svg(canvas, axes)


def _by_category(run: Run) -> str:
    canvas, axes = _canvas("", "% of questions")
    names = [name for name in run.systems["recall"] if name != ALL]
    wide = 0.8 / len(run.systems)
    for place, (system, of) in enumerate(run.systems.items()):
        series = [of[name]["R@10 all"] for name in names]
        places = [index + place * wide for index in range(len(names))]
        axes.bar(places, [one.mean * 100 for one in series], wide, label=system)
    axes.set_xticks([index + 0.4 - wide / 2 for index in range(len(names))])
    axes.set_xticklabels(names, rotation=20, ha="right")
    return _svg(canvas, axes)


def _by_part(run: Run) -> str:
    canvas, axes = _canvas("points of R@10 all", "")
    parts = sorted(run.ablation, key=lambda name: -run.ablation[name]["R@10 all"].mean)
    series = [run.ablation[name]["R@10 all"] for name in parts]
    axes.barh(parts, [one.mean * 100 for one in series], xerr=_errors(series), color="#8fb4d8")
    canvas.set_size_inches(_INCHES[0], 0.8 + 0.22 * len(parts))
    return _svg(canvas, axes, has_legend=False)


def _canvas(across: str, up: str) -> tuple[Any, Any]:
    canvas: Any = import_module("matplotlib.figure").Figure(figsize=_INCHES, layout="constrained")
    axes = canvas.subplots()
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.grid(alpha=0.3)
    return canvas, axes


def _line(axes: Any, across: Sequence[object], *, up: Sequence[Estimate], label: str) -> None:  # noqa: ANN401 it brings no types
    means = [one.mean * 100 for one in up]
    axes.errorbar(across, means, yerr=_errors(up), label=label, marker="o", markersize=3, capsize=2)


def _errors(series: Sequence[Estimate]) -> list[list[float]]:
    below = [max(one.mean - one.low, 0.0) * 100 for one in series]
    return [below, [max(one.high - one.mean, 0.0) * 100 for one in series]]


def _svg(canvas: Any, axes: Any, *, has_legend: bool = True) -> str:  # noqa: ANN401 it brings no types
    if has_legend:
        axes.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
    stream = io.StringIO()
    # Without a salt and a date the same figures give the same file.
    with import_module("matplotlib").rc_context(
        {"svg.hashsalt": "commonbrain", "svg.fonttype": "none"}
    ):
        canvas.savefig(stream, format="svg", metadata={"Date": None})
    series = stream.getvalue()
    return series[series.index("<svg") :]
