"""A toolset of Pydantic AI: pydantic/pydantic-ai, `pydantic_ai/toolsets/function.py`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from commonbrain.api.dispatch import CallContext
from commonbrain.api.operation import Operation
from commonbrain.api.operations import OPERATIONS, load_operation
from commonbrain.api.schemas import compact_schema
from commonbrain.client import Brain
from commonbrain.extras import extra_missing
from commonbrain.mcp.tool_calls import run_tool
from commonbrain.model.errors import CommonbrainError, InvalidInputError

try:
    from pydantic_ai import ModelRetry, Tool
    from pydantic_ai.toolsets import FunctionToolset
except ImportError as error:
    raise extra_missing("pydantic_ai", extra="pydantic-ai") from error

TOOLS: Final = ("recall", "remember", "get", "revise", "forget")
"""What an agent needs to find, store, read, correct and remove memories."""
_RETRIES: Final = 2
"""Corrections of refused arguments before the run fails."""


class CommonbrainToolset(FunctionToolset[Any]):
    """The tools of Commonbrain for an agent: pass it to `Agent(toolsets=[...])`.

    Names, descriptions, arguments and replies are those of the MCP server, within the same budgets
    of tokens. A refused call is returned to the model, which may correct it.
    """

    def __init__(
        self,
        brain: Brain,
        *,
        tools: Sequence[str] = TOOLS,
        id: str | None = "commonbrain",  # noqa: A002 the framework's name
    ) -> None:
        """Create the toolset.

        Args:
            brain: what the tools read and write, as its agent and in its project.
            tools: names of MCP tools, such as boot, trace, session or message.
            id: the id of the toolset, unique among those of an agent.

        Raises:
            InvalidInputError: there is no tool of a name.

        """
        known = [row.name for row in OPERATIONS if row.tool is not None]
        unknown = sorted(set(tools) - set(known))
        if unknown:
            raise InvalidInputError(
                f"There is no tool {', '.join(unknown)}.", hint=f"Choose from {', '.join(known)}."
            )
        caller = _BrainCaller(brain.as_model())
        super().__init__(
            [_tool(load_operation(name), caller) for name in tools], id=id, max_retries=_RETRIES
        )


def _tool(operation: Operation[Any, Any], caller: _BrainCaller) -> Tool[Any]:
    """Return the tool of an operation, which checks its arguments and names what it takes."""

    async def run(**arguments: object) -> str:
        reply = await asyncio.to_thread(run_tool, operation, arguments, caller=caller)
        if reply.is_error:
            raise ModelRetry(reply.text)
        return reply.text

    return Tool[Any].from_schema(
        run,
        name=operation.name,
        description=operation.purpose,
        json_schema=compact_schema(operation.request),
    )


@dataclass(frozen=True, slots=True)
class _BrainCaller:
    """The caller of all tools, who has a brain already."""

    own: Brain

    def brain(self, *, session: str | None = None, starts: bool = False) -> Brain:
        """Return the brain; its session is the one that it was opened with."""
        del session, starts
        return self.own

    def record_missed_call(self, _call: CallContext, _error: CommonbrainError, /) -> None:
        """Do nothing: the brain is open."""

    def redact_error(self, error: CommonbrainError, /) -> CommonbrainError:
        """Return the error as it is: the caller opened the brain and may see its details."""
        return error
