"""Commands that run in the process of a test, as their entry point does."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from commonbrain.cli.main import run

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run `brain` on a store; give its exit code, and what it wrote to stdout and stderr."""

    def command(store: Path, *arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["brain", "--store", str(store), *arguments])
        with pytest.raises(SystemExit) as end:
            run()
        assert isinstance(end.value.code, int)
        printed = capsys.readouterr()
        return end.value.code, printed.out, printed.err

    return command
