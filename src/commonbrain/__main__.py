"""`python -m commonbrain` is the command line."""

from commonbrain.interfaces.cli.main import run

run()
