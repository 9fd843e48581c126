"""What `brain eval run` is asked for."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from commonbrain.cli.commands import Json
from commonbrain_evals.retrieval.corpora import Form


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What is to be run: one field an argument or option."""

    dataset: Annotated[
        str, typer.Argument(help="locomo, beam, beir, longmemeval, statebench, own or workdays.")
    ]
    path: Annotated[
        Path | None,
        typer.Argument(help="The file or folder that holds the data; workdays needs none."),
    ] = None
    form: Annotated[
        Form, typer.Option("--as", help="How turns of conversations come into the store.")
    ] = Form.MESSAGES
    without: Annotated[
        list[str] | None, typer.Option(help="Leave out an arm, a feature or a stage of recall.")
    ] = None
    ablate: Annotated[bool, typer.Option("--ablate", help="Also leave out each of them once.")] = (
        False
    )
    questions: Annotated[int | None, typer.Option(min=1, help="Ask only so many.")] = None
    conversations: Annotated[int | None, typer.Option(min=1, help="Fill only so many.")] = None
    seed: Annotated[int, typer.Option(help="Decides which, where only some are.")] = 0
    out: Annotated[
        Path | None, typer.Option(help="The file for the record; else one among the user's data.")
    ] = None
    as_json: Json = False
