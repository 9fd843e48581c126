"""The operation atomize: causes from stored memories."""

from functools import partial

from commonbrain.api.operation import Name, Operation, Request, Transport, argument
from commonbrain.api.operations.remember import render_item_result
from commonbrain.client import Brain
from commonbrain.model.limits import ITEMS_PER_CALL_MAX
from commonbrain.model.scope import Role
from commonbrain_causes.atomize import Atomized, atomizer_of


class AtomizeRequest(Request):
    """The memories to search for causes."""

    ids: list[str] = argument(
        "The id of a memory; by default the newest ones are read",
        [],
    )
    kinds: list[str] = argument("Only memories of this kind", [])
    project: Name = argument(
        "Only memories of this project, and those without a project",
    )
    limit: int = argument(f"How many at most, 1 to {ITEMS_PER_CALL_MAX}", ITEMS_PER_CALL_MAX)
    before: str | None = argument("Continue before this memory: `next` of the previous call")


def _handle(brain: Brain, request: AtomizeRequest) -> Atomized:
    read = partial(atomizer_of(brain), **request.model_dump())
    return brain.services.audited(brain.caller, action="shown by atomize", read=read)


def _render(reply: Atomized) -> str:
    counts = (
        f"Memories read by {reply.extractor}: {reply.read}. "
        f"Atoms stored: {reply.stored}, known: {reply.known}, rejected: {reply.rejected}."
    )
    more = [f"More are left: call it again with before {reply.next}."] if reply.next else []
    return "\n".join([counts, *(render_item_result(one) for one in reply.items), *more])


ATOMIZE = Operation(
    name="atomize",
    title="Atomize",
    purpose="Extract causes from stored memories and store them as atoms.",
    request=AtomizeRequest,
    reply=Atomized,
    handle=_handle,
    render_text=_render,
    role=Role.WRITER,
    consumes_quota=lambda _: True,
    positional=("ids",),
    transports=frozenset({Transport.CLI}),
    is_idempotent=True,
)
