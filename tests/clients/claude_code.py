"""Claude Code, as its users run it, with a script on loopback for a model."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.clients.processes import Ended, Place
from tests.clients.scripted_model import FINAL_TEXT, ScriptedModel, ToolCall

# What it puts before the names that the server gives its tools.
PREFIX: Final = "mcp__commonbrain__"
COMMAND_S_MAX: Final = 90
TURNS_MAX: Final = 12
# Neither reports nor updates: there is nobody to send to and nowhere to fetch from.
QUIET: Final = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaudeCode:
    """Claude Code in a home that is connected to the server."""

    place: Place
    program: Path
    options: Sequence[str | Path] = ()
    """Further options, such as a plugin."""
    prefix: str = PREFIX
    prompt: str = "Do what is to be done."
    last_words: str = FINAL_TEXT
    """What the model says when the script is at its end."""

    def list_servers(self) -> Ended:
        """Let it connect to every server that it knows and say how that went."""
        return self.place.run((self.program, "mcp", "list"), timeout_s=COMMAND_S_MAX, **QUIET)

    def check_plugin(self, plugin: Path) -> Ended:
        """Let it judge a plugin or marketplace, with warnings as errors."""
        command = (self.program, "plugin", "validate", "--strict", plugin)
        return self.place.run(command, timeout_s=COMMAND_S_MAX, **QUIET)

    def converse(self, *script: ToolCall) -> ScriptedModel:
        """Run a new process to the end of a script; what the model was shown is in the answer."""
        with ScriptedModel(script, last_words=self.last_words) as model:
            ended = self._ask(model)
        assert ended.status == 0, ended
        assert json.loads(ended.out)["result"] == self.last_words
        return model

    def _ask(self, model: ScriptedModel) -> Ended:
        arguments = ("-p", self.prompt, "--max-turns", str(TURNS_MAX), *self.options)
        allowed = ("--allowedTools", self.prefix.removesuffix("__"), "--output-format", "json")
        access = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "scripted"}
        command = (self.program, *arguments, *allowed)
        return self.place.run(command, timeout_s=COMMAND_S_MAX, **QUIET, **access)


def call(tool: str, **arguments: object) -> ToolCall:
    """Write a call of one of the server's tools into a script."""
    return ToolCall(PREFIX + tool, arguments)


def shown(model: ScriptedModel, number: int = 0) -> str:
    """Give the text that the model was shown as the result of a call."""
    content: str | Sequence[dict[str, Any]] = model.result(number)["content"]
    return content if isinstance(content, str) else "".join(block["text"] for block in content)
