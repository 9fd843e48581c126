"""Agents that call a server's tools when their model says so, each as its users run it."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.clients.processes import Place
from tests.clients.scripted_model import ScriptedModel, ToolCall

ASKED: Final = "Who are you?"
RUN_S_MAX: Final = 120
CODEX: Final = "vendor/x86_64-unknown-linux-musl/bin/codex"


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """How one is started, given its packages, a Node, and where its model is."""

    package: str
    command: Callable[[Path, Path, str], tuple[str | Path, ...]]
    environment: Callable[[str], Mapping[str, str]]
    prefix: str
    """What it puts before the names that the server gives its tools."""
    prepare: Callable[[Path], None] = lambda _: None
    """Sets in its home what else it needs than a server."""


def run(agent: Agent, place: Place, *, modules: Path, node: Path, calls: str) -> str:
    """Let its model call one tool without arguments; give what the model is shown of it."""
    script = [ToolCall(agent.prefix + calls, {})]
    model = converse(agent, place, modules=modules, node=node, script=script)
    return json.dumps(model.result(0)["content"])


def converse(
    agent: Agent,
    place: Place,
    *,
    modules: Path,
    node: Path,
    script: Sequence[ToolCall] = (),
    prompt: str = ASKED,
) -> ScriptedModel:
    """Run a new process to the end of a script, from what its user asks."""
    agent.prepare(place.home)
    with ScriptedModel(script) as model:
        words = agent.command(modules / agent.package, node, model.url)
        command = [prompt if word == ASKED else word for word in words]
        ended = place.run(command, timeout_s=RUN_S_MAX, **agent.environment(model.url))
    assert ended.status == 0, ended
    return model


def _merge(file: Path, more: Mapping[str, Any]) -> None:
    """Put settings of its own into a file."""
    known: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({**known, **more}))


def codex_command(package: Path, url: str, *more: str) -> tuple[str | Path, ...]:
    """Start Codex with its model at a URL; further words come before the prompt."""
    provider = {"name": "scripted", "base_url": f"{url}/v1", "wire_api": "responses"}
    written = ",".join(f'{name}="{value}"' for name, value in provider.items())
    settings = (
        "model=scripted",
        "model_provider=scripted",
        f'model_providers.scripted={{{written},env_key="SCRIPTED_KEY"}}',
    )
    options = [word for setting in settings for word in ("-c", setting)]
    return (package / CODEX, "exec", "--skip-git-repo-check", *options, *more, ASKED)


def _codex(package: Path, _node: Path, url: str) -> tuple[str | Path, ...]:
    approved = 'mcp_servers.commonbrain.default_tools_approval_mode="approve"'
    return codex_command(package, url, "-c", approved)


def _copilot(package: Path, _node: Path, _url: str) -> tuple[str | Path, ...]:
    return (package / "copilot", "-p", ASKED, "--allow-all-tools")


def _copilot_environment(url: str) -> Mapping[str, str]:
    return {
        "COPILOT_OFFLINE": "true",
        "COPILOT_AUTO_UPDATE": "false",
        "COPILOT_MODEL": "claude-sonnet-4.5",
        "COPILOT_PROVIDER_TYPE": "anthropic",
        "COPILOT_PROVIDER_BASE_URL": url,
        "COPILOT_PROVIDER_API_KEY": "scripted",
    }


def _opencode(package: Path, _node: Path, _url: str) -> tuple[str | Path, ...]:
    return (package / "bin" / "opencode", "run", "-m", "anthropic/scripted", ASKED)


def _opencode_environment(url: str) -> Mapping[str, str]:
    model = {"name": "scripted", "tool_call": True, "limit": {"context": 100_000, "output": 8_000}}
    options = {"baseURL": f"{url}/v1", "apiKey": "scripted"}
    provider = {"anthropic": {"options": options, "models": {"scripted": model}}}
    return {
        "OPENCODE_CONFIG_CONTENT": json.dumps({"provider": provider}),
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
    }


def _gemini(package: Path, node: Path, _url: str) -> tuple[str | Path, ...]:
    options = ("--approval-mode", "yolo", "-m", "gemini-2.5-flash", "-p", ASKED)
    return (node, package / "bundle" / "gemini.js", *options)


def _prepare_gemini(home: Path) -> None:
    auth = {"auth": {"selectedType": "gemini-api-key"}}
    _merge(home / ".gemini" / "settings.json", {"security": auth})


AGENTS: Final[Mapping[str, Agent]] = {
    "codex": Agent(
        package="@openai/codex-linux-x64",
        command=_codex,
        environment=lambda _: {"SCRIPTED_KEY": "scripted"},
        prefix="mcp__commonbrain__",
    ),
    "copilot": Agent(
        package="@github/copilot-linux-x64",
        command=_copilot,
        environment=_copilot_environment,
        prefix="commonbrain-",
    ),
    "gemini": Agent(
        package="@google/gemini-cli",
        command=_gemini,
        environment=lambda url: {
            "GOOGLE_GEMINI_BASE_URL": url,
            "GEMINI_API_KEY": "scripted",
            # A folder nobody has trusted yet gets no servers.
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        },
        prefix="mcp_commonbrain_",
        prepare=_prepare_gemini,
    ),
    "opencode": Agent(
        package="opencode-linux-x64",
        command=_opencode,
        environment=_opencode_environment,
        prefix="commonbrain_",
    ),
}
