"""The one place that every call passes, whatever its door: may it be made, what became of it."""

from commonbrain.brain import Brain
from commonbrain.domain.errors import Limited, Refused
from commonbrain.interfaces.guarding import check_call, note_refusal
from commonbrain.interfaces.noting import asked, noted
from commonbrain.interfaces.operations.operation import Door, Operation, ReplyT, RequestT


def answer(
    operation: Operation[RequestT, ReplyT],
    brain: Brain,
    *,
    request: RequestT,
    door: Door = Door.MCP,
) -> ReplyT:
    """Do what is asked, if the caller may; an event is left either way.

    What is refused is in the audit of access. Networked doors have counted the call before, when
    they let the caller in.

    Raises:
        Refused: `insufficient_role`, `scope_denied`, `boot_required`; nothing was done.
        Limited: `quota_exceeded`; nothing was stored.
        CommonbrainError: whatever the operation raises.

    """
    with noted(brain, asked(operation, request, door=door)) as call:
        try:
            check_call(operation, brain, request=request)
            reply = operation.handle(brain, request)
        except (Refused, Limited) as error:
            note_refusal(operation.name, brain.house, caller=brain.caller, error=error)
            raise
        call.answered(operation.exit_code(reply))
        return reply
