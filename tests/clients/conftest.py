"""Where the server and the clients are, and a clean place for them to meet."""

import json
import os
import platform
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clients.claude_code import ClaudeCode
from tests.clients.inspector import Inspector
from tests.clients.processes import Place
from tests.clients.setup import FOLDER, is_installed

# Points to another server with the same commands, to try the clients on it.
BRAIN_VARIABLE = "COMMONBRAIN_TEST_BRAIN"
# Set to "by-hand" for a server that has no `connect` command.
CONNECT_VARIABLE = "COMMONBRAIN_TEST_CONNECT"
CONNECT_S_MAX = 30
MODULES = FOLDER / "node_modules"
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
ARCHITECTURES = {"x86_64": "x64", "AMD64": "x64", "aarch64": "arm64", "arm64": "arm64"}
CLAUDE_CODE = f"@anthropic-ai/claude-code-{sys.platform}-{ARCHITECTURES[platform.machine()]}"
INSPECTOR = "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
OWN_NODE = f"node-{sys.platform}-{ARCHITECTURES[platform.machine()]}/bin/node"


@pytest.fixture(scope="session")
def modules() -> Path:
    """The installed packages."""
    if not is_installed():
        pytest.fail("the foreign clients are not installed: run `just clients`", pytrace=False)
    return MODULES


@pytest.fixture(scope="session")
def server_command() -> Path:
    """The server's command: the one installed with this Python, unless another is named."""
    return Path(os.environ.get(BRAIN_VARIABLE) or Path(sys.executable).with_name("brain"))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """An empty home, and no variable of the machine's but a path to its programs."""
    home = tmp_path / "home"
    home.mkdir()
    return Place(home=home, environment={"PATH": SYSTEM_PATH, "TMPDIR": str(tmp_path)})


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Where the server under test keeps its memories; nothing is there yet."""
    return tmp_path / "brain.db"


@pytest.fixture
def inspector(
    modules: Path, node: Path, *, place: Place, server_command: Path, store: Path
) -> Inspector:
    """The Inspector's command line."""
    server = (server_command, "--store", store, "mcp")
    return Inspector(place=place, program=(node, modules / INSPECTOR), server=server)


@pytest.fixture(scope="session")
def node(modules: Path) -> Path:
    """A Node new enough for every client that needs one."""
    own = modules / OWN_NODE
    return own if own.exists() else Path(shutil.which("node") or "node")


@pytest.fixture
def connected(place: Place, server_command: Path, store: Path) -> Callable[[str], Place]:
    """Tells a client by name of the server, in the place."""

    def connect(client: str) -> Place:
        command = (server_command, "--store", store, "connect", client)
        ended = place.run(command, timeout_s=CONNECT_S_MAX)
        assert ended.status == 0, ended
        return place

    return connect


@pytest.fixture
def claude_code(
    modules: Path,
    place: Place,
    *,
    server_command: Path,
    store: Path,
    connected: Callable[[str], Place],
) -> ClaudeCode:
    """Claude Code, a program of its own in the package for this kind of machine, connected."""
    if os.environ.get(CONNECT_VARIABLE) == "by-hand":
        server = {
            "type": "stdio",
            "command": str(server_command),
            "args": ["--store", str(store), "mcp"],
        }
        known = {"mcpServers": {"commonbrain": server}}
        (place.home / ".claude.json").write_text(json.dumps(known))
    else:
        connected("claude-code")
    return ClaudeCode(place=place, program=modules / CLAUDE_CODE / "claude")
