"""`python -m commonbrain.cli.reference FOLDER` writes the pages anew."""

import typer

from commonbrain.cli.reference.pages import write

typer.run(write)
