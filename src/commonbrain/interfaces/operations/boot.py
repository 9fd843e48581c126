"""The operation boot."""

from pydantic import Field

from commonbrain.brain import Brain
from commonbrain.domain.briefing import Briefing
from commonbrain.interfaces.operations.operation import Name, Operation, Request


class BootRequest(Request):
    """Who begins what, and where."""

    project: Name = Field(default=None, description="The repository or topic")
    task: str | None = Field(default=None, description="What you are to do")
    client: Name = Field(default=None, description="Your program")


def _handle(brain: Brain, request: BootRequest) -> Briefing:
    return brain.boot(request.project, request.task, client=request.client)


def _tell(reply: Briefing) -> str:
    return reply.text


BOOT = Operation(
    name="boot",
    title="Boot",
    purpose="Begin: the rules that bind you, open tasks, the last handoff, messages, who else "
    "is at work. Call it first.",
    request=BootRequest,
    reply=Briefing,
    handle=_handle,
    tell=_tell,
)
