"""The hooks of clients on other machines: `POST /v1/hook`, which `commonbrain.hooks.remote` calls.

The key says whose hook it is; as any hook, it acts as a model and a writer. Nothing here reads a
path, process or folder that a request names.
"""

from time import monotonic
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from commonbrain.api.operation import Name, Operation, Request
from commonbrain.api.operations import Transport
from commonbrain.api.project_folder import FolderConfig
from commonbrain.client import Brain
from commonbrain.clock import UNTIL
from commonbrain.hooks.actions import HookRequest, limited_to_hooks, perform
from commonbrain.hooks.remote import FILES_MAX, TEXT_CHARS_MAX
from commonbrain.hooks.table import HOOKS, HookAction, HookEvent
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.limits import NAME_CHARS_MAX, PATH_CHARS_MAX
from commonbrain.model.scope import Role
from commonbrain.model.values import dataclass
from commonbrain.runtime.settings_loading import load_settings

_SECONDS_MAX: Final = 60.0
_STORES: Final = frozenset({HookAction.CAPTURE, HookAction.SUMMARISE})
_Text = Annotated[str, Field(max_length=TEXT_CHARS_MAX)]


class EventFields(BaseModel):
    """What an action needs of its event; the rest stays with the client."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cause: Annotated[str, Field(max_length=NAME_CHARS_MAX)] = ""
    turn: Annotated[str, Field(max_length=NAME_CHARS_MAX)] = ""
    prompt: _Text = ""
    reply: _Text = ""
    summary: _Text = ""
    files: Annotated[
        tuple[Annotated[str, Field(max_length=PATH_CHARS_MAX)], ...], Field(max_length=FILES_MAX)
    ] = ()
    edited: _Text = ""
    command: _Text = ""
    task: _Text = ""
    subagent: Annotated[str, Field(max_length=NAME_CHARS_MAX)] = ""
    subagent_type: Annotated[str, Field(max_length=NAME_CHARS_MAX)] = ""


class HookCallRequest(Request):
    """A hook that a client called, with what its folder says of hooks."""

    client: str = Field(max_length=NAME_CHARS_MAX)
    event: str = Field(max_length=NAME_CHARS_MAX)
    project: Name = None
    has_hooks: bool = True
    capture: Literal["off", "propose", "auto"] = "auto"
    remaining_s: float = Field(default=_SECONDS_MAX, ge=0, le=_SECONDS_MAX)
    fields: EventFields = EventFields()

    @property
    def action(self) -> HookAction | None:
        """The action of the hook; None if there is no such hook."""
        hook = HOOKS.get((self.client, self.event))
        return hook.action if hook else None


@dataclass(frozen=True, slots=True, kw_only=True)
class HookReply:
    """The text for the client's model, if there is any."""

    text: str | None


def _handle(brain: Brain, request: HookCallRequest) -> HookReply:
    hook = HOOKS.get((request.client, request.event))
    if hook is None:
        raise InvalidInputError(
            f"There is no hook {request.event!r} of {request.client!r}.",
            hint="Use the same version of Commonbrain on the server and its clients.",
        )
    settings = load_settings()
    if not settings.hooks:
        return HookReply(text=None)
    until = min(monotonic() + request.remaining_s, UNTIL.get() or float("inf"))
    UNTIL.set(until)
    call = HookRequest(
        hook=hook,
        event=HookEvent(session=brain.caller.session or "", **request.fields.model_dump()),
        folder=FolderConfig(
            project=request.project, has_hooks=request.has_hooks, capture=request.capture
        ),
        agent=brain.caller.agent,
        remaining_s=lambda: max(0.0, until - monotonic()),
        has_worker=True,
    )
    brain = brain.acting_as(project=request.project or brain.caller.project)
    return HookReply(text=perform(*limited_to_hooks(brain, call, settings=settings)))


HOOK: Final[Operation[Any, Any]] = Operation(
    name="hook",
    title="Hook",
    purpose="Run the action of a client's hook.",
    request=HookCallRequest,
    reply=HookReply,
    handle=_handle,
    render_text=lambda reply: reply.text or "",
    role=Role.WRITER,
    transports=frozenset({Transport.REST}),
    consumes_quota=lambda request: request.action in _STORES,
    is_allowed_before_boot=True,
)
