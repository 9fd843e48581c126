"""Clients that say on their command line whether they reach their servers reach this one.

Cursor and VS Code have no such command without a window; what is written for them is held to
their documentation by tests of the texts alone.
"""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clients.processes import Place

pytestmark = pytest.mark.clients

# Gemini takes 5 s on a quiet machine; its listing once took over 60 s on a busy one.
COMMAND_S_MAX = 180
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
OLD = '{"type": "local", "command": ["x"], "enabled": false,}'
REMARKED = f'{{\n  // mine\n  "mcp": {{"old": {OLD},}},\n}}\n'


@pytest.mark.requirement("CL-01")
def test_gemini_lists_the_server_as_connected(
    modules: Path, node: Path, connected: Callable[[str], Place]
) -> None:
    program = modules / "@google" / "gemini-cli" / "bundle" / "gemini.js"

    ended = connected("gemini").run(
        (node, program, "mcp", "list"),
        timeout_s=COMMAND_S_MAX,
        # A folder nobody has trusted yet gets no servers.
        GEMINI_CLI_TRUST_WORKSPACE="true",
    )

    assert ended.status == 0, ended
    # It lists on the stream for messages, and in other places on the one for results.
    [line] = [line for line in (ended.out + ended.err).splitlines() if "commonbrain:" in line]
    assert line.endswith("Connected"), ended


@pytest.mark.requirement("CL-01")
@pytest.mark.parametrize("known", [None, REMARKED])
def test_opencode_lists_the_server_as_connected(
    modules: Path, place: Place, *, connected: Callable[[str], Place], known: str | None
) -> None:
    if known is not None:
        folder = place.home / ".config" / "opencode"
        folder.mkdir(parents=True)
        (folder / "opencode.jsonc").write_text(known)
    program = modules / "opencode-linux-x64" / "bin" / "opencode"
    if not program.exists():
        pytest.skip("opencode is fetched for Linux on x86-64 only")

    ended = connected("opencode").run((program, "mcp", "list"), timeout_s=COMMAND_S_MAX)

    assert ended.status == 0, ended
    output = COLOURS.sub("", ended.out + ended.err)
    assert re.search(r"commonbrain\s+connected", output), output
    assert ("old" in output) == (known is not None)
