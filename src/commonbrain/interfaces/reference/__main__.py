"""`python -m commonbrain.interfaces.reference FOLDER` writes the pages anew."""

import typer

from commonbrain.interfaces.reference.pages import write

typer.run(write)
