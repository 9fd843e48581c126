"""The one place that every call passes, whatever its door: may it be made, what became of it."""

from commonbrain.brain import Brain
from commonbrain.domain.errors import Refused
from commonbrain.interfaces.operations.operation import Operation, ReplyT, RequestT


def answer(operation: Operation[RequestT, ReplyT], brain: Brain, *, request: RequestT) -> ReplyT:
    """Do what is asked, if the caller's role allows it.

    Raises:
        Refused: `insufficient_role`; nothing was done.
        CommonbrainError: whatever the operation raises.

    """
    if not brain.caller.role.covers(operation.role):
        raise Refused(
            f"Agent {brain.caller.agent} is a {brain.caller.role}; {operation.name} takes the role "
            f"{operation.role}.",
            code="insufficient_role",
            hint=f"Ask an admin for the role {operation.role}.",
        )
    return operation.handle(brain, request)
