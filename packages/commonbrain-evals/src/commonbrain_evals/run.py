"""What `brain eval` runs: a bar on stderr while it does, its report when it is done."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import typer

from commonbrain.cli.terminal import progress_bar
from commonbrain.model.errors import InvalidInputError
from commonbrain.runtime.models import make_embedder
from commonbrain.runtime.settings_loading import load_settings
from commonbrain_evals import fading, kinds, month, truth
from commonbrain_evals.duplicates import draw_curves
from commonbrain_evals.evaluations import EVALUATIONS
from commonbrain_evals.options import RunOptions
from commonbrain_evals.output import print_json, print_report, write_text
from commonbrain_evals.retrieval import refusals, statebench
from commonbrain_evals.retrieval.comparison import compare
from commonbrain_evals.retrieval.datasets import DATASETS
from commonbrain_evals.retrieval.episodes import ReflectionRequest, evaluate, show_reflected
from commonbrain_evals.retrieval.html_report import page
from commonbrain_evals.retrieval.learning import LearnRequest, learn, show_learning
from commonbrain_evals.retrieval.misses import misses_of
from commonbrain_evals.retrieval.parts import Differences, differences_of, judge
from commonbrain_evals.retrieval.record import Run, default_path, read, read_as, write
from commonbrain_evals.retrieval.runs import EvalRequest, check_parts, run
from commonbrain_evals.retrieval.tables import show_comparison, show_parts, show_run


def run_evaluation(name: str, *, as_json: bool, plot: Path | None = None) -> None:
    """Run an evaluation on data of its own and print its report; draw it if that is wanted.

    Raises:
        InvalidInputError: the plot cannot be written, or the library that draws is not installed.

    """
    evaluation = EVALUATIONS[name]
    with progress_bar("evaluating", is_shown=not as_json) as move:
        report = evaluation.run(move)
    if plot is not None:
        write_text(plot, draw_curves(report))
    print_report(report, evaluation.show, as_json=as_json)


def fit_kinds(path: Path) -> None:
    """Fit the weights that decide the kind of a text, and write them.

    Raises:
        InvalidInputError: the file cannot be written.

    """
    typer.echo(f"Wrote {kinds.fit(path):,} features to {path}.")


def run_truth(without: tuple[str, ...], *, as_json: bool) -> None:
    """Measure what is current first, without parts of recall, and print it.

    Raises:
        InvalidInputError: recall has no such part.

    """
    check_parts(without, notes=False)
    embedder = make_embedder(load_settings())
    with progress_bar("evaluating", is_shown=not as_json) as move:
        report = truth.evaluate(truth.read_cases(), embedder, without=without, on_progress=move)
    print_report(report, truth.show_truth, as_json=as_json)


def run_month(data: Path | None, *, conversations: int | None, as_json: bool) -> None:
    """Live through a month and print what came out; let public talks age next to it, where given.

    Raises:
        InvalidInputError: the data or a library is missing.

    """
    with progress_bar("living a month", is_shown=not as_json) as move:
        report_of_month = month.evaluate(on_progress=move)
    lines = None
    if data is not None:
        with progress_bar("letting talks age", is_shown=not as_json) as move:
            lines = fading.evaluate(
                data, settings=load_settings(), conversations=conversations, on_progress=move
            )
    if as_json:
        print_json({"month": asdict(report_of_month), "aged": lines and asdict(lines)})
        return
    for line in (
        *month.render_month(report_of_month),
        *(fading.render_fading(lines) if lines else ()),
    ):
        typer.echo(line)


def run_on_data(options: RunOptions) -> None:
    """Run an evaluation on public data, keep its record and print it.

    Raises:
        InvalidInputError: the data or a library is missing, or something that was given is unknown.

    """
    run_request = EvalRequest(
        dataset=options.dataset,
        path=options.path or _shipped(options.dataset),
        seed=options.seed,
        questions=options.questions,
        conversations=options.conversations,
        without=tuple(options.without or ()),
        form=options.form,
        ablates=options.ablate,
    )
    evaluation = _OF_DATASET.get(options.dataset, _RANKING)
    with progress_bar(f"evaluating on {options.dataset}", is_shown=not options.as_json) as move:
        done = evaluation.run(run_request, settings=load_settings(), on_progress=move)
    path = options.out or default_path(options.dataset, started_at=evaluation.started_at(done))
    write(done, path)
    print_report(done, evaluation.show, as_json=options.as_json)
    if not options.as_json:
        typer.echo(f"The record is {path}")


def _shipped(name: str) -> Path:
    dataset = DATASETS.get(name)
    if dataset is None or dataset.shipped is None:
        raise InvalidInputError(
            f"The data of {name[:40]!r} is not in the package.", hint="Give its path."
        )
    return dataset.shipped


@dataclass(frozen=True, slots=True, kw_only=True)
class _DataEvaluation:
    """How data of one shape is measured."""

    run: Callable[..., Any]
    """Takes a request, `settings` and `on_progress`; gives a dataclass that JSON can hold."""
    show: Callable[[Any], None]
    started_at: Callable[[Any], str]


_RANKING: Final = _DataEvaluation(
    run=run, show=show_run, started_at=lambda done: done.times.started_at
)
"""For questions whose evidence is named."""
_OF_DATASET: Final[Mapping[str, _DataEvaluation]] = {
    "statebench": _DataEvaluation(
        run=statebench.evaluate,
        show=statebench.show_states,
        started_at=lambda report: report.started_at,
    ),
}
"""The data sets that name no evidence."""


def run_refusals(path: Path, *, conversations: int | None, out: Path | None, as_json: bool) -> None:
    """Give conversations to plain `remember`, keep the record of what it refuses and print it.

    Raises:
        InvalidInputError: the data is missing or malformed.

    """
    with progress_bar("remembering", is_shown=not as_json) as move:
        report = refusals.evaluate(
            path, settings=load_settings(), conversations=conversations, on_progress=move
        )
    record = out or default_path("refusals", started_at=report.started_at)
    write(report, record)
    print_report(report, refusals.show_refusals, as_json=as_json)
    if not as_json:
        typer.echo(f"The record is {record}")


def learn_on_data(data: tuple[str, Path], *, seed: int, noise: float, as_json: bool) -> None:
    """Measure what learning from use changes on a public data set, and print it.

    Raises:
        InvalidInputError: the data or a library is missing.

    """
    run_request = LearnRequest(dataset=data[0], path=data[1], seed=seed, noise=noise)
    with progress_bar(f"learning from {data[0]}", is_shown=not as_json) as move:
        done = learn(run_request, settings=load_settings(), on_progress=move)
    print_report(done, show_learning, as_json=as_json)


def run_reflection(
    dataset: str,
    path: Path,
    *,
    questions: int | None,
    conversations: int | None,
    seed: int,
    as_json: bool,
) -> None:
    """Measure what reflections keep of public data, and print it.

    Raises:
        InvalidInputError: the data or a library is missing, or something that was given is unknown.

    """
    request = ReflectionRequest(
        dataset=dataset, path=path, seed=seed, questions=questions, conversations=conversations
    )
    with progress_bar(f"reflecting on {dataset}", is_shown=not as_json) as move:
        report = evaluate(request, settings=load_settings(), on_progress=move)
    print_report(report, show_reflected, as_json=as_json)


def compare_runs(before: Path, after: Path, *, system: str, as_json: bool) -> None:
    """Compare two records and print what changed.

    Raises:
        InvalidInputError: one cannot be read, or they cannot be compared.

    """
    comparison = compare(read(before), read(after), system=system)
    print_report(comparison, show_comparison, as_json=as_json)


def show_misses(record: Path, path: Path, *, count: int) -> None:
    """Print what recall missed, with the texts of the data.

    Raises:
        InvalidInputError: the record or the data cannot be read, or do not belong together.

    """
    for miss in misses_of(read(record), path, count=count):
        typer.echo(miss.render())


def show_part_values(records: Sequence[Path]) -> None:
    """Print what each part of recall is worth by records that left out each.

    Raises:
        InvalidInputError: one cannot be read, or none tells it.

    """
    show_parts(judge(differences_in(records)))


def differences_in(records: Sequence[Path]) -> Differences:
    """Read what leaving out each part changes, of runs and of reports of StateBench.

    Raises:
        InvalidInputError: one cannot be read, or none tells it.

    """
    runs: list[Run] = []
    differences: dict[tuple[str, str], Sequence[float]] = {}
    for path in records:
        try:
            differences |= statebench.differences(read_as(statebench.StateReport, path))
        except InvalidInputError:
            runs.append(read(path))
    return differences if differences and not runs else {**differences_of(runs), **differences}


def report_runs(records: Sequence[Path], *, out: Path) -> None:
    """Write a report of records.

    Raises:
        InvalidInputError: one cannot be read, or the report cannot be written.

    """
    write_text(out, page([read(path) for path in records]))
    typer.echo(f"The report is {out}")
