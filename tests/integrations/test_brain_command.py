"""The command that clients are given: the one that runs now, or one that will start it."""

import sys
from pathlib import Path

import pytest

from commonbrain.integrations import brain_command
from commonbrain.integrations.entry import requirement, uv_of_uvx


def executable(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_entry_starts_the_command_that_runs_now(tmp_path: Path) -> None:
    running = executable(tmp_path / "tool" / "brain")
    link = tmp_path / "bin" / "brain"
    link.parent.mkdir()
    link.symlink_to(running)
    assert brain_command(str(link), executable=sys.executable) == (str(link),)


def test_entry_starts_the_nearest_installed_command_or_the_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = str(tmp_path / "venv" / "bin" / "python")
    module = "/x/commonbrain/__main__.py"
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    assert brain_command(module, executable=python) == (python, "-m", "commonbrain")
    on_path = executable(tmp_path / "path" / "brain")
    assert brain_command(module, executable=python) == (str(on_path),)
    neighbour = executable(tmp_path / "venv" / "bin" / "brain")
    assert brain_command(module, executable=python) == (str(neighbour),)


def test_only_an_environment_inside_a_marked_cache_is_temporary(tmp_path: Path) -> None:
    project = tmp_path / "project" / ".venv"
    cached = tmp_path / "cache" / "archive" / "x1"
    for folder in (project, cached):
        folder.mkdir(parents=True)
    # uv marks both: a cache as a whole, and every environment that it makes.
    for marked in (project, cached.parents[1]):
        (marked / "CACHEDIR.TAG").touch()
    assert uv_of_uvx({"UV": "/bin/uv"}, prefix=project) is None
    assert uv_of_uvx({"UV": "/bin/uv"}, prefix=cached) == "/bin/uv"
    assert uv_of_uvx({}, prefix=cached) is None


@pytest.mark.parametrize(
    ("origin", "required"),
    [
        (None, "commonbrain==0.1.0"),
        ('{"url": "file:///x/c.whl", "archive_info": {}}', "commonbrain @ file:///x/c.whl"),
        (
            '{"url": "https://h/c", "vcs_info": {"vcs": "git", "commit_id": "1a"}}',
            "commonbrain @ git+https://h/c@1a",
        ),
        ('{"url": "https://h/c", "subdirectory": "p"}', "commonbrain @ https://h/c#subdirectory=p"),
    ],
)
def test_tool_is_installed_from_the_source_of_the_running_program(
    origin: str | None, required: str
) -> None:
    assert requirement("0.1.0", direct_url=origin) == required
