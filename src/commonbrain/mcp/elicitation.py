"""Questions to the user of a client about what a model proposed.

The answer is no person's: a client may answer by itself, and a model with a shell can start a
client of its own. So a question offers to decline or to wait, which adds nothing. A person confirms
at a terminal or on the page.
"""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import anyio
from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

from commonbrain.api.thread_limiter import ThreadLimiter
from commonbrain.client import Brain
from commonbrain.mcp.tool_calls import ToolCaller, ToolReply
from commonbrain.model.errors import CommonbrainError
from commonbrain.model.escaping import inert

ANSWER_S: Final = 30.0
"""How long a call waits for an answer; clients end a call after a minute."""
_PAUSE_S: Final = 600.0
"""From one question to the next of a connection."""
_LOOKED_AT_MAX: Final = 20
"""The newest entries of the queue, among which is the proposal of a call that has just ended."""
_FIELD: Final = "decision"
_DECLINE: Final = "decline"
_FORM: Final = {
    "type": "object",
    "properties": {
        _FIELD: {"type": "string", "title": "Decision", "enum": ["later", _DECLINE]},
    },
    "required": [_FIELD],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """A question about a proposal, with the reply of the call that made it.

    A client that answers by another call sends it along, to whichever server runs by then. What
    it could change of it is its own: what it reads, and a proposal that it may withdraw anyway.
    """

    id: str
    reply: ToolReply


_STATE: Final = TypeAdapter(_Question)


@dataclass(slots=True, kw_only=True)
class Questions:
    """Asks the client of one connection, by the means of its protocol."""

    threads: ThreadLimiter
    answer_s: float = ANSWER_S
    _asked_at: float = -math.inf

    async def ask(
        self, context: ServerRequestContext[Any], reply: ToolReply, *, caller: ToolCaller
    ) -> ToolReply | types.InputRequiredResult:
        """Ask about what waits for a person after a call; return the reply, or the question."""
        id_ = _waiting_id(reply)
        is_quiet = anyio.current_time() < self._asked_at + _PAUSE_S
        if id_ is None or is_quiet or not _takes_forms(context):
            return reply
        request = await self._request(id_, caller=caller)
        if request is None:
            return reply
        self._asked_at = anyio.current_time()
        question = _Question(id=id_, reply=reply)
        if context.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS:
            state = _STATE.dump_json(question).decode()
            return types.InputRequiredResult(input_requests={_FIELD: request}, request_state=state)
        try:
            answer = await context.session.send_request(
                request,
                types.ElicitResult,
                request_read_timeout_seconds=self.answer_s,
                metadata=ServerMessageMetadata(related_request_id=context.request_id),
            )
        except (MCPError, ValidationError):
            # The client does not answer in time, or something else.
            return reply
        return await self._settle(question, answer, caller=caller)

    async def resume(
        self, params: types.CallToolRequestParams, *, caller: ToolCaller
    ) -> ToolReply | None:
        """Return the reply to a call that answers a question; None if it is another call."""
        if params.request_state is None:
            return None
        try:
            question = _STATE.validate_json(params.request_state)
        except ValidationError:
            raise MCPError(types.INVALID_PARAMS, "invalid: The state is of no question.") from None
        answer = (params.input_responses or {}).get(_FIELD)
        return await self._settle(question, answer, caller=caller)

    async def _request(self, id_: str, *, caller: ToolCaller) -> types.ElicitRequest | None:
        """Return the question about a proposal, in the words of the review queue."""

        def effects() -> str:
            # A server lists its tools without them.
            from commonbrain.api.operations.review import effects_lines  # noqa: PLC0415

            queue = caller.brain().review("proposals", limit=_LOOKED_AT_MAX)
            rows = (one for one in queue.proposals if one.memory.id == id_)
            return "\n".join(line for one in rows for line in effects_lines(one))

        try:
            shown = await self.threads.run(effects)
        except CommonbrainError:
            return None
        message = (
            f"An agent proposes this; it does not hold until you confirm it:\n{inert(shown)}\n"
            f"To confirm it, run in a terminal of your own: brain revise approve {id_} --reason "
            "WHY, or use the page, brain ui. Here you can decline it."
        )
        form = types.ElicitRequestFormParams(message=message, requested_schema=_FORM)
        return types.ElicitRequest(params=form) if shown else None

    async def _settle(
        self, question: _Question, answer: object, *, caller: ToolCaller
    ) -> ToolReply:
        """Withdraw the proposal if the answer declines it; nothing else changes the reply.

        Claude Code without a user cancels every question: the agent still has to ask.
        """
        is_declined = (
            isinstance(answer, types.ElicitResult)
            and answer.action == "accept"
            and (answer.content or {}).get(_FIELD) == _DECLINE
        )
        if not is_declined:
            return question.reply
        try:
            await self.threads.run(partial(_decline, caller, question.id))
        except CommonbrainError:
            return question.reply
        return _as_declined(question)


def _decline(caller: ToolCaller, id_: str) -> None:
    brain: Brain = caller.brain()
    brain.revise.reject(id_, reason="Declined in a question of the client.")


def _takes_forms(context: ServerRequestContext[Any]) -> bool:
    """Return whether a client shows forms; one that names no mode does."""
    declared = context.session.client_capabilities
    modes = declared.elicitation if declared else None
    return modes is not None and (modes.form is not None or modes.url is None)


def _waiting_id(reply: ToolReply) -> str | None:
    """Return the memory of a reply that waits for a person: a new text, or a proposed change."""
    structured = reply.structured or {}
    items = structured.get("items", ())
    if structured.get("status") == "proposed":
        return structured.get("id") or items[0]["id"]
    waiting = (one for one in items if one.get("status") == "quarantined")
    return next((one["id"] for one in waiting), None)


def _as_declined(question: _Question) -> ToolReply:
    """Replace the hint of the reply, by which the agent would ask the user."""
    reply = question.reply
    structured = reply.structured or {}
    hint = {"hint": "It was declined and is withdrawn."}
    if structured.get("status") == "proposed":
        structured = structured | hint
    else:
        items = structured.get("items", ())
        structured = structured | {
            "items": [one | hint if one.get("id") == question.id else one for one in items]
        }
    return replace(reply, text=f"{reply.text}\n{hint['hint']}", structured=structured)
