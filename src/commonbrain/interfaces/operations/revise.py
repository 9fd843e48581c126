"""The operation revise."""

from typing import Literal

from pydantic import Field

from commonbrain.brain import Brain
from commonbrain.domain.scope import Role
from commonbrain.flows.remember.outcome import Outcome
from commonbrain.flows.remember.pipeline import DraftFields
from commonbrain.interfaces.errors import EXIT_REFUSED
from commonbrain.interfaces.operations.operation import Id, Name, Operation, Reason, Request
from commonbrain.interfaces.operations.remember import tell_outcome


class ReviseRequest(Request):
    """What to change in which memory."""

    op: Literal["supersede"] = Field(description="supersede: replace it by a newer text")
    id: Id
    text: str = Field(description="What holds now")
    reason: Reason
    headline: str | None = None
    kind: Name = None
    source_ref: str | None = None


def _handle(brain: Brain, request: ReviseRequest) -> Outcome:
    given = request.model_dump(include={"headline", "kind", "source_ref"}, exclude_none=True)
    return brain.revise.supersede(
        request.id, request.text, reason=request.reason, **DraftFields(**given)
    )


REVISE = Operation(
    name="revise",
    title="Revise",
    purpose="Correct a memory: the new text takes its place, the old one stays as history.",
    request=ReviseRequest,
    reply=Outcome,
    handle=_handle,
    tell=tell_outcome,
    exit_code=lambda reply: EXIT_REFUSED * reply.status.is_refused,
    role=Role.WRITER,
    positional=("op", "id", "text"),
)
