"""The operation why_failed: what fixed a failure before, for any output."""

from pydantic import Field

from commonbrain.api.operation import Command, Name, Operation, Request, Transport, argument
from commonbrain.api.project_folder import folder_config_of
from commonbrain.client import Brain
from commonbrain.model.limits import RAW_TEXT_BYTES_MAX
from commonbrain.model.values import dataclass
from commonbrain.retrieval.failures import KnownFix


class WhyFailedRequest(Request):
    """What a failed command printed."""

    text: str = Field(
        min_length=1,
        max_length=RAW_TEXT_BYTES_MAX,
        description="What the command printed; - reads it from stdin",
    )
    project: Name = argument("The project in which it failed; by default that of the folder")


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyFailedResponse:
    """The fix that is known; None if no error stands out, or none like it was fixed."""

    fix: KnownFix | None = None


def _handle(brain: Brain, request: WhyFailedRequest) -> WhyFailedResponse:
    project = request.project or brain.caller.project or folder_config_of(brain.caller).project
    return WhyFailedResponse(fix=brain.acting_as(project=project).why_failed(request.text))


WHY_FAILED = Operation(
    name="why_failed",
    title="WhyFailed",
    purpose="Find what fixed a failure before, by what the command printed.",
    request=WhyFailedRequest,
    reply=WhyFailedResponse,
    handle=_handle,
    render_text=lambda reply: (
        "No fix of this failure is known." if reply.fix is None else reply.fix.evidence
    ),
    transports=frozenset({Transport.CLI, Transport.REST}),
    positional=("text",),
    reads_both_ends=True,
    commands=(
        Command(
            name="why-failed",
            purpose="Find what fixed a failure before, by what the command printed.",
            preset={},
            fields=frozenset({"text", "project"}),
            positional=("text",),
        ),
    ),
    is_read_only=True,
    is_idempotent=True,
)
