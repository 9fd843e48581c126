"""What a command prints, when it is run in the process of the test."""

from typer.testing import CliRunner

from commonbrain.cli.main import app


def output_of(*words: str) -> str:
    """Give what a command says."""
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    return done.stdout
