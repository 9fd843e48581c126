"""The operation message: agents write to each other and read their messages."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field

from commonbrain.api.operation import (
    OMIT_DESCRIPTION,
    Cursor,
    Name,
    OneOrMore,
    Operation,
    Timestamp,
    Verb,
    VerbRequest,
    argument,
    verb_command,
)
from commonbrain.client import Brain
from commonbrain.coordination.inbox import (
    PRIVATE,
    MessagePage,
    MessageView,
    ThreadPage,
    ThreadSummary,
)
from commonbrain.coordination.messages import Messages
from commonbrain.coordination.sending import (
    TEAM_LEARNS,
    AssignedTask,
    AssignedTaskPage,
    MessageOptions,
    SendResult,
)
from commonbrain.model import limits
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.escaping import inert, inert_line, inert_part
from commonbrain.model.paging import more_line
from commonbrain.model.recall_result import HEADING
from commonbrain.model.scope import Role
from commonbrain.model.timestamps import show_instant

MESSAGE_COMMANDS: Final = (
    verb_command(
        "message send",
        "Write to one agent, to several, or to all.",
        "text",
        required=frozenset({"to"}),
    ),
    verb_command(
        "message reply",
        "Answer a message in its thread, to all its recipients.",
        "id",
        "text",
        single=frozenset({"id"}),
    ),
    verb_command("message inbox", "List what is unread, urgent first."),
    verb_command("message read", "Show messages in full and mark them as read.", "id"),
    verb_command(
        "message ack",
        "Acknowledge a message, with an answer if there is one.",
        "id",
        optional=("text",),
        single=frozenset({"id"}),
    ),
    verb_command(
        "message history",
        "Page through a thread, or through the messages with an agent.",
    ),
    verb_command("message threads", "List threads, the most recent first."),
    verb_command("message thread", "Show a thread; close or open it, or set its tags.", "thread"),
    verb_command(
        "message delegate",
        "Delegate a task to another agent; its status changes with brain task.",
        "text",
        required=frozenset({"to"}),
        single=frozenset({"to"}),
    ),
    verb_command("message delegated", "List delegated tasks with their status."),
)


Op = Literal[
    "send",
    "reply",
    "inbox",
    "read",
    "ack",
    "history",
    "threads",
    "thread",
    "delegate",
    "delegated",
]


_PAGED: Final = ("limit", "cursor")
_OPTIONS: Final = ("subject", "priority", "expires_at", "share")


class MessageRequest(VerbRequest):
    """The verb and its arguments."""

    VERBS: ClassVar = {
        "send": Verb(optional=("text", "to", "thread", *_OPTIONS)),
        "reply": Verb(optional=("id", "text", "to", *_OPTIONS)),
        "inbox": Verb(optional=("all", *_PAGED), is_read_only=True),
        "read": Verb(optional=("id",)),
        "ack": Verb(optional=("id", "text")),
        "history": Verb(optional=("thread", "agent", *_PAGED), is_read_only=True),
        "threads": Verb(optional=("status", *_PAGED), is_read_only=True),
        "thread": Verb(required=("thread",), optional=("status", "tags")),
        "delegate": Verb(optional=("text", "to", "due_at", "thread", *_OPTIONS)),
        "delegated": Verb(optional=_PAGED, is_read_only=True),
    }
    SHOWN: ClassVar = ("op", "text", "to", "id", "priority")

    op: Op = Field(json_schema_extra=OMIT_DESCRIPTION, description="What to do")
    id: OneOrMore = argument(
        "reply, read, ack: the id of a message, mem_...", [], agents="mem_...: reply, read, ack"
    )
    text: str = argument("What to say", "", agents="")
    to: OneOrMore = argument(
        "An agent to send it to; several are allowed, or all", [], agents="Agents, or all"
    )
    subject: str | None = argument("The subject of a new thread", agents="")
    priority: Literal["info", "action", "urgent"] | None = argument(
        "How urgent it is: info, action or urgent", agents=""
    )
    thread: Name = argument("The thread, thr_...", agents="thr_...")
    agent: Name = argument("history: only messages with this agent", agents="")
    due_at: Timestamp = argument("delegate: when the task is due", agents="")
    expires_at: Timestamp = argument("When the message expires", agents="")
    share: Literal["decision", "convention", "none"] | None = argument(
        "Share what it states with the team; by default parts marked @decision or @convention",
        agents="decision, convention, none",
    )
    status: Literal["open", "closed"] | None = argument("Only threads of this status", agents="")
    tags: list[str] = argument("A tag of the thread", [], agents="of a thread")
    all: bool = argument(
        "inbox: also the messages that were read", default=False, agents="read ones too"
    )
    limit: int = argument("How many at most, 1 to 100", limits.MESSAGES_PAGE_DEFAULT, agents="")
    cursor: Annotated[Cursor, Field(json_schema_extra=OMIT_DESCRIPTION)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageResponse:
    """The reply: a sent message, messages, threads or delegated tasks."""

    op: str
    sent: SendResult | None = None
    messages: tuple[MessageView, ...] | None = None
    unread: str | None = None
    """Number of unread messages, counted up to 1,000."""
    threads: tuple[ThreadSummary, ...] | None = None
    delegated: tuple[AssignedTask, ...] | None = None
    next: str | None = None
    """The cursor of the next page; None on the last one."""
    more: int = 0
    """Rows after this page; 1,000 means 1,000 or more."""


_WRITE_OPS: Final = frozenset({"send", "reply", "delegate"})


def _writes(request: MessageRequest) -> bool:
    """Return whether a call stores something."""
    is_change = request.status is not None or bool(request.tags)
    return request.op in _WRITE_OPS or (request.op == "thread" and is_change)


def _message_options(request: MessageRequest) -> MessageOptions:
    options = MessageOptions(subject=request.subject, expires_at=request.expires_at)
    named = request.model_dump(include={"priority", "share", "thread"}, exclude_none=True)
    options.update(MessageOptions(**named))
    return options


_Reply = SendResult | MessageView | ThreadSummary | MessagePage | ThreadPage | AssignedTaskPage
_CALLS: Final[Mapping[str, Callable[[Messages, MessageRequest], _Reply]]] = {
    "send": lambda messages, request: messages.send(
        request.to, request.text, **_message_options(request)
    ),
    "reply": lambda messages, request: messages.reply(
        _single_id(request), request.text, to=request.to or None, **_message_options(request)
    ),
    "inbox": lambda messages, request: messages.inbox(
        all=request.all, limit=request.limit, cursor=request.cursor
    ),
    "read": lambda messages, request: messages.read(request.id),
    "ack": lambda messages, request: messages.ack(_single_id(request), request.text or None),
    "history": lambda messages, request: messages.history(
        thread=request.thread, agent=request.agent, limit=request.limit, cursor=request.cursor
    ),
    "threads": lambda messages, request: messages.threads(
        status=request.status, limit=request.limit, cursor=request.cursor
    ),
    "thread": lambda messages, request: messages.thread(
        request.thread or "", status=request.status, tags=request.tags or None
    ),
    "delegate": lambda messages, request: messages.delegate(
        _single_recipient(request),
        request.text,
        due_at=request.due_at,
        **_message_options(request),
    ),
    "delegated": lambda messages, request: messages.delegated(
        limit=request.limit, cursor=request.cursor
    ),
}


def _single_recipient(request: MessageRequest) -> str:
    if len(request.to) != 1:
        raise InvalidInputError(
            "delegate needs one name in to.", hint="Delegate to each agent separately."
        )
    return request.to[0]


def _single_id(request: MessageRequest) -> str:
    if len(request.id) != 1:
        raise InvalidInputError(f"{request.op} needs one id.", hint="Take it from the inbox.")
    return request.id[0]


def _handle(brain: Brain, request: MessageRequest) -> MessageResponse:
    reply = _CALLS[request.op](brain.message, request)
    match reply:
        case SendResult():
            return MessageResponse(op=request.op, sent=reply)
        case MessageView():
            return MessageResponse(op=request.op, messages=(reply,))
        case ThreadSummary():
            return MessageResponse(op=request.op, threads=(reply,))
        case _:
            page: dict[str, Any] = {one.name: getattr(reply, one.name) for one in fields(reply)}
            return MessageResponse(op=request.op, **page)


def _render(reply: MessageResponse) -> str:
    return "\n".join(_lines(reply)) or _NONE.get(reply.op, "")


_NONE: Final = {
    "history": "There are no messages.",
    "threads": "There are no threads.",
    "delegated": "Nothing is delegated.",
}


def _lines(reply: MessageResponse) -> Iterator[str]:
    if reply.sent is not None:
        yield from _render_sent(reply.sent)
    if reply.unread is not None:
        yield f"{reply.unread} unread"
    if reply.messages:
        yield HEADING
    for number, one in enumerate(reply.messages or (), 1):
        yield from _render_message(one, number)
    readers = [one.readers for one in reply.messages or ()]
    if reply.op == "inbox" and any(one.startswith(PRIVATE) for one in readers):
        yield TEAM_LEARNS
    for thread in reply.threads or ():
        yield _render_thread(thread)
    for task in reply.delegated or ():
        yield _render_assignment(task)
    yield from more_line(reply.more, reply.next)


def _render_sent(sent: SendResult) -> Iterator[str]:
    task = f" task {sent.task}" if sent.task else ""
    yield f"sent {sent.id} to {_names(sent.to)} in {sent.thread}{task}"
    for part in sent.derived:
        yield f"{part.status} {part.id or ''}: {inert_line(part.headline or part.reason or '')}"
    yield from map(inert_line, (*sent.shared, *sent.warnings))
    if sent.embedding_pending:
        yield "Found by its words only until it is embedded."


def _render_message(one: MessageView, number: int) -> Iterator[str]:
    details = (
        f"[{number}] {one.id}",
        "unread" if one.is_unread else "",
        str(one.priority) if one.priority != "info" else "",
        show_instant(one.at),
        f"from {inert_part(one.sender)} to {_names(one.to)}",
        inert_part(one.readers),
        f"in {one.thread} {inert_part(one.subject or '')}".rstrip() if one.thread else "",
        *(f"acknowledged by {inert_part(ack.agent)}" for ack in one.acks),
    )
    yield " | ".join(part for part in details if part)
    text = one.headline if one.body is None else one.body
    yield from (f"> {inert(line)}" for line in text.splitlines())
    for ack in one.acks:
        if ack.answer:
            yield f"> {inert_part(ack.agent)}: {inert_line(ack.answer)}"


def _render_thread(one: ThreadSummary) -> str:
    count = f"{one.unread} unread of {one.messages}" if one.unread else f"messages: {one.messages}"
    participants = ", ".join(map(inert_part, one.participants))
    tags = f" | {' '.join(f'#{inert_part(tag)}' for tag in one.tags)}" if one.tags else ""
    return (
        f"{one.id} | {one.status} | by {inert_part(one.by)} | {count} | "
        f"{show_instant(one.last_at)} | {participants}{tags}\n> {inert_part(one.subject)}"
    )


def _render_assignment(one: AssignedTask) -> str:
    details = (
        one.task,
        "expired" if one.is_expired else str(one.status),
        f"from {inert_part(one.by)} to {inert_part(one.to)}",
        f"due {show_instant(one.due_at)}" if one.due_at else "",
        f"result: {inert_part(one.result)}" if one.result else "",
    )
    return f"{' | '.join(part for part in details if part)}\n> {inert_line(one.headline)}"


def _names(to: Sequence[str]) -> str:
    return "all" if to == ("*",) else ", ".join(map(inert_part, to))


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactMessage:
    """One message in JSON for agents; None, which is left out, means empty or the default."""

    id: str
    by: str
    to: tuple[str, ...]
    readers: str
    at: datetime
    subject: str | None
    text: str
    thread: str | None
    priority: str | None
    unread: bool | None
    acks: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactMessageResponse:
    """The reply in JSON for agents."""

    notice: str | None
    sent: SendResult | None
    messages: tuple[CompactMessage, ...] | None
    unread: int | None
    """Counted up to 1,000."""
    threads: tuple[ThreadSummary, ...] | None
    delegated: tuple[AssignedTask, ...] | None
    next: str | None
    more: int | None


def _to_compact(reply: MessageResponse) -> CompactMessageResponse:
    return CompactMessageResponse(
        notice=HEADING if reply.messages or reply.threads or reply.delegated else None,
        sent=reply.sent,
        messages=None
        if reply.messages is None
        else tuple(map(_to_compact_message, reply.messages)),
        unread=None if reply.unread is None else _number(reply.unread),
        threads=reply.threads,
        delegated=reply.delegated,
        next=reply.next,
        more=reply.more or None,
    )


def _number(count: str) -> int:
    """Return a count such as "1,000 or more" as a number."""
    return int("".join(filter(str.isdecimal, count)))


def _to_compact_message(one: MessageView) -> CompactMessage:
    text = (f"{ack.agent}: {ack.answer}" if ack.answer else ack.agent for ack in one.acks)
    return CompactMessage(
        id=one.id,
        by=one.sender,
        to=one.to,
        readers=one.readers,
        at=one.at,
        subject=one.subject,
        text=one.headline if one.body is None else one.body,
        thread=one.thread,
        priority=None if one.priority == "info" else str(one.priority),
        unread=one.is_unread or None,
        acks=tuple(text) or None,
    )


MESSAGE = Operation(
    name="message",
    title="Message",
    purpose="Write to other agents, read their messages, or delegate a task; "
    "set its status with revise.",
    request=MessageRequest,
    reply=MessageResponse,
    handle=_handle,
    render_text=_render,
    role=Role.WRITER,
    consumes_quota=_writes,
    to_compact=_to_compact,
    compact_reply=CompactMessageResponse,
    positional=("op", "id", "text"),
    commands=MESSAGE_COMMANDS,
)
