"""What this memory adds to the context of a session, in tokens."""

import json
from dataclasses import dataclass

from commonbrain.api.operations import Profile
from commonbrain.api.schemas import compact_schema
from commonbrain.client import Brain
from commonbrain.mcp.server import INSTRUCTIONS, tools_of
from commonbrain.runtime.settings_loading import load_settings
from commonbrain.text.tokens import estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCost:
    """Estimated tokens: what a client reads at its start, and what hooks add at most."""

    tools: int
    """Names, descriptions and arguments; clients that load tools on demand read less."""
    instructions: int
    boot: int
    """The briefing of this store for the current folder's project."""
    prompt_max: int
    """What a hook adds to a prompt at most; to most it adds nothing."""

    @property
    def session(self) -> int:
        """What a session costs before its first prompt."""
        return self.tools + self.instructions + self.boot


def measure_cost(brain: Brain, profile: Profile) -> SessionCost:
    """Measure the tools of a profile and the briefing of a store."""
    tools = (
        f"{name}\n{operation.purpose}\n"
        + json.dumps(compact_schema(operation.request), separators=(",", ":"))
        for name, operation in tools_of(profile).items()
    )
    return SessionCost(
        tools=sum(map(estimate, tools)),
        instructions=estimate(INSTRUCTIONS),
        boot=estimate(brain.preview_boot().text),
        prompt_max=load_settings().hook_prompt_tokens,
    )


def describe_cost(cost: SessionCost) -> str:
    """Return the cost in a sentence."""
    return (
        f"A session costs about {cost.session:,} tokens: tools {cost.tools:,}, instructions "
        f"{cost.instructions:,}, the briefing of this store {cost.boot:,}. Hooks add at most "
        f"{cost.prompt_max:,} to a prompt, and nothing to most."
    )
