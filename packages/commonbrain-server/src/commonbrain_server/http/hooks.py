"""The hooks of clients on other machines: `POST /v1/hook`, which `commonbrain.hooks.remote` calls.

The key says whose hook it is; as any hook, it acts as a model and a writer. What a client says its
user typed has a person's authority only with a key that has it. Nothing here reads a path, process
or folder that a request names.
"""

from time import monotonic
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from commonbrain.api.operation import Name, Operation, Request
from commonbrain.api.operations import Transport
from commonbrain.api.project_folder import FolderConfig
from commonbrain.client import Brain
from commonbrain.clock import UNTIL
from commonbrain.hooks.actions import HookRequest, limited_to_hooks, perform
from commonbrain.hooks.failure_log import ATTEMPTS_MAX, EXCERPT_CHARS_MAX, STEPS_MAX
from commonbrain.hooks.remote import FILES_MAX, TEXT_CHARS_MAX
from commonbrain.hooks.table import Hook, HookAction, HookEvent, find_hook, found_in, with_found
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.limits import NAME_CHARS_MAX, PATH_CHARS_MAX, QUERY_CHARS_MAX
from commonbrain.model.scope import Role
from commonbrain.model.values import dataclass
from commonbrain.runtime.settings_loading import load_settings
from commonbrain.text.user_statements import STATEMENTS_MAX

_SECONDS_MAX: Final = 60.0
_STORES: Final = frozenset({HookAction.NOTE, HookAction.CAPTURE, HookAction.SUMMARISE})
_Text = Annotated[str, Field(max_length=TEXT_CHARS_MAX)]
_Texts = Annotated[
    tuple[Annotated[str, Field(max_length=EXCERPT_CHARS_MAX)], ...], Field(max_length=FILES_MAX)
]
_Files = Annotated[
    tuple[Annotated[str, Field(max_length=PATH_CHARS_MAX)], ...], Field(max_length=FILES_MAX)
]


class FixFields(BaseModel):
    """A failure and what was done about it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    command: Annotated[str, Field(min_length=1, max_length=EXCERPT_CHARS_MAX)]
    excerpt: Annotated[str, Field(min_length=1, max_length=EXCERPT_CHARS_MAX)]
    files: _Files = ()
    commands: _Texts = ()
    lines: _Texts = ()

    @model_validator(mode="after")
    def _names_what_was_done(self) -> Self:
        if not (self.files or self.commands):
            raise ValueError("A fix names a file or a command.")
        return self


class StatementFields(BaseModel):
    """What a user said that is to last."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: Annotated[str, Field(min_length=1, max_length=QUERY_CHARS_MAX)]
    kind: Literal["rule", "fact", "decision"]
    is_explicit: bool = False


class EventFields(BaseModel):
    """What an action needs of its event; the rest stays with the client."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cause: Annotated[str, Field(max_length=NAME_CHARS_MAX)] = ""
    turn: Annotated[str, Field(max_length=NAME_CHARS_MAX)] = ""
    prompt: _Text = ""
    reply: _Text = ""
    summary: _Text = ""
    files: _Files = ()
    edited: _Text = ""
    command: _Text = ""
    task: _Text = ""
    subagent: Annotated[str, Field(max_length=NAME_CHARS_MAX)] = ""
    subagent_type: Annotated[str, Field(max_length=NAME_CHARS_MAX)] = ""
    failed: Annotated[str, Field(max_length=EXCERPT_CHARS_MAX)] = ""
    fixed: Annotated[tuple[FixFields, ...], Field(max_length=ATTEMPTS_MAX)] = ()
    helped: Annotated[
        tuple[Annotated[str, Field(max_length=NAME_CHARS_MAX)], ...], Field(max_length=STEPS_MAX)
    ] = ()
    statements: Annotated[tuple[StatementFields, ...], Field(max_length=STATEMENTS_MAX)] = ()


class HookCallRequest(Request):
    """A hook that a client called, with what its folder says of hooks."""

    client: str = Field(max_length=NAME_CHARS_MAX)
    event: str = Field(max_length=NAME_CHARS_MAX)
    project: Name = None
    has_hooks: bool = True
    capture: Literal["off", "propose", "auto"] = "auto"
    is_of_user: bool = False
    remaining_s: float = Field(default=_SECONDS_MAX, ge=0, le=_SECONDS_MAX)
    fields: EventFields = EventFields()

    @property
    def hook(self) -> Hook | None:
        """The hook; None if there is no such hook."""
        return find_hook(self.client, self.event, is_detached=bool(self.fields.statements))

    @property
    def stores(self) -> bool:
        """Whether its action may store a memory."""
        return bool(self.fields.fixed) or (self.hook is not None and self.hook.action in _STORES)


@dataclass(frozen=True, slots=True, kw_only=True)
class HookReply:
    """The text for the client's model, if there is any."""

    text: str | None


def _handle(brain: Brain, request: HookCallRequest) -> HookReply:
    hook = request.hook
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
        event=_event_of(request.fields, session=brain.caller.session),
        folder=FolderConfig(
            project=request.project, has_hooks=request.has_hooks, capture=request.capture
        ),
        agent=brain.caller.agent,
        remaining_s=lambda: max(0.0, until - monotonic()),
        has_worker=True,
        # It raises nothing: a view has at most the authority of its key.
        is_of_user=request.is_of_user,
    )
    brain = brain.acting_as(project=request.project or brain.caller.project)
    return HookReply(text=perform(*limited_to_hooks(brain, call, settings=settings)))


def _event_of(fields: EventFields, *, session: str | None) -> HookEvent:
    given = fields.model_dump()
    results = {name: given.pop(name) for name in found_in(HookEvent())}
    return with_found(HookEvent(session=session or "", **given), results)


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
    consumes_quota=lambda request: request.stores,
    is_allowed_before_boot=True,
)
