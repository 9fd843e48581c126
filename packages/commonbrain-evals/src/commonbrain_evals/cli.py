"""`brain eval`: what this memory judges, measured on its own data, and what it finds, on public."""

from dataclasses import MISSING, fields
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from commonbrain.cli.commands import Json
from commonbrain.cli.groups import CommandGroup
from commonbrain_evals.options import RunOptions

OWN: Final = (
    *("atomizer", "cascade", "conflicts", "duplicates", "headlines", "kinds", "notes"),
    *("preferences", "prompts", "reflection", "safety", "secrets"),
    *("timeline", "times", "truth"),
)
"""The evaluations on data that ships with the package, by their names in `EVALUATIONS`."""

app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Measure what this memory judges on its own data, and what it finds on public data.",
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
app.command("run", help="Measure recall on public data, beside plain baselines, in fresh stores.")(
    _run
)


@app.command()
def learn(
    *,
    dataset: Annotated[str, typer.Argument(help="locomo, beam, longmemeval.")],
    path: Annotated[Path, typer.Argument(help="The file or folder that holds the data.")],
    seed: Annotated[int, typer.Option(help="Decides who asks what when.")] = 0,
    noise: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the marks on what does not answer.")
    ] = 0.0,
    as_json: Json = False,
) -> None:
    """Learn from one half of some conversations, ask the other with it and without, and swap."""
    from commonbrain_evals.run import learn_on_data  # noqa: PLC0415 see _run

    learn_on_data((dataset, path), seed=seed, noise=noise, as_json=as_json)


@app.command()
def compare(
    *,
    before: Annotated[Path, typer.Argument(help="The record of a run.")],
    after: Annotated[Path, typer.Argument(help="The record of another on the same data.")],
    system: Annotated[str, typer.Option(help="Recall or a baseline, by its name.")] = "recall",
    as_json: Json = False,
) -> None:
    """Tell what changed from one run to another, and which of it is beyond noise."""
    from commonbrain_evals.run import compare_runs  # noqa: PLC0415 see _run

    compare_runs(before, after, system=system, as_json=as_json)


@app.command()
def misses(
    *,
    record: Annotated[Path, typer.Argument(help="The record of a run.")],
    path: Annotated[Path, typer.Argument(help="The data that it was run on.")],
    count: Annotated[int, typer.Option(min=1, help="How many to show.")] = 10,
) -> None:
    """Show questions whose evidence was not all among the first ten, and what came instead."""
    from commonbrain_evals.run import show_misses  # noqa: PLC0415 see _run

    show_misses(record, path, count=count)


@app.command()
def parts(
    *,
    records: Annotated[list[Path], typer.Argument(help="Records of runs with --ablate.")],
) -> None:
    """Show what each part of recall is worth on each data set, in one table."""
    from commonbrain_evals.run import show_part_values  # noqa: PLC0415 see _run

    show_part_values(records)


@app.command()
def report(
    *,
    records: Annotated[list[Path], typer.Argument(help="Records of runs.")],
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("evaluation.html"),
) -> None:
    """Write one page of HTML with tables and plots, which needs no other file."""
    from commonbrain_evals.run import report_runs  # noqa: PLC0415 see _run

    report_runs(records, out=out)


@app.command(help="Measure duplicates on data that ships with the package.")
def duplicates(
    *,
    as_json: Json = False,
    plot: Annotated[
        Path | None, typer.Option(help="Write the curves of the threshold to this SVG file.")
    ] = None,
) -> None:
    """Measure the rule for duplicates and the threshold for hints, and draw it if wanted."""
    from commonbrain_evals.run import run_evaluation  # noqa: PLC0415 see _run

    run_evaluation("duplicates", as_json=as_json, plot=plot)


@app.command(help="Measure kinds on data that ships with the package.")
def kinds(
    *,
    as_json: Json = False,
    fit: Annotated[
        Path | None, typer.Option(help="Fit the weights and write them to this file instead.")
    ] = None,
) -> None:
    """Measure the kinds of texts without one, or fit the weights that decide them."""
    from commonbrain_evals.run import fit_kinds, run_evaluation  # noqa: PLC0415 see _run

    if fit is None:
        run_evaluation("kinds", as_json=as_json)
    else:
        fit_kinds(fit)


