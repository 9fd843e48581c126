"""The commands of `brain eval`."""

from dataclasses import MISSING, fields
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from commonbrain.cli.commands import Json
from commonbrain.cli.groups import CommandGroup
from commonbrain_evals.options import RunOptions

PLAIN: Final = {
    "atomizer": "Measure whether causes are extracted.",
    "cascade": "Measure whether a change marks what depends on it.",
    "conflicts": "Measure whether contradictions are recognised.",
    "headlines": "Measure whether the headline of a text says its point.",
    "notes": "Measure which changes are claimed in six weeks of notes.",
    "preferences": "Measure whether instructions and preferences are recognised.",
    "prompts": "Measure whether prompt hooks show what a prompt needs.",
    "safety": "Measure leaks of private memories, and what lies do.",
    "secrets": "Measure whether texts with credentials are refused.",
    "timeline": "Measure whether questions of time are answered.",
    "times": "Measure whether time phrases are recognised.",
}
"""The evaluations without options of their own, with their help."""
WITH_OPTIONS: Final = frozenset({"duplicates", "kinds", "reflection", "truth"})
"""The other evaluations on data that ships with the package."""

app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Measure recall on public data, your own data or your own store, and the rules of "
    "Commonbrain on labelled data that ships with the package.",
)


def _run(**options: Any) -> None:  # noqa: ANN401 the signature below types it
    # What is measured, and with what, is loaded only where it is: see main.
    from commonbrain_evals.run import run_on_data  # noqa: PLC0415

    run_on_data(RunOptions(**options))


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
    from commonbrain_evals.run import learn_on_data  # noqa: PLC0415 see _run

    learn_on_data((dataset, path), seed=seed, noise=noise, as_json=as_json)


@app.command()
def compare(
    *,
    before: Annotated[Path, typer.Argument(help="The record of the earlier run.")],
    after: Annotated[Path, typer.Argument(help="The record of a run on the same data.")],
    system: Annotated[str, typer.Option(help="Compare recall or this baseline.")] = "recall",
    as_json: Json = False,
) -> None:
    """Compare two runs, and say which differences are beyond noise."""
    from commonbrain_evals.run import compare_runs  # noqa: PLC0415 see _run

    compare_runs(before, after, system=system, as_json=as_json)


@app.command()
def misses(
    *,
    record: Annotated[Path, typer.Argument(help="The record of a run.")],
    path: Annotated[Path, typer.Argument(help="The data of that run.")],
    count: Annotated[int, typer.Option(min=1, help="The number of questions to show.")] = 10,
) -> None:
    """Show questions whose evidence was missed."""
    from commonbrain_evals.run import show_misses  # noqa: PLC0415 see _run

    show_misses(record, path, count=count)


@app.command()
def parts(
    *,
    records: Annotated[list[Path], typer.Argument(help="The records of runs with --ablate.")],
) -> None:
    """Show how much each part of recall helps on each data set."""
    from commonbrain_evals.run import show_part_values  # noqa: PLC0415 see _run

    show_part_values(records)


@app.command()
def report(
    *,
    records: Annotated[list[Path], typer.Argument(help="The records of runs.")],
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("evaluation.html"),
) -> None:
    """Write an HTML page with tables and plots of runs."""
    from commonbrain_evals.run import report_runs  # noqa: PLC0415 see _run

    report_runs(records, out=out)


@app.command()
def duplicates(
    *,
    as_json: Json = False,
    plot: Annotated[
        Path | None, typer.Option(help="Draw precision and recall by threshold to this SVG file.")
    ] = None,
) -> None:
    """Measure the rule for duplicates and the threshold of similarity."""
    from commonbrain_evals.run import run_evaluation  # noqa: PLC0415 see _run

    run_evaluation("duplicates", as_json=as_json, plot=plot)


@app.command()
def kinds(
    *,
    as_json: Json = False,
    fit: Annotated[
        Path | None, typer.Option(help="Fit the weights and write them to this file.")
    ] = None,
) -> None:
    """Measure the kinds given to texts, or fit their weights."""
    from commonbrain_evals.run import fit_kinds, run_evaluation  # noqa: PLC0415 see _run

    if fit is None:
        run_evaluation("kinds", as_json=as_json)
    else:
        fit_kinds(fit)


@app.command()
def truth(
    *,
    as_json: Json = False,
    without: Annotated[
        list[str] | None, typer.Option(help="Leave out this retriever, feature or stage.")
    ] = None,
) -> None:
    """Measure whether recall puts current values first."""
    from commonbrain_evals.run import run_truth  # noqa: PLC0415 see _run

    run_truth(tuple(without or ()), as_json=as_json)


@app.command()
def refusals(
    *,
    path: Annotated[Path, typer.Argument(help="A LoCoMo file, a BEAM chat or a folder of chats.")],
    conversations: Annotated[
        int | None, typer.Option(min=1, help="Use at most this many conversations.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the record to this file.")] = None,
    as_json: Json = False,
) -> None:
    """Remember conversations, and list the turns that are refused."""
    from commonbrain_evals.run import run_refusals  # noqa: PLC0415 see _run

    run_refusals(path, conversations=conversations, out=out, as_json=as_json)


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
    from commonbrain_evals.own_store import run_comparison, run_self  # noqa: PLC0415 see _run

    if embedder is not None:
        run_comparison(context.obj, embedder, questions=questions, seed=seed, as_json=as_json)
        return
    run_self(context.obj, questions=questions, seed=seed, as_json=as_json)


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
    from commonbrain_evals.own_store import show_history  # noqa: PLC0415 see _run

    show_history(context.obj, name, plot=plot, as_json=as_json)


@app.command()
def reflection(
    *,
    data: Annotated[
        Path | None, typer.Option(help="Use this file or folder of public data.")
    ] = None,
    dataset: Annotated[str, typer.Option(help="The format of --data.")] = "locomo",
    questions: Annotated[
        int | None, typer.Option(min=1, help="Ask at most this many questions.")
    ] = None,
    conversations: Annotated[
        int | None, typer.Option(min=1, help="Use at most this many conversations.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The seed of the random choice.")] = 0,
    as_json: Json = False,
) -> None:
    """Measure whether episodes keep what questions need."""
    from commonbrain_evals.run import run_evaluation, run_reflection  # noqa: PLC0415 see _run

    if data is None:
        run_evaluation("reflection", as_json=as_json)
        return
    run_reflection(
        dataset,
        data,
        questions=questions,
        conversations=conversations,
        seed=seed,
        as_json=as_json,
    )


@app.command()
def month(
    *,
    data: Annotated[
        Path | None, typer.Option(help="A LoCoMo file, to measure whether decay hides evidence.")
    ] = None,
    conversations: Annotated[
        int | None, typer.Option(min=1, help="Use at most this many conversations.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Simulate a month of ten agents on one store."""
    from commonbrain_evals.run import run_month  # noqa: PLC0415 see _run

    run_month(data, conversations=conversations, as_json=as_json)


def _add(name: str, *, purpose: str) -> None:
    def evaluate(*, as_json: Json = False) -> None:
        from commonbrain_evals.run import run_evaluation  # noqa: PLC0415 see _run

        run_evaluation(name, as_json=as_json)

    app.command(name, help=purpose)(evaluate)


for _name, _purpose in PLAIN.items():
    _add(_name, purpose=_purpose)
