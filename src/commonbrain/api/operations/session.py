"""The operation session: other sessions, and this session's task, notes and handoff."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import AfterValidator, Field, ValidationError

from commonbrain.api.errors import EXIT_REFUSED
from commonbrain.api.operation import (
    OMIT_DESCRIPTION,
    Cursor,
    Name,
    Operation,
    Profile,
    Request,
    Verb,
    VerbRequest,
    argument,
    verb_command,
)
from commonbrain.api.operations.remember import render_item_result
from commonbrain.coordination.session_views import (
    ActiveSession,
    CheckpointResult,
    Lease,
    NoteView,
    OpenTask,
    SessionResponse,
)
from commonbrain.coordination.sessions import Sessions
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.escaping import inert_line
from commonbrain.model.kinds import TaskPriority, TaskStatus
from commonbrain.model.limits import SESSIONS_SHOWN_MAX
from commonbrain.model.paging import more_line
from commonbrain.model.scope import Role
from commonbrain.model.tasks import LEASE_MINUTES_DEFAULT
from commonbrain.model.timestamps import show_instant

SESSION_COMMANDS: Final = (
    verb_command("session list", "List other active sessions with their tasks."),
    verb_command(
        "session task",
        "Set the current task of this session, or what others see of it.",
        optional=("text",),
    ),
    verb_command(
        "session handoff",
        "Leave a handoff for the next session; - reads text or JSON from stdin.",
        "text",
    ),
    verb_command(
        "session end", "End this session, with a handoff if there is one.", optional=("text",)
    ),
    verb_command(
        "session note",
        "Store a value under a key for this session; an empty value removes it.",
        "key",
        "text",
    ),
    verb_command("session notes", "List this session's notes and those pinned in its project."),
    verb_command(
        "session checkpoint",
        "List the rules that apply to a risky action before you take it.",
        "text",
    ),
)


STATE_OPS: Final = frozenset({"note", "notes", "checkpoint", "tasks", "claim", "release"})
"""Verbs whose reply is rendered by `task_lines` alone."""


def task_lines(reply: SessionResponse) -> list[str]:
    """Render the notes, tasks, lease and checkpoint that a reply contains."""
    lines: list[str] = []
    if reply.notes is not None:
        lines += [_render_note(one) for one in reply.notes] or ["No notes."]
    if reply.tasks is not None:
        lines += [_render_task(one) for one in reply.tasks] or ["No open tasks."]
        lines += more_line(reply.more, reply.next)
    if reply.lease is not None:
        lines += [_render_lease(reply.lease)]
    if reply.checked is not None:
        lines += _render_checkpoint(reply.checked)
    return lines


def _render_note(one: NoteView) -> str:
    # Another agent may have written a pinned note: mark its further lines as quoted.
    value = "\n> ".join(one.value.splitlines())
    return f"{one.key}{f' (pinned by {one.agent})' if one.pinned else ''}: {value}"


def _render_task(one: OpenTask) -> str:
    notes = (
        None if one.priority is TaskPriority.MEDIUM else str(one.priority),
        None if one.status is TaskStatus.OPEN else str(one.status),
        f"due {show_instant(one.due_at)}" if one.due_at else None,
        f"for {one.assignee}" if one.assignee else None,
        "action item" if one.must_ack else None,
        f"claimed by {one.holder} until {show_instant(one.until)}" if one.until else None,
    )
    details = ", ".join(note for note in notes if note)
    return f"{one.id} {one.headline}{f' ({details})' if details else ''}"


def _render_lease(one: Lease) -> str:
    holder_text = f" by {one.holder} until {show_instant(one.until)}" if one.until else ""
    return f"{one.id} {one.status}{holder_text}: {one.headline}"


def _render_checkpoint(checked: CheckpointResult) -> list[str]:
    if checked.is_repeated:
        return [f"Already checked at {show_instant(checked.at)}, nothing changed since."]
    lines = [f"BLOCKER {one.id}: {one.headline}" for one in checked.blockers]
    lines += ["More blockers: recall, kinds rule."] if checked.is_more else []
    lines += [f"PATTERN {one.id}: {one.headline}" for one in checked.patterns]
    lines += [f"skill:{one.skill} {one.id}: {one.headline}" for one in checked.skills]
    return lines or ["No rule applies."]


Op = Literal[
    "list", "task", "handoff", "end", "note", "notes", "checkpoint", "tasks", "claim", "release"
]


def _check_nul(name: str | None) -> str | None:
    if name is not None and "\0" in name:
        raise ValueError("a name cannot contain a NUL character")
    return name


# Postgres rejects a query that contains NUL.
_FilterName = Annotated[Name, AfterValidator(_check_nul)]

_PAGED: Final = ("limit", "cursor")
_HANDOFF: Final = ("text", "next_steps", "blockers", "context")


class SessionRequest(VerbRequest):
    """The verb and its arguments."""

    VERBS: ClassVar = {
        "list": Verb(optional=("project", "agent", *_PAGED), is_read_only=True),
        "task": Verb(optional=("text", "metadata")),
        "handoff": Verb(optional=_HANDOFF),
        "end": Verb(optional=_HANDOFF),
        "note": Verb(required=("key",), optional=("text", "pinned")),
        "notes": Verb(is_read_only=True),
        "checkpoint": Verb(optional=("text",)),
        "tasks": Verb(optional=("project", *_PAGED), is_read_only=True),
        "claim": Verb(required=("id",), optional=("minutes",)),
        "release": Verb(required=("id",)),
    }
    SHOWN: ClassVar = ("op", "text", "key", "id")

    op: Op = Field(
        description="list: other active sessions; task: say what you do now; handoff, also at end: "
        "what the next session must know; checkpoint: rules for a risky action; "
        "claim: a task for minutes"
    )
    text: str = argument(
        "task, checkpoint: in a sentence; handoff: the summary; note: its value", ""
    )
    next_steps: list[str] = argument(
        "handoff: a step that the next session should take", [], agents="handoff"
    )
    blockers: list[str] = argument("handoff: what is in the way", [], agents="")
    context: str = argument("handoff: what else the next session must know", "", agents="")
    key: Name = argument("The name of the note", agents="")
    metadata: dict[str, str] = argument(
        "task: what others see, such as branch or model", {}, agents=""
    )
    pinned: bool = argument("note: every boot of the project shows it", default=False, agents="")
    id: Name = argument("The id of a task, mem_...", agents="mem_... of a task")
    minutes: int = argument(
        "For how many minutes to claim the task", LEASE_MINUTES_DEFAULT, agents=""
    )
    project: _FilterName = None
    agent: _FilterName = None
    limit: int = argument("How many at most, 1 to 100", SESSIONS_SHOWN_MAX, agents="")
    cursor: Annotated[Cursor, Field(json_schema_extra=OMIT_DESCRIPTION)] = None


_Call = Callable[[Sessions, SessionRequest], SessionResponse]
_CALLS: Final[Mapping[Op, _Call]] = {
    "list": lambda sessions, request: sessions.list(
        project=request.project,
        agent=request.agent,
        limit=request.limit,
        cursor=request.cursor,
    ),
    "task": lambda sessions, request: sessions.task(request.text, metadata=request.metadata),
    "note": lambda sessions, request: sessions.note(
        request.key or "", request.text, pinned=request.pinned
    ),
    "notes": lambda sessions, _: sessions.notes(),
    "checkpoint": lambda sessions, request: sessions.checkpoint(request.text),
    "tasks": lambda sessions, request: sessions.tasks(
        project=request.project, limit=request.limit, cursor=request.cursor
    ),
    "claim": lambda sessions, request: sessions.claim(request.id or "", minutes=request.minutes),
    "release": lambda sessions, request: sessions.release(request.id or ""),
    "handoff": lambda sessions, request: sessions.handoff(**_handoff(request)),
    "end": lambda sessions, request: sessions.end(**_handoff(request)),
}


class _HandoffParts(Request):
    """A handoff as a JSON object in `text`, as a script pipes it in."""

    summary: str
    next_steps: list[str] = Field(default=[])
    blockers: list[str] = Field(default=[])
    context: str = ""


def _handoff(request: SessionRequest) -> dict[str, Any]:
    fields = request.model_dump(
        include={"next_steps", "blockers", "context"}, exclude_defaults=True
    )
    if not request.text.startswith("{"):
        return {"summary": request.text, **fields}
    try:
        parts = _HandoffParts.model_validate_json(request.text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the object"
        raise InvalidInputError(
            f"The handoff's JSON is not valid: {where[:40]}: {first['msg'][:80]}.",
            hint="Give summary, next_steps, blockers, context.",
        ) from None
    return parts.model_dump() | fields


def _render(reply: SessionResponse) -> str:
    lines = [_summary(reply)] if reply.op not in {*STATE_OPS, "list"} else []
    if reply.sessions is not None:
        lines += [_render_session(one) for one in reply.sessions] or ["No other session is active."]
        lines += more_line(reply.more, reply.next)
    lines += task_lines(reply)
    if reply.outcome is not None:
        lines.append(render_item_result(reply.outcome))
    if reply.token_use is not None:
        lines.append(f"{reply.token_use.line}.")
    return "\n".join(lines)


def _summary(reply: SessionResponse) -> str:
    """Say in one line what a call did to its session."""
    is_refused = reply.outcome is not None and reply.outcome.status.is_refused
    match reply.op:
        case "handoff":
            return f"Session {reply.session} left {'no handoff' if is_refused else 'a handoff'}."
        case "end" if is_refused:
            return f"Session {reply.session} goes on, for its handoff was refused."
        case "end":
            return f"Session {reply.session} ended."
        case _:
            return inert_line(f"Task of session {reply.session}: {reply.task or 'none'}")


def _render_session(one: ActiveSession) -> str:
    where = f" in {one.project}" if one.project else ""
    activity = f"idle {one.heartbeat_age_s} s" if one.is_idle else "active"
    state = ", ".join([activity, *(f"{name} {value}" for name, value in one.metadata.items())])
    return f"{one.session} {one.agent}{where} ({state}): {one.task or 'no task'}"


SESSION = Operation(
    name="session",
    title="Session",
    purpose="See other active sessions; set your task; keep notes; claim tasks; hand over; end.",
    request=SessionRequest,
    profile=Profile.LITE,
    reply=SessionResponse,
    handle=lambda brain, request: _CALLS[request.op](brain.session, request),
    render_text=_render,
    exit_code=lambda reply: EXIT_REFUSED * bool(reply.outcome and reply.outcome.status.is_refused),
    role=Role.WRITER,
    positional=("op", "text"),
    commands=(
        *SESSION_COMMANDS,
        verb_command("task list", "List open tasks, the most urgent first.", op="tasks"),
        verb_command(
            "task claim",
            "Claim a task for some minutes, so that no other agent works on it.",
            "id",
        ),
        verb_command("task release", "Release a claimed task.", "id"),
    ),
)
