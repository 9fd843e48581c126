"""The one place that every call passes, whatever its door: may it be made, what became of it."""

from commonbrain.brain import Brain
from commonbrain.domain.errors import Refused
from commonbrain.interfaces.noting import asked, noted
from commonbrain.interfaces.operations.operation import Door, Operation, ReplyT, RequestT


def answer(
    operation: Operation[RequestT, ReplyT],
    brain: Brain,
    *,
    request: RequestT,
    door: Door = Door.MCP,
) -> ReplyT:
    """Do what is asked, if the caller's role allows it; an event is left either way.

    Raises:
        Refused: `insufficient_role`; nothing was done.
        CommonbrainError: whatever the operation raises.

    """
    with noted(brain, asked(operation, request, door=door)) as call:
        if not brain.caller.role.covers(operation.role):
            raise Refused(
                f"Agent {brain.caller.agent} is a {brain.caller.role}; {operation.name} takes the "
                f"role {operation.role}.",
                code="insufficient_role",
                hint=f"Ask an admin for the role {operation.role}.",
            )
        reply = operation.handle(brain, request)
        call.answered(operation.exit_code(reply))
        return reply
