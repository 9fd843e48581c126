"""The operation status."""

from commonbrain.brain import Brain
from commonbrain.flows.status import Condition
from commonbrain.interfaces.operations.operation import Operation, Request


class StatusRequest(Request):
    """Nothing needs to be said."""


def _handle(brain: Brain, _request: StatusRequest) -> Condition:
    return brain.status()


def _tell(reply: Condition) -> str:
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(reply.by_kind.items()))
    lines = [f"{reply.memories} memories ({kinds or 'none yet'}) in {reply.store}"]
    if reply.embedding_pending:
        lines.append(f"{reply.embedding_pending} wait for an embedding.")
    return "\n".join(lines)


STATUS = Operation(
    name="status",
    title="Status",
    purpose="Count what is stored, by kind and state.",
    request=StatusRequest,
    reply=Condition,
    handle=_handle,
    tell=_tell,
    is_read_only=True,
    is_idempotent=True,
)
