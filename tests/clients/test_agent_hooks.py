"""Hooks in other agents than Claude Code: a failure, an edit, a subagent, and what the user says.

What the model is shown is read from the requests that it was sent; what was kept, from the store.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest

import commonbrain
from tests.clients.agents import AGENTS, Agent, converse
from tests.clients.conftest import CONNECT_S_MAX
from tests.clients.processes import Place, in_project, patient_hooks, wait_for_hooks
from tests.clients.scripted_dialects import FREE_INPUT
from tests.clients.scripted_model import ScriptedModel, ToolCall

pytestmark = pytest.mark.clients

RULE: Final = "Never commit to the branch release without a green build."
KNOWN: Final = "payments/refunds.py rounds down, as the bank does"
ERROR: Final = "E   shop.errors.StockError: table orders_open is missing in warehouse.db"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """The calls with which the model of an agent runs a command, writes a file, starts another."""

    run: Callable[[str], ToolCall]
    write: Callable[[Path, str], ToolCall]
    start: Callable[[str], ToolCall] | None = None
    options: tuple[str, ...] = ()


def _patch(file: Path, text: str) -> ToolCall:
    lines = "".join(f"+{line}\n" for line in text.splitlines())
    patch = f"*** Begin Patch\n*** Add File: {file}\n{lines}*** End Patch"
    return ToolCall("apply_patch", {FREE_INPUT: patch})


TOOLS: Final[Mapping[str, Tools]] = {
    "codex": Tools(
        run=lambda line: ToolCall("exec_command", {"cmd": line}),
        write=_patch,
        options=(
            "--dangerously-bypass-hook-trust",
            "--dangerously-bypass-approvals-and-sandbox",
            # It gives the tool for patches to models that it knows.
            *("-c", "model=gpt-5.6-sol"),
        ),
    ),
    "copilot": Tools(
        run=lambda line: ToolCall("bash", {"command": line, "description": "Check"}),
        write=lambda file, text: ToolCall("create", {"path": str(file), "file_text": text}),
        start=lambda task: ToolCall(
            "task",
            {
                "description": "Look at refunds",
                "prompt": task,
                "agent_type": "general-purpose",
                "name": "look",
                "mode": "sync",
            },
        ),
    ),
    "gemini": Tools(
        run=lambda line: ToolCall("run_shell_command", {"command": line}),
        write=lambda file, text: ToolCall("write_file", {"file_path": str(file), "content": text}),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooked:
    """An agent with hooks, in its place."""

    agent: Agent
    tools: Tools
    place: Place
    modules: Path
    node: Path
    store: Path

    def converse(self, *script: ToolCall, prompt: str = "Do what is to be done.") -> ScriptedModel:
        """Run a new session to the end of a script, and what its hooks leave to do."""
        model = converse(
            self.agent,
            self.place,
            modules=self.modules,
            node=self.node,
            script=script,
            prompt=prompt,
        )
        wait_for_hooks(self.store)
        return model


@pytest.fixture(params=TOOLS)
def hooked(
    request: pytest.FixtureRequest,
    place: Place,
    *,
    modules: Path,
    node: Path,
    server_command: Path,
    store: Path,
) -> Hooked:
    """Each agent as `brain connect CLIENT --hooks` leaves it."""
    agent, tools = AGENTS[request.param], TOOLS[request.param]
    if not (modules / agent.package).exists():
        pytest.skip(f"{request.param} is fetched for Linux on x86-64 only")
    place = replace(place, environment={**place.environment, **patient_hooks(store)})
    command = (server_command, "--store", store, "connect", request.param, "--hooks")
    ended = place.run(command, timeout_s=CONNECT_S_MAX)
    assert ended.status == 0, ended

    def start(package: Path, node: Path, url: str) -> tuple[str | Path, ...]:
        return (*agent.command(package, node, url), *tools.options)

    return Hooked(
        agent=replace(agent, command=start),
        tools=tools,
        place=place,
        modules=modules,
        node=node,
        store=store,
    )


def shown(model: ScriptedModel) -> str:
    return json.dumps(model.requests[-1], ensure_ascii=False)


def test_fix_of_a_failure_is_shown_when_the_failure_comes_back(hooked: Hooked) -> None:
    # Of a folder without a project, agents are shown names alone.
    hooked = replace(hooked, place=in_project(hooked.place))
    file, check = hooked.place.home / "orders.py", hooked.place.home / "check.sh"
    check.write_text(f"grep -q orders_open {file} || {{ echo '{ERROR}'; exit 1; }}\n")
    checks = hooked.tools.run("sh check.sh")

    hooked.converse(checks, hooked.tools.write(file, "orders_open = 1\n"), checks)
    assert file.read_text() == "orders_open = 1\n"
    file.unlink()
    model = hooked.converse(checks)

    assert "It passed after an edit of orders.py" in shown(model)
    # The lines of a patch are shown as they are.
    assert re.search(r"\+ ?orders_open = 1", shown(model))


def test_what_is_known_of_a_file_is_shown_when_it_is_edited(hooked: Hooked) -> None:
    commonbrain.open(hooked.store, agent="somebody").remember(KNOWN, kind="fact")
    file = hooked.place.home / "src" / "payments" / "refunds.py"
    file.parent.mkdir(parents=True)

    model = hooked.converse(hooked.tools.write(file, "RATE = 1\n"))

    assert file.read_text() == "RATE = 1\n"
    assert shown(model).count(KNOWN) == 1


def test_subagent_is_shown_what_binds_and_what_is_known_of_its_task(hooked: Hooked) -> None:
    if hooked.tools.start is None:
        pytest.skip("the script starts no subagent of this agent")
    brain = commonbrain.open(hooked.store, agent="somebody")
    brain.remember(RULE, kind="rule", severity="BLOCKER")
    brain.remember(KNOWN, kind="fact")
    task = "Why does payments/refunds.py round down?"

    model = hooked.converse(hooked.tools.start(task), prompt="Look after the refunds.")

    firsts = [json.dumps(one["messages"][0], ensure_ascii=False) for one in model.requests]
    own = next(text for text in firsts if task in text)
    assert RULE in own
    assert KNOWN in own
    assert own.count("<commonbrain-memory>") == 1


def test_what_the_user_says_waits_for_a_person(hooked: Hooked) -> None:
    hooked.converse(prompt="From now on use pnpm instead of npm")

    with commonbrain.open(hooked.store) as brain:
        (held,) = brain.review("proposals").proposals
    assert held.memory.headline == "use pnpm instead of npm"
