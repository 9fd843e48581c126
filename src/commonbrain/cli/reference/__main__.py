"""`python -m commonbrain.cli.reference FOLDER` generates the pages."""

import typer

from commonbrain.cli.reference.pages import write

typer.run(write)
