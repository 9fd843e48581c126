"""`python -m commonbrain.evals duplicates` measures the duplicate bands of the embedder in use."""

import json
import sys
from dataclasses import asdict
from typing import Annotated

import typer

from commonbrain.domain.errors import CommonbrainError
from commonbrain.evals.cascade import GRAPHS, tell_cascade
from commonbrain.evals.cascade import evaluate as evaluate_cascade
from commonbrain.evals.duplicates import evaluate
from commonbrain.evals.pairs import read_pairs
from commonbrain.evals.tables import show
from commonbrain.wiring import load_settings, make_embedder

app = typer.Typer(
    name="commonbrain.evals",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def _evals() -> None:
    """Evaluations of what this product judges, on data that ships with it."""


@app.command()
def duplicates(
    *, as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False
) -> None:
    """Choose and check the thresholds for duplicates and hints, and measure the conflict rule."""
    report = evaluate(read_pairs(), make_embedder(load_settings()))
    if as_json:
        typer.echo(json.dumps(asdict(report)))
    else:
        show(report)


@app.command()
def cascade(
    *,
    graphs: Annotated[int, typer.Option(help="How many are drawn.")] = GRAPHS,
    seed: Annotated[int, typer.Option(help="Of the first; the others count on from it.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Let premises fall and come back in generated graphs, and compare all with a plain model."""
    report = evaluate_cascade(graphs=graphs, seed=seed)
    typer.echo(json.dumps(asdict(report)) if as_json else tell_cascade(report))


def run() -> None:
    """Run an evaluation; what keeps it from running is told on stderr, with the next step."""
    try:
        app()
    except CommonbrainError as error:
        typer.echo(f"{error.code}: {error}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    run()
