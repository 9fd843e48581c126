"""The commands of `brain eval`."""

# Each command imports what it measures with: others need not wait for it.
# ruff: noqa: PLC0415

from collections.abc import Callable
from dataclasses import MISSING, asdict, dataclass, fields
from functools import partial
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from commonbrain.cli.commands import Json
from commonbrain.cli.groups import CommandGroup
from commonbrain.cli.terminal import progress_bar
from commonbrain_evals.output import print_json, print_report, write_text
from commonbrain_evals.retrieval.corpora import Form

PLAIN: Final = {
    "atomizer": "Measure whether causes are extracted.",
    "captures": "Measure what of a turn is captured, and whether quotations are.",
    "cascade": "Measure whether a change marks what depends on it.",
    "citations": "Measure whether cited code is found after an edit.",
    "conflicts": "Measure whether contradictions are recognised.",
    "failures": "Measure whether what fixed a failure is shown, and learnt.",
    "headlines": "Measure whether the headline of a text says its point.",
    "languages": "Measure recall in thirteen languages.",
    "notes": "Measure which changes are claimed in six weeks of notes.",
    "preferences": "Measure whether instructions and preferences are recognised.",
    "prompts": "Measure whether prompt hooks show what a prompt needs.",
    "safety": "Measure leaks of private memories, and what lies do.",
    "salience": "Measure whether salience tells noise, facts and what matters apart.",
    "secrets": "Measure whether texts with credentials are refused.",
    "timeline": "Measure whether questions of time are answered.",
    "times": "Measure whether time phrases are recognised.",
    "turns": "Measure what hooks show in ordinary turns of work.",
}
"""The evaluations without options of their own, with their help."""
WITH_OPTIONS: Final = frozenset({"duplicates", "kinds", "reflection", "truth"})
"""The other evaluations on data that ships with the package."""

Questions = Annotated[int | None, typer.Option(min=1, help="Ask at most this many questions.")]
Conversations = Annotated[
    int | None, typer.Option(min=1, help="Use at most this many conversations.")
]
Seed = Annotated[int, typer.Option(help="The seed of the random choice.")]
Without = Annotated[
    list[str] | None, typer.Option(help="Measure without this retriever, feature or stage.")
]
RecordOut = Annotated[Path | None, typer.Option(help="Write the record to this file.")]

app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Measure recall on public data, your own data or your own store, and the rules of "
    "Commonbrain on labelled data that ships with the package.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The arguments and options of `brain eval run`, one field each."""

    dataset: Annotated[
        str, typer.Argument(help="locomo, beam, beir, longmemeval, statebench, own or workdays.")
    ]
    path: Annotated[
        Path | None,
        typer.Argument(help="The file or folder of the data; workdays needs none."),
    ] = None
    form: Annotated[Form, typer.Option("--as", help="How turns of conversations are stored.")] = (
        Form.MESSAGES
    )
    without: Without = None
    ablate: Annotated[
        bool, typer.Option("--ablate", help="Ask again without each part of recall.")
    ] = False
    questions: Questions = None
    conversations: Conversations = None
    seed: Seed = 0
    out: RecordOut = None
    as_json: Json = False


def _run(**options: Any) -> None:  # noqa: ANN401 the signature below types it
    from commonbrain.runtime.settings_loading import load_settings
    from commonbrain_evals.retrieval import runs, statebench
    from commonbrain_evals.retrieval.datasets import shipped_path
    from commonbrain_evals.retrieval.record import default_path
    from commonbrain_evals.retrieval.tables import show_run

    given = RunOptions(**options)
    request = runs.EvalRequest(
        dataset=given.dataset,
        path=given.path or shipped_path(given.dataset),
        seed=given.seed,
        questions=given.questions,
        conversations=given.conversations,
        without=tuple(given.without or ()),
        form=given.form,
        ablates=given.ablate,
    )
    with progress_bar(f"evaluating on {given.dataset}", is_shown=not given.as_json) as move:
        if given.dataset == "statebench":
            report = statebench.evaluate(request, settings=load_settings(), on_progress=move)
            show, started_at = statebench.show_states, report.started_at
        else:
            report = runs.run(request, settings=load_settings(), on_progress=move)
            show, started_at = show_run, report.times.started_at
    path = given.out or default_path(given.dataset, started_at=started_at)
    _record(report, path, show=show, as_json=given.as_json)


def _record(report: Any, path: Path, *, show: Callable[[Any], None], as_json: bool) -> None:  # noqa: ANN401 each has a report of its own
    from commonbrain_evals.retrieval.record import write

    write(report, path)
    print_report(report, show, as_json=as_json)
    if not as_json:
        typer.echo(f"The record is {path}")


