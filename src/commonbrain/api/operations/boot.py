"""The operation boot."""

from dataclasses import replace

from commonbrain.api.operation import Name, Operation, Profile, Request, argument
from commonbrain.api.project_folder import folder_config_of
from commonbrain.client import Brain
from commonbrain.coordination.briefing import Briefing
from commonbrain.model.escaping import inert_line


class BootRequest(Request):
    """The project, task and client of the session that starts."""

    project: Name = argument(
        "The project; by default that of the folder", agents="Default: the folder's"
    )
    task: str | None = argument("What you are about to do", agents="")
    client: Name = argument("The program that calls", agents="")
    metadata: dict[str, str] = argument(
        "What other sessions see of this one: branch, worktree, model and so on",
        {},
        agents="branch, model, ...",
    )


def _handle(brain: Brain, request: BootRequest) -> Briefing:
    project = request.project or brain.caller.project
    notices: tuple[str, ...] = ()
    if project is None:
        config = folder_config_of(brain.caller)
        project, notices = config.project, tuple(map(inert_line, config.notices))
    briefing = brain.boot(project, request.task, client=request.client, metadata=request.metadata)
    return replace(briefing, degraded=(*briefing.degraded, *notices)) if notices else briefing


BOOT = Operation(
    name="boot",
    title="Boot",
    purpose="Start a session: your rules, open tasks, the last handoff, messages, other sessions. "
    "Call it first.",
    request=BootRequest,
    profile=Profile.LITE,
    reply=Briefing,
    handle=_handle,
    render_text=lambda reply: reply.text,
    # It starts a session, but a second one of the same client changes nothing more.
    is_idempotent=True,
    is_allowed_before_boot=True,
)
