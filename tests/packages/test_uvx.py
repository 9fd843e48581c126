"""One line installs and connects: `uvx --from commonbrain brain connect claude-code --hooks`."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.packages.artifacts import BUILD_S_MAX, uv, visitor

pytestmark = pytest.mark.packages


def test_uvx_connects_to_a_program_that_stays(dist: Path, tmp_path: Path) -> None:
    cache = subprocess.run([uv(), "cache", "dir"], check=True, capture_output=True, text=True)
    # uv's cache has the packages of a folder by their version, which was the same in another build.
    packages = shutil.copytree(dist, tmp_path / "dist")
    environment = visitor(tmp_path, UV_FIND_LINKS=str(packages), UV_CACHE_DIR=cache.stdout.strip())

    def run(*words: str) -> str:
        done = subprocess.run(
            words,
            cwd=tmp_path,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
            timeout=BUILD_S_MAX,
        )
        return done.stdout

    line = ("tool", "run", "--from", "commonbrain", "brain", "connect", "claude-code", "--hooks")
    run(uv(), *line, "--dry-run")
    assert not (tmp_path / ".claude.json").exists()
    assert "as a tool of uv" in run(uv(), *line)
    configured = json.loads((tmp_path / ".claude.json").read_text())["mcpServers"]["commonbrain"]
    command = Path(configured["command"])
    tools = Path(run(uv(), "tool", "dir", "--bin").strip())
    assert command.parent == tools
    assert command.resolve().is_relative_to(run(uv(), "tool", "dir").strip())
    assert configured["command"] in (tmp_path / ".claude" / "settings.json").read_text()
    assert run(str(command), "--version").strip()
    assert "nothing to change" in run(uv(), *line)
