"""The bundle for Claude Desktop, checked and packed by its own tool."""

from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.clients.processes import Place
from tests.plugin_files import REPOSITORY

pytestmark = pytest.mark.clients

FOLDER = REPOSITORY / "deploy" / "claude-desktop"
PACK_S_MAX = 60


def test_bundle_is_valid_and_holds_what_starts_the_server(
    place: Place, modules: Path, node: Path, tmp_path: Path
) -> None:
    bundle = tmp_path / "commonbrain.mcpb"
    program = (node, modules / "@anthropic-ai" / "mcpb" / "dist" / "cli" / "cli.js")

    ended = place.run((*program, "pack", FOLDER, bundle), timeout_s=PACK_S_MAX)

    assert ended.status == 0, ended
    assert set(ZipFile(bundle).namelist()) == {"manifest.json", "pyproject.toml", "server.py"}
