"""The operation forget."""

from commonbrain.brain import Brain
from commonbrain.domain.scope import Role
from commonbrain.flows.forget import Forgotten
from commonbrain.interfaces.operations.operation import Id, Operation, Reason, Request


class ForgetRequest(Request):
    """Which memory to forget, and why."""

    id: Id
    reason: Reason


def _handle(brain: Brain, request: ForgetRequest) -> Forgotten:
    return brain.forget(request.id, reason=request.reason)


def _tell(reply: Forgotten) -> str:
    done = "was forgotten before" if reply.was_forgotten_before else "forgotten"
    return f"{reply.id} {done}: {reply.headline}"


FORGET = Operation(
    name="forget",
    title="Forget",
    purpose="Take a wrong or unwanted memory out of every recall. To correct one, use revise.",
    request=ForgetRequest,
    reply=Forgotten,
    handle=_handle,
    tell=_tell,
    role=Role.WRITER,
    positional=("id",),
    is_destructive=True,
    is_idempotent=True,
)
