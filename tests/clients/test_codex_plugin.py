"""The plugin in the real Codex: added from the marketplace, its hooks run, its server is known."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

import commonbrain
from tests.clients.agents import AGENTS, CODEX, RUN_S_MAX, codex_command
from tests.clients.processes import Place
from tests.clients.scripted_model import ScriptedModel
from tests.plugin_files import REPOSITORY

pytestmark = pytest.mark.clients

RULE = "Never commit to the branch release without a green build."
AGENT = AGENTS["codex"]


@pytest.fixture
def codex_place(place: Place, *, server_command: Path, store: Path) -> Place:
    """A place where `brain` is on the path, with a store in which something is known."""
    commonbrain.open(store, agent="somebody").remember(RULE, kind="rule", severity="BLOCKER")
    environment = {
        **place.environment,
        **AGENT.environment(""),
        "PATH": f"{server_command.parent}:{place.environment['PATH']}",
        "COMMONBRAIN_STORE": str(store),
        "COMMONBRAIN_HOOK_START_TIMEOUT_S": "9",
    }
    return replace(place, environment=environment)


def test_codex_adds_the_plugin_and_shows_its_model_what_binds(
    codex_place: Place, modules: Path, store: Path
) -> None:
    package = modules / AGENT.package
    for words in (("marketplace", "add", REPOSITORY), ("add", "commonbrain@commonbrain")):
        ended = codex_place.run((package / CODEX, "plugin", *words), timeout_s=RUN_S_MAX)
        assert ended.status == 0, ended

    with ScriptedModel([]) as model:
        command = codex_command(package, model.url, "--dangerously-bypass-hook-trust")
        ended = codex_place.run(command, timeout_s=RUN_S_MAX)
    assert ended.status == 0, ended

    assert RULE in json.dumps(model.requests[-1])
    servers = codex_place.run((package / CODEX, "mcp", "list"), timeout_s=RUN_S_MAX)
    assert re.search(r"^commonbrain .* enabled ", servers.out, re.MULTILINE)
    with commonbrain.open(store) as brain:
        hooks = {(one.client, one.event) for one in brain.status().hooks}
    assert ("codex", "session-start") in hooks
