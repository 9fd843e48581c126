"""The command that clients are given: the one that runs now, or one that will start it."""

import sys
from pathlib import Path

import pytest

from commonbrain.integrations import brain_command


def executable(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_the_command_that_runs_now_is_the_one_to_start(tmp_path: Path) -> None:
    running = executable(tmp_path / "tool" / "brain")
    link = tmp_path / "bin" / "brain"
    link.parent.mkdir()
    link.symlink_to(running)
    assert brain_command(str(link), executable=sys.executable) == (str(link),)


def test_else_the_command_beside_the_interpreter_else_on_the_path_else_the_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = str(tmp_path / "venv" / "bin" / "python")
    module = "/x/commonbrain/__main__.py"
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    assert brain_command(module, executable=python) == (python, "-m", "commonbrain")
    on_path = executable(tmp_path / "path" / "brain")
    assert brain_command(module, executable=python) == (str(on_path),)
    beside = executable(tmp_path / "venv" / "bin" / "brain")
    assert brain_command(module, executable=python) == (str(beside),)
