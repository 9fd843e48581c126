"""The operation status."""

from collections.abc import Iterator
from dataclasses import dataclass, fields

from pydantic import Field

from commonbrain.brain import Brain
from commonbrain.flows.status import Condition
from commonbrain.flows.unsettled import Agenda
from commonbrain.interfaces.operations.operation import PLAIN, Operation, Request
from commonbrain.interfaces.operations.unsettled import tell_agenda


class StatusRequest(Request):
    """What to tell beside the counts."""

    unsettled: bool = Field(
        default=False,
        description="List open conflicts, what needs review, what is proposed",
        json_schema_extra=PLAIN,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted(Condition):
    """The counts, and what is unsettled where that was asked for."""

    unsettled: Agenda | None = None


def _handle(brain: Brain, request: StatusRequest) -> Counted:
    counted = brain.status()
    own = {field.name: getattr(counted, field.name) for field in fields(Condition)}
    return Counted(**own, unsettled=brain.unsettled() if request.unsettled else None)


def _tell(reply: Counted) -> str:
    return "\n".join(_lines(reply))


def _lines(reply: Counted) -> Iterator[str]:
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(reply.by_kind.items()))
    yield f"{reply.memories} memories ({kinds or 'none yet'}) in {reply.store}"
    if reply.embedding_pending:
        yield f"{reply.embedding_pending} wait for an embedding."
    if reply.jobs:
        counts = ", ".join(f"{count} {state}" for state, count in reply.jobs.items())
        yield f"Jobs: {counts}."
    if reply.unsettled is not None:
        yield tell_agenda(reply.unsettled)


STATUS = Operation(
    name="status",
    title="Status",
    purpose="Count what is stored; list what wants a decision.",
    request=StatusRequest,
    reply=Counted,
    handle=_handle,
    tell=_tell,
    is_read_only=True,
    is_idempotent=True,
)
