"""The plugin and the entries of registries: their hooks, their versions, and what starts them."""

import json
import os
import re
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.plugin_files import FILES, PLUGIN, REPOSITORY, START, hooks_of

VERSION = version("commonbrain")
PROGRAM = PLUGIN / "bin" / "brain"
SERVER = REPOSITORY / "server.json"
MANIFESTS = (
    *sorted(PLUGIN.glob(".*-plugin/plugin.json")),
    REPOSITORY / "deploy" / "claude-desktop" / "manifest.json",
    SERVER,
)
PINNED = (
    PROGRAM,
    PLUGIN / ".mcp.json",
    REPOSITORY / "deploy" / "claude-desktop" / "pyproject.toml",
)
MARKETPLACES = (
    REPOSITORY / ".claude-plugin" / "marketplace.json",
    REPOSITORY / ".agents" / "plugins" / "marketplace.json",
    REPOSITORY / ".cursor-plugin" / "marketplace.json",
)


@pytest.mark.parametrize("client", FILES)
def test_hooks_of_the_plugin_are_those_that_connect_writes(client: str) -> None:
    assert FILES[client].read_text() == hooks_of(client), "run `just plugin`"


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.parent.name)
def test_manifest_names_the_version_of_the_package(manifest: Path) -> None:
    assert json.loads(manifest.read_text())["version"] == VERSION


@pytest.mark.parametrize("file", PINNED, ids=lambda path: path.name)
def test_what_is_fetched_is_the_version_of_the_plugin(file: Path) -> None:
    assert set(re.findall(r"commonbrain==([\w.]+)", file.read_text())) == {VERSION}


@pytest.mark.parametrize("marketplace", MARKETPLACES, ids=lambda path: path.parent.name)
def test_marketplace_names_the_folder_of_the_plugin(marketplace: Path) -> None:
    [entry] = json.loads(marketplace.read_text())["plugins"]
    source: Any = entry["source"]
    folder: str = source if isinstance(source, str) else source["path"]
    assert (REPOSITORY / folder).samefile(PLUGIN)


def test_registry_entry_is_one_that_the_registry_accepts() -> None:
    entry = json.loads(SERVER.read_text())

    # The registry's own limits; it knows the owner by the name in the README on PyPI.
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", entry["name"])
    assert len(entry["description"]) <= 100
    assert f"<!-- mcp-name: {entry['name']} -->" in (REPOSITORY / "README.md").read_text()
    [package] = entry["packages"]
    assert package["version"] == VERSION


def start(path: Path, *words: str, programs: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """Start the plugin's program where the named ones are on the path; each prints its words."""
    path.mkdir()
    for name in programs:
        program = path / name
        program.write_text(f'#!/bin/sh\necho {name} "$@"\n')
        program.chmod(0o755)
    environment = {"PATH": str(path)}
    return subprocess.run(
        ["/bin/sh", PROGRAM, *words], capture_output=True, text=True, env=environment, check=False
    )


@pytest.mark.skipif(os.name == "nt", reason="the plugin starts its program by a shell")
@pytest.mark.parametrize(
    ("programs", "printed"),
    [
        (("brain", "uvx"), "brain hook codex stop"),
        (("uvx",), f"uvx --quiet --offline --from commonbrain=={VERSION} brain hook codex stop"),
        ((), ""),
    ],
)
def test_plugin_takes_the_installed_command_or_the_published_package(
    tmp_path: Path, programs: tuple[str, ...], printed: str
) -> None:
    ended = start(tmp_path / "bin", "hook", "codex", "stop", programs=programs)

    assert (ended.returncode, ended.stdout.strip()) == (0, printed)


@pytest.mark.skipif(os.name == "nt", reason="the plugin starts its program by a shell")
@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash"])
def test_hook_of_the_plugin_ends_with_0_whatever_fails(tmp_path: Path, shell: str) -> None:
    (tmp_path / "brain").write_text("#!/bin/sh\nexit 2\n")
    (tmp_path / "brain").chmod(0o755)
    for program in (PROGRAM, tmp_path / "removed"):
        words = [shell, "-c", START, str(program), "hook", "codex", "stop"]
        ended = subprocess.run(words, capture_output=True, env={"PATH": str(tmp_path)}, check=False)

        assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")


@pytest.mark.skipif(os.name == "nt", reason="the plugin starts its program by a shell")
def test_plugin_says_what_to_install(tmp_path: Path) -> None:
    ended = start(tmp_path / "bin", "status", programs=())

    assert ended.returncode == 1
    assert "uv" in ended.stderr
