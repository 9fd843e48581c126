import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from commonbrain.cli.main import run

Command = Callable[..., tuple[int, str]]


@pytest.fixture
def command(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Run `brain` on the test's own store; give its exit code and what it printed."""
    monkeypatch.setenv("COMMONBRAIN_STORE", str(path))
    monkeypatch.setenv("COLUMNS", "200")

    def command(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["brain", *arguments])
        with pytest.raises(SystemExit) as left:
            run()
        printed = capsys.readouterr()
        assert isinstance(left.value.code, int)
        return left.value.code, printed.out + printed.err

    return command


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home and, as the current folder, an empty project."""
    home = tmp_path / "home"
    project = tmp_path / "project"
    home.mkdir()
    project.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("CODEX_HOME", "CLAUDE_CONFIG_DIR", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(project)
    return home