@app.command(help="Measure truth on data that ships with the package.")
def truth(
    *,
    as_json: Json = False,
    without: Annotated[
        list[str] | None, typer.Option(help="Leave out a retriever, feature or stage of recall.")
    ] = None,
) -> None:
    """Measure whether recall puts what is current first, perhaps without a part of it."""
    from commonbrain_evals.run import run_truth  # noqa: PLC0415 see _run

    run_truth(tuple(without or ()), as_json=as_json)


@app.command()
def refusals(
    *,
    path: Annotated[Path, typer.Argument(help="A LoCoMo file, or a BEAM chat or folder.")],
    conversations: Annotated[
        int | None, typer.Option(min=1, help="Only the first so many.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The file for the record; else one among the user's data.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Give all turns of conversations to plain remember, and list what it refuses."""
    from commonbrain_evals.run import run_refusals  # noqa: PLC0415 see _run

    run_refusals(path, conversations=conversations, out=out, as_json=as_json)


@app.command("self")
def self_(
    context: typer.Context,
    *,
    questions: Annotated[int, typer.Option(help="Of each sort, at most.")] = 100,
    seed: Annotated[int, typer.Option(help="The same one asks the same of the same store.")] = 0,
    embedder: Annotated[
        str | None,
        typer.Option(help="Compare with another embedder, as onnx:FOLDER; keeps no result."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure recall on questions that your own memories give; only the result is kept."""
    from commonbrain_evals.own_store import run_comparison, run_self  # noqa: PLC0415 see _run

    if embedder is not None:
        run_comparison(context.obj, embedder, questions=questions, seed=seed, as_json=as_json)
        return
    run_self(context.obj, questions=questions, seed=seed, as_json=as_json)


@app.command()
def history(
    context: typer.Context,
    *,
    name: Annotated[str, typer.Option(help="Of the evaluation.")] = "self",
    plot: Annotated[
        Path | None, typer.Option(help="Write the figures over time to this SVG file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what was measured of this store over time, and what got worse beyond chance."""
    from commonbrain_evals.own_store import show_history  # noqa: PLC0415 see _run

    show_history(context.obj, name, plot=plot, as_json=as_json)


@app.command(help="Measure episodes on data that ships with the package, or on public data.")
def reflection(
    *,
    data: Annotated[
        Path | None, typer.Option(help="A file or folder of public data, in place of the own.")
    ] = None,
    dataset: Annotated[str, typer.Option(help="locomo, beam, longmemeval or own.")] = "locomo",
    questions: Annotated[int | None, typer.Option(min=1, help="Ask only so many of it.")] = None,
    conversations: Annotated[int | None, typer.Option(min=1, help="Fill only so many.")] = None,
    seed: Annotated[int, typer.Option(help="Decides which, where only some are.")] = 0,
    as_json: Json = False,
) -> None:
    """Measure whether episodes answer questions better than as many tokens of events."""
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
        Path | None, typer.Option(help="A LoCoMo file: also whether fading costs evidence.")
    ] = None,
    conversations: Annotated[
        int | None, typer.Option(min=1, help="Only so many of the file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Live through a month of ten agents on one store, and hold it against a plain model."""
    from commonbrain_evals.run import run_month  # noqa: PLC0415 see _run

    run_month(data, conversations=conversations, as_json=as_json)


def _add(name: str) -> None:
    def evaluate(*, as_json: Json = False) -> None:
        from commonbrain_evals.run import run_evaluation  # noqa: PLC0415 see _run

        run_evaluation(name, as_json=as_json)

    app.command(name, help=f"Measure {name} on data that ships with the package.")(evaluate)


for _name in OWN:
    if _name not in {"duplicates", "kinds", "reflection", "truth"}:
        _add(_name)
