"""The operation bulk: tags, pins, reviews and archiving of many memories at once."""

from typing import Literal

from pydantic import Field

from commonbrain.api.errors import EXIT_REFUSED
from commonbrain.api.operation import Operation, Request, Transport, argument
from commonbrain.api.operations.forget import render_bulk_change
from commonbrain.history.selection import BulkChangeResult, Phase
from commonbrain.model.scope import Role


class BulkRequest(Request):
    """The memories and the change."""

    op: Literal["retag", "pin", "unpin", "archive", "review"] = Field(
        description="review: they needed review and still hold"
    )
    ids: list[str] = argument("The id of a memory, mem_...; up to 100 are allowed", [])
    tags: list[str] = argument("retag: a tag to add", [])
    untag: list[str] = argument("retag: a tag to remove", [])
    reason: str = argument("Why you change them; the reason is stored", "")
    confirm: int | None = argument("The count that the preview shows")


BULK = Operation(
    name="bulk",
    title="Bulk edit",
    purpose="Tag, pin, archive or confirm many memories in one transaction, after a preview.",
    request=BulkRequest,
    reply=BulkChangeResult,
    handle=lambda brain, request: brain.bulk_edit(
        action=request.op, **request.model_dump(exclude={"op"})
    ),
    render_text=render_bulk_change,
    role=Role.WRITER,
    positional=("op", "ids"),
    transports=frozenset({Transport.CLI, Transport.REST}),
    is_idempotent=True,
    exit_code=lambda reply: EXIT_REFUSED * (reply.status is Phase.PREVIEW and reply.count > 0),
    expected_confirm=lambda reply: reply.count if reply.status is Phase.PREVIEW else None,
)
