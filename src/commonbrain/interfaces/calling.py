"""The one place that every call passes, whatever its door: may it be made, what became of it."""

from commonbrain.brain import Brain
from commonbrain.domain.errors import Limited, Refused
from commonbrain.interfaces.guarding import check_call, note_refusal
from commonbrain.interfaces.operations.operation import Operation, ReplyT, RequestT


def answer(operation: Operation[RequestT, ReplyT], brain: Brain, *, request: RequestT) -> ReplyT:
    """Do what is asked, if the caller may; what is refused is in the audit of access.

    Raises:
        Refused: `insufficient_role`, `scope_denied`, `boot_required`; nothing was done.
        Limited: `rate_limited`, `quota_exceeded`; nothing was done.
        CommonbrainError: whatever the operation raises.

    """
    try:
        check_call(operation, brain, request=request)
        return operation.handle(brain, request)
    except (Refused, Limited) as error:
        note_refusal(operation, brain, error=error)
        raise