_run.__signature__ = Signature(  # type: ignore[attr-defined]
    [
        Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            annotation=field.type,
            default=Parameter.empty if field.default is MISSING else field.default,
        )
        for field in fields(RunOptions)
    ]
)
app.command("run", help="Measure recall and simple baselines on a data set.")(_run)


@app.command()
def learn(
    *,
    dataset: Annotated[str, typer.Argument(help="The data set: locomo, beam or longmemeval.")],
    path: Annotated[Path, typer.Argument(help="The file or folder of the data.")],
    seed: Annotated[int, typer.Option(help="The seed that orders the questions.")] = 0,
    noise: Annotated[
        float, typer.Option(min=0, max=1, help="The share of marks that rate a wrong memory.")
    ] = 0.0,
    as_json: Json = False,
) -> None:
    """Train a reranker on half of the data, and test it on the rest."""
    from commonbrain.runtime.settings_loading import load_settings
    from commonbrain_evals.retrieval.learning import LearnRequest, learn, show_learning

    request = LearnRequest(dataset=dataset, path=path, seed=seed, noise=noise)
    with progress_bar(f"learning from {dataset}", is_shown=not as_json) as move:
        report = learn(request, settings=load_settings(), on_progress=move)
    print_report(report, show_learning, as_json=as_json)


@app.command()
def compare(
    *,
    before: Annotated[Path, typer.Argument(help="The record of the earlier run.")],
    after: Annotated[Path, typer.Argument(help="The record of a run on the same data.")],
    system: Annotated[str, typer.Option(help="Compare recall or this baseline.")] = "recall",
    as_json: Json = False,
) -> None:
    """Compare two runs, and say which differences are beyond noise."""
    from commonbrain_evals.retrieval.comparison import compare
    from commonbrain_evals.retrieval.record import read
    from commonbrain_evals.retrieval.tables import show_comparison

    report = compare(read(before), read(after), system=system)
    print_report(report, show_comparison, as_json=as_json)


@app.command()
def misses(
    *,
    record: Annotated[Path, typer.Argument(help="The record of a run.")],
    path: Annotated[Path, typer.Argument(help="The data of that run.")],
    count: Annotated[int, typer.Option(min=1, help="The number of questions to show.")] = 10,
) -> None:
    """Show questions whose evidence was missed."""
    from commonbrain_evals.retrieval.misses import misses_of
    from commonbrain_evals.retrieval.record import read

    for miss in misses_of(read(record), path, count=count):
        typer.echo(miss.render())


@app.command()
def parts(
    *,
    records: Annotated[list[Path], typer.Argument(help="The records of runs with --ablate.")],
) -> None:
    """Show how much each part of recall helps on each data set."""
    from commonbrain_evals.retrieval.ablation import judge
    from commonbrain_evals.retrieval.statebench import read_differences
    from commonbrain_evals.retrieval.tables import show_parts

    show_parts(judge(read_differences(records)))


@app.command()
def report(
    *,
    records: Annotated[list[Path], typer.Argument(help="The records of runs.")],
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("evaluation.html"),
) -> None:
    """Write an HTML page with tables and plots of runs."""
    from commonbrain_evals.retrieval.record import read
    from commonbrain_evals.retrieval.tables import page

    write_text(out, page([read(path) for path in records]))
    typer.echo(f"The report is {out}")


def _evaluate(name: str, *, as_json: bool = False, plot: Path | None = None) -> None:
    from commonbrain_evals.duplicates import draw_curves
    from commonbrain_evals.evaluations import EVALUATIONS

    evaluation = EVALUATIONS[name]
    with progress_bar("evaluating", is_shown=not as_json) as move:
        report = evaluation.run(move)
    if plot is not None:
        write_text(plot, draw_curves(report))
    print_report(report, evaluation.show, as_json=as_json)


@app.command()
def duplicates(
    *,
    as_json: Json = False,
    plot: Annotated[
        Path | None, typer.Option(help="Draw precision and recall by threshold to this SVG file.")
    ] = None,
) -> None:
    """Measure the rule for duplicates and the threshold of similarity."""
    _evaluate("duplicates", as_json=as_json, plot=plot)


@app.command()
def kinds(
    *,
    as_json: Json = False,
    fit: Annotated[
        Path | None, typer.Option(help="Fit the weights and write them to this file.")
    ] = None,
) -> None:
    """Measure the kinds given to texts, or fit their weights."""
    if fit is None:
        _evaluate("kinds", as_json=as_json)
        return
    from commonbrain_evals.kinds import fit_weights

    typer.echo(f"Wrote {fit_weights(fit):,} features to {fit}.")


