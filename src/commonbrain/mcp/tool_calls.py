"""Runs the operation of a tool call, and gives the reply that an agent reads.

Nothing here imports the MCP SDK, which takes a second.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from pydantic import ValidationError

from commonbrain.api.agent_arguments import list_arguments
from commonbrain.api.dispatch import CallContext, dispatch, record_call
from commonbrain.api.operation import (
    BY_AGENT,
    Operation,
    Request,
    Transport,
    arguments_for_agents,
)
from commonbrain.client import Brain
from commonbrain.model.errors import CommonbrainError, InterruptedCallError, InvalidInputError
from commonbrain.model.escaping import inert

_LOG: Final = logging.getLogger(__name__)
_KEY: Final = "idempotency_key"
BOOT: Final = "boot"
"""The operation, and the scheme of the resource, that start a session."""
SESSION_ARGUMENT: Final = "as_session"
"""The argument by which a call names its session if its protocol has no sessions."""
CALLS_AT_ONCE_MAX: Final = 8
"""Concurrent calls of one client; further ones wait."""
REQUESTS_MAX: Final = 64
"""Requests of one client that wait or run; further ones are not read."""
INTERNAL_ERROR_TEXT: Final = "An internal error occurred."
INTERNAL_ERROR_HINT: Final = "Run `brain doctor`; see the server's stderr."


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """How a request arrived from a process that sends it again if its server ends meanwhile."""

    key: str
    """Identifies the request, however often it is sent."""
    is_resent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReply:
    """The reply of a tool, as text and as JSON values."""

    text: str
    structured: dict[str, Any] | None = None
    is_error: bool = False


class ToolCaller(Protocol):
    """The caller of one tool call."""

    def brain(self, *, session: str | None = None, starts: bool = False) -> Brain:
        """Return the caller's brain; called in the thread that runs the operation.

        `session` is the one that the call names; with `starts` it starts one if none is named.
        """
        ...

    def record_missed_call(self, call: CallContext, error: CommonbrainError, /) -> None:
        """Record a call for which the brain could not be opened."""
        ...

    def redact_error(self, error: CommonbrainError, /) -> CommonbrainError:
        """Return an error without details that the caller may not see."""
        ...


def run_tool(
    operation: Operation[Any, Any],
    arguments: Mapping[str, Any],
    *,
    caller: ToolCaller,
    delivery: Delivery | None = None,
    takes_session: bool = False,
) -> ToolReply:
    """Run an operation; every error becomes a reply.

    With `takes_session` the call names its session by an argument.
    """
    given = dict(arguments)
    session = given.pop(SESSION_ARGUMENT, None) if takes_session else None
    try:
        request = operation.request.model_validate(given, context=BY_AGENT)
        if delivery is not None:
            request = _run_once(operation, request, delivery=delivery)
        brain = _open_brain(operation, request, caller=caller, session=session)
        reply = dispatch(operation, brain, request=request)
    except ValidationError as error:
        return failure(_argument_error(operation, error))
    except CommonbrainError as error:
        return failure(caller.redact_error(error))
    except Exception:  # noqa: BLE001 one call must not end the server
        _LOG.exception("%s failed", operation.name)
        # The client sees no details.
        error = CommonbrainError(INTERNAL_ERROR_TEXT, code="internal", hint=INTERNAL_ERROR_HINT)
        return failure(error)
    text = inert(operation.render_text(reply))
    if takes_session and operation.name == BOOT:
        text += f"\nPass {SESSION_ARGUMENT} {brain.caller.session} in every call."
    return ToolReply(text=text, structured=operation.to_agent_json(reply))


def _open_brain(
    operation: Operation[Any, Any],
    request: Request,
    *,
    caller: ToolCaller,
    session: object,
) -> Brain:
    """Return the caller's brain; record the call if it cannot be opened."""
    if session is not None and not isinstance(session, str):
        raise InvalidInputError(
            f"{SESSION_ARGUMENT} is not a text.", hint="Give the key from boot."
        )
    try:
        return caller.brain(session=session, starts=operation.name == BOOT)
    except CommonbrainError as error:
        call = record_call(operation, request, transport=Transport.MCP)
        caller.record_missed_call(call, error)
        raise


def _run_once(operation: Operation[Any, Any], request: Request, *, delivery: Delivery) -> Request:
    """Make a request safe to repeat.

    Raises:
        InterruptedCallError: it was sent before, and a repetition could do it twice.

    """
    if _KEY in operation.request.model_fields:
        has_key = getattr(request, _KEY) is not None
        return request if has_key else request.model_copy(update={_KEY: delivery.key})
    if delivery.is_resent and not operation.is_repeatable(request):
        raise InterruptedCallError(
            "The server ended during this call; the call may have been carried out.",
            hint="Check whether it was; if not, call again.",
        )
    return request


def _argument_error(operation: Operation[Any, Any], error: ValidationError) -> InvalidInputError:
    """Describe the invalid arguments and list the accepted ones, for the agent."""
    wrong = (
        f"{'.'.join(str(part) for part in one['loc']) or 'arguments'}: {one['msg']}."
        for one in error.errors(include_url=False)
    )
    accepted = list_arguments(arguments_for_agents(operation.request))
    return InvalidInputError(" ".join(wrong), hint=f"The tool {operation.name} takes {accepted}.")


def failure(error: CommonbrainError) -> ToolReply:
    """Return the reply that reports an error."""
    return ToolReply(text=f"{error.code}: {error}", is_error=True)
