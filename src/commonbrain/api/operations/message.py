"""The operation message: agents write to each other, and read what waits, behind one name."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field

from commonbrain.api.operation import PLAIN, Command, Moment, Name, Operation, Request
from commonbrain.client import Brain
from commonbrain.coordination.assignments import AssignedTask
from commonbrain.coordination.inbox import MessageView, ThreadSummary
from commonbrain.coordination.messages import Messages
from commonbrain.coordination.sending import MessageOptions, SendResult
from commonbrain.model import limits
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.escaping import inert, inert_line
from commonbrain.model.recall_result import HEADING
from commonbrain.model.scope import Role
from commonbrain.model.timestamps import show_instant

_PAGED: Final = frozenset({"limit", "cursor"})
_LETTER: Final = frozenset({"subject", "priority", "thread", "expires_at"})


def _command(op: str, purpose: str, *positional: str, **more: frozenset[str]) -> Command:
    """Make a command whose words without a name cannot be left out."""
    named = frozenset(positional)
    return Command(
        name=f"message {op}",
        purpose=purpose,
        preset={"op": op},
        fields=more.get("fields", frozenset()) | named,
        positional=positional,
        required=more.get("required", frozenset()) | named,
        single=more.get("single", frozenset()),
    )


MESSAGE_COMMANDS: Final = (
    _command(
        "send",
        "Write to one agent, to several, or to all.",
        "text",
        fields=_LETTER | {"to"},
        required=frozenset({"to"}),
    ),
    _command(
        "reply",
        "Answer a message in its thread, to whoever had it.",
        "id",
        "text",
        fields=_LETTER - {"thread"} | {"to"},
        single=frozenset({"id"}),
    ),
    _command("inbox", "List what is unread, urgent first.", fields=_PAGED | {"all"}),
    _command("read", "Show messages in full and mark them as read.", "id"),
    Command(
        name="message ack",
        purpose="Acknowledge a message, with an answer if there is one.",
        preset={"op": "ack"},
        fields=frozenset({"id", "text"}),
        positional=("id", "text"),
        required=frozenset({"id"}),
        single=frozenset({"id"}),
    ),
    _command(
        "history",
        "Page through a thread, or through what was said with an agent.",
        fields=_PAGED | {"thread", "agent"},
    ),
    _command("threads", "List threads, those with the latest word first.", fields=_PAGED),
    _command(
        "delegate",
        "Hand a task to another agent; its status is told by brain task.",
        "text",
        fields=_LETTER | {"to", "due_at"},
        required=frozenset({"to"}),
        single=frozenset({"to"}),
    ),
    _command("delegated", "List tasks that were handed over, with their status.", fields=_PAGED),
)


Op = Literal["send", "reply", "inbox", "read", "ack", "history", "threads", "delegate", "delegated"]


def _listed(given: object) -> object:
    return [given] if isinstance(given, str) else given


class MessageRequest(Request):
    """What to say to whom, or what to read; each op reads its own fields."""

    op: Op = Field(json_schema_extra=PLAIN, description="What to do.")
    id: Annotated[list[str], BeforeValidator(_listed)] = Field(
        default=[], description="mem_...: reply, read, ack"
    )
    text: str = Field(default="", json_schema_extra=PLAIN, description="What to say.")
    to: Annotated[list[str], BeforeValidator(_listed)] = Field(
        default=[], description="Agents, or all"
    )
    subject: str | None = Field(
        default=None, json_schema_extra=PLAIN, description="Of a new thread."
    )
    priority: Literal["info", "action", "urgent"] | None = Field(
        default=None, json_schema_extra=PLAIN, description="How loudly it knocks."
    )
    thread: Name = Field(default=None, description="thr_...")
    agent: Name = Field(default=None, description="history: with whom")
    due_at: Moment = Field(default=None, json_schema_extra=PLAIN, description="Of a task.")
    expires_at: Moment = Field(
        default=None, json_schema_extra=PLAIN, description="Until when it is worth reading."
    )
    all: bool = Field(default=False, description="inbox: read ones too")
    limit: int = Field(
        default=limits.MESSAGES_PAGE_DEFAULT, json_schema_extra=PLAIN, description="1 to 100"
    )
    cursor: str | None = Field(default=None, description="Of the page before")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """What one call brought: a message sent, messages, threads or delegations."""

    op: str
    sent: SendResult | None = None
    messages: tuple[MessageView, ...] | None = None
    unread: str | None = None
    """How many wait to be read, counted up to 1,000."""
    threads: tuple[ThreadSummary, ...] | None = None
    delegated: tuple[AssignedTask, ...] | None = None
    cursor: str | None = None


_Call = Callable[[Messages, MessageRequest], Mail]


_WRITING: Final = frozenset({"send", "reply", "delegate"})


def _envelope(told: MessageRequest) -> MessageOptions:
    given = MessageOptions(subject=told.subject, expires_at=told.expires_at)
    if told.priority is not None:
        given["priority"] = told.priority
    if told.thread is not None:
        given["thread"] = told.thread
    return given


def _send(messages: Messages, told: MessageRequest) -> Mail:
    sent = messages.send(told.to, told.text, **_envelope(told))
    return Mail(op=told.op, sent=sent)


def _reply(messages: Messages, told: MessageRequest) -> Mail:
    sent = messages.reply(_one(told), told.text, to=told.to or None, **_envelope(told))
    return Mail(op=told.op, sent=sent)


def _delegate(messages: Messages, told: MessageRequest) -> Mail:
    if len(told.to) != 1:
        raise InvalidInputError("delegate needs one name in to.", hint="Delegate to each of them.")
    sent = messages.delegate(told.to[0], told.text, due_at=told.due_at, **_envelope(told))
    return Mail(op=told.op, sent=sent)


def _inbox(messages: Messages, told: MessageRequest) -> Mail:
    page = messages.inbox(all=told.all, limit=told.limit, cursor=told.cursor)
    return Mail(op=told.op, messages=page.messages, unread=page.unread, cursor=page.cursor)


def _read(messages: Messages, told: MessageRequest) -> Mail:
    return Mail(op=told.op, messages=messages.read(told.id).messages)


def _ack(messages: Messages, told: MessageRequest) -> Mail:
    return Mail(op=told.op, messages=(messages.ack(_one(told), told.text or None),))


def _history(messages: Messages, told: MessageRequest) -> Mail:
    page = messages.history(
        thread=told.thread, agent=told.agent, limit=told.limit, cursor=told.cursor
    )
    return Mail(op=told.op, messages=page.messages, cursor=page.cursor)


def _threads(messages: Messages, told: MessageRequest) -> Mail:
    page = messages.threads(limit=told.limit, cursor=told.cursor)
    return Mail(op=told.op, threads=page.threads, cursor=page.cursor)


def _delegated(messages: Messages, told: MessageRequest) -> Mail:
    page = messages.delegated(limit=told.limit, cursor=told.cursor)
    return Mail(op=told.op, delegated=page.delegated, cursor=page.cursor)


_CALLS: Final[Mapping[str, _Call]] = {
    "send": _send,
    "reply": _reply,
    "inbox": _inbox,
    "read": _read,
    "ack": _ack,
    "history": _history,
    "threads": _threads,
    "delegate": _delegate,
    "delegated": _delegated,
}


def _one(told: MessageRequest) -> str:
    if len(told.id) != 1:
        raise InvalidInputError(f"{told.op} needs one id.", hint="Take it from the inbox.")
    return told.id[0]


def _handle(brain: Brain, request: MessageRequest) -> Mail:
    return _CALLS[request.op](brain.message, request)


def _tell(reply: Mail) -> str:
    return "\n".join(_lines(reply))


def _lines(reply: Mail) -> Iterator[str]:
    if reply.sent is not None:
        yield from _sent(reply.sent)
    if reply.unread is not None:
        yield f"{reply.unread} unread"
    if reply.messages:
        yield HEADING
    for number, one in enumerate(reply.messages or (), 1):
        yield from _letter(one, number)
    for thread in reply.threads or ():
        yield _thread(thread)
    for task in reply.delegated or ():
        yield _delegation(task)
    if reply.cursor:
        yield f"More: cursor {reply.cursor}"


def _sent(sent: SendResult) -> Iterator[str]:
    task = f" task {sent.task}" if sent.task else ""
    yield f"sent {sent.id} to {_names(sent.to)} in {sent.thread}{task}"
    for part in sent.derived:
        yield f"{part.status} {part.id or ''} {inert_line(part.headline or part.reason or '')}"
    yield from (inert_line(warning) for warning in sent.warnings)


def _letter(one: MessageView, number: int) -> Iterator[str]:
    known = (
        f"[{number}] {one.id}",
        "unread" if one.is_unread else "",
        str(one.priority) if one.priority != "info" else "",
        show_instant(one.at),
        f"from {_inline(one.sender)} to {_names(one.to)}",
        f"in {one.thread} {_inline(one.subject or '')}".rstrip() if one.thread else "",
        *(f"acknowledged by {_inline(ack.agent)}" for ack in one.acks),
    )
    yield " | ".join(part for part in known if part)
    text = one.headline if one.body is None else one.body
    yield from (f"> {inert(line)}" for line in text.splitlines())
    for ack in one.acks:
        if ack.answer:
            yield f"> {_inline(ack.agent)}: {inert_line(ack.answer)}"


def _thread(one: ThreadSummary) -> str:
    unread = f"{one.unread} unread of " if one.unread else ""
    who = ", ".join(map(_inline, one.participants))
    return (
        f"{one.id} | {unread}{one.messages} | {show_instant(one.last_at)} | {who}"
        f"\n> {_inline(one.subject)}"
    )


def _delegation(one: AssignedTask) -> str:
    known = (
        one.task,
        "expired" if one.is_expired else str(one.status),
        f"from {_inline(one.by)} to {_inline(one.to)}",
        f"due {show_instant(one.due_at)}" if one.due_at else "",
        f"result: {_inline(one.result)}" if one.result else "",
    )
    return f"{' | '.join(part for part in known if part)}\n> {inert_line(one.headline)}"


def _names(to: Sequence[str]) -> str:
    return "all" if to == ("*",) else ", ".join(map(_inline, to))


def _inline(text: str) -> str:
    return inert_line(text).replace("|", "/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One message as an agent reads it in JSON, which leaves out what is None: empty or usual."""

    id: str
    by: str
    to: tuple[str, ...]
    at: datetime
    subject: str | None
    text: str
    thread: str | None
    priority: str | None
    unread: bool | None
    acks: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a call brought, as an agent reads it in JSON."""

    notice: str | None
    sent: SendResult | None
    messages: tuple[Note, ...] | None
    unread: str | None
    threads: tuple[ThreadSummary, ...] | None
    delegated: tuple[AssignedTask, ...] | None
    cursor: str | None


def _answer(reply: Mail) -> Answer:
    return Answer(
        notice=HEADING if reply.messages or reply.threads or reply.delegated else None,
        sent=reply.sent,
        messages=None if reply.messages is None else tuple(map(_note, reply.messages)),
        unread=reply.unread,
        threads=reply.threads,
        delegated=reply.delegated,
        cursor=reply.cursor,
    )


def _note(one: MessageView) -> Note:
    said = (f"{ack.agent}: {ack.answer}" if ack.answer else ack.agent for ack in one.acks)
    return Note(
        id=one.id,
        by=one.sender,
        to=one.to,
        at=one.at,
        subject=one.subject,
        text=one.headline if one.body is None else one.body,
        thread=one.thread,
        priority=None if one.priority == "info" else str(one.priority),
        unread=one.is_unread or None,
        acks=tuple(said) or None,
    )


MESSAGE = Operation(
    name="message",
    title="Message",
    purpose="Write to other agents and read what they wrote, or hand a task over; "
    "the task's status is set with revise.",
    request=MessageRequest,
    reply=Mail,
    handle=_handle,
    tell=_tell,
    role=Role.WRITER,
    adds=lambda told: told.op in _WRITING,
    for_agents=_answer,
    agent_reply=Answer,
    positional=("op", "id", "text"),
    commands=MESSAGE_COMMANDS,
)