@app.command()
def truth(*, as_json: Json = False, without: Without = None) -> None:
    """Measure whether recall puts current values first."""
    from commonbrain.runtime.models import make_embedder
    from commonbrain.runtime.settings_loading import load_settings
    from commonbrain_evals.retrieval.runs import check_parts
    from commonbrain_evals.truth import evaluate, read_cases, show_truth

    left_out = tuple(without or ())
    check_parts(left_out, notes=False)
    embedder = make_embedder(load_settings())
    with progress_bar("evaluating", is_shown=not as_json) as move:
        report = evaluate(read_cases(), embedder, without=left_out, on_progress=move)
    print_report(report, show_truth, as_json=as_json)


@app.command()
def refusals(
    *,
    path: Annotated[Path, typer.Argument(help="A LoCoMo file, a BEAM chat or a folder of chats.")],
    conversations: Conversations = None,
    out: RecordOut = None,
    as_json: Json = False,
) -> None:
    """Remember conversations, and list the turns that are refused."""
    from commonbrain.runtime.settings_loading import load_settings
    from commonbrain_evals.retrieval.record import default_path
    from commonbrain_evals.retrieval.refusals import evaluate, show_refusals

    with progress_bar("remembering", is_shown=not as_json) as move:
        report = evaluate(
            path, settings=load_settings(), conversations=conversations, on_progress=move
        )
    record = out or default_path("refusals", started_at=report.started_at)
    _record(report, record, show=show_refusals, as_json=as_json)


@app.command("self")
def self_(
    context: typer.Context,
    *,
    questions: Annotated[int, typer.Option(help="Ask at most this many of each kind.")] = 100,
    seed: Annotated[int, typer.Option(help="The seed that chooses the questions.")] = 0,
    embedder: Annotated[
        str | None,
        typer.Option(help="Compare with this embedder, such as onnx:FOLDER; stores nothing."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure recall on questions made from your own memories."""
    from commonbrain_evals.self_commands import run_comparison, run_self

    run = run_self if embedder is None else partial(run_comparison, embedder=embedder)
    run(context.obj, questions=questions, seed=seed, as_json=as_json)


@app.command()
def history(
    context: typer.Context,
    *,
    name: Annotated[str, typer.Option(help="The name of the evaluation.")] = "self",
    plot: Annotated[
        Path | None, typer.Option(help="Draw the figures over time to this SVG file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the evaluations of this store, with what changed."""
    from commonbrain_evals.self_commands import show_history

    show_history(context.obj, name, plot=plot, as_json=as_json)


@app.command()
def reflection(
    *,
    data: Annotated[
        Path | None, typer.Option(help="Use this file or folder of public data.")
    ] = None,
    dataset: Annotated[str, typer.Option(help="The format of --data.")] = "locomo",
    questions: Questions = None,
    conversations: Conversations = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Measure whether episodes keep what questions need."""
    if data is None:
        _evaluate("reflection", as_json=as_json)
        return
    from commonbrain.runtime.settings_loading import load_settings
    from commonbrain_evals.retrieval.episodes import evaluate, show_episodes
    from commonbrain_evals.retrieval.runs import EvalRequest

    request = EvalRequest(
        dataset=dataset, path=data, seed=seed, questions=questions, conversations=conversations
    )
    with progress_bar(f"reflecting on {dataset}", is_shown=not as_json) as move:
        report = evaluate(request, settings=load_settings(), on_progress=move)
    print_report(report, show_episodes, as_json=as_json)


@app.command()
def month(
    *,
    data: Annotated[
        Path | None, typer.Option(help="A LoCoMo file, to measure whether decay hides evidence.")
    ] = None,
    conversations: Conversations = None,
    as_json: Json = False,
) -> None:
    """Simulate a month of ten agents on one store."""
    from commonbrain.runtime.settings_loading import load_settings
    from commonbrain_evals import fading
    from commonbrain_evals.month import evaluate, render_month

    with progress_bar("simulating a month", is_shown=not as_json) as move:
        report = evaluate(on_progress=move)
    aged = None
    if data is not None:
        with progress_bar("aging conversations", is_shown=not as_json) as move:
            aged = fading.evaluate(
                data, settings=load_settings(), conversations=conversations, on_progress=move
            )
    if as_json:
        print_json({"month": asdict(report), "aged": aged and asdict(aged)})
        return
    for line in (*render_month(report), *(fading.render_fading(aged) if aged else ())):
        typer.echo(line)


def _add(name: str, *, purpose: str) -> None:
    def evaluate(*, as_json: Json = False) -> None:
        _evaluate(name, as_json=as_json)

    app.command(name, help=purpose)(evaluate)


for _name, _purpose in PLAIN.items():
    _add(_name, purpose=_purpose)
