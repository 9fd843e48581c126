"""The options of `brain eval run`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from commonbrain.cli.commands import Json
from commonbrain_evals.retrieval.corpora import Form


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """One field for each argument or option."""

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
    without: Annotated[
        list[str] | None, typer.Option(help="Leave out this retriever, feature or stage.")
    ] = None
    ablate: Annotated[bool, typer.Option("--ablate", help="Ask again without each part.")] = False
    questions: Annotated[
        int | None, typer.Option(min=1, help="Ask at most this many questions.")
    ] = None
    conversations: Annotated[
        int | None, typer.Option(min=1, help="Use at most this many conversations.")
    ] = None
    seed: Annotated[int, typer.Option(help="The seed of the random choice.")] = 0
    out: Annotated[Path | None, typer.Option(help="Write the record to this file.")] = None
    as_json: Json = False
