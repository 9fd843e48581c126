"""`brain eval NAME`: a bar on stderr while it runs, its report when it is done."""

import json
from dataclasses import asdict

import typer

from commonbrain.domain.errors import Invalid
from commonbrain.evals.evaluations import EVALUATIONS
from commonbrain.interfaces.cli.progress import bar


def run_evaluation(name: str, *, as_json: bool) -> None:
    """Run one evaluation and print its report.

    Raises:
        Invalid: there is no such evaluation.

    """
    evaluation = EVALUATIONS.get(name)
    if evaluation is None:
        listed = "; ".join(f"{known}: {one.purpose}" for known, one in EVALUATIONS.items())
        raise Invalid(f"There is no evaluation {name[:40]!r}.", hint=f"Choose of {listed}")
    with bar("evaluating", is_shown=not as_json) as move:
        report = evaluation.run(move)
    if as_json:
        typer.echo(json.dumps(asdict(report), ensure_ascii=False))
    else:
        evaluation.show(report)
