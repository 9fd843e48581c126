"""The operation get."""

from commonbrain.brain import Brain
from commonbrain.domain.times import show_instant
from commonbrain.flows.get import Shown
from commonbrain.interfaces.operations.operation import Id, Operation, Request


class GetRequest(Request):
    """Which memory to fetch."""

    id: Id


def _handle(brain: Brain, request: GetRequest) -> Shown:
    return brain.get(request.id)


def _tell(reply: Shown) -> str:
    origin = f"{reply.id} | {reply.kind} | {show_instant(reply.occurred_at)} | by {reply.agent}"
    quoted = [f"> {line}" for line in (reply.body or reply.headline).splitlines()]
    return "\n".join([*([reply.banner] if reply.banner else []), origin, *quoted])


GET = Operation(
    name="get",
    title="Get",
    purpose="Fetch one memory whole by its id: where it comes from, whether it still holds.",
    request=GetRequest,
    reply=Shown,
    handle=_handle,
    tell=_tell,
    positional=("id",),
    is_read_only=True,
    is_idempotent=True,
)
