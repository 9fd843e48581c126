"""How messages look to people: what is unread is marked, what is urgent is red."""

from collections.abc import Iterator
from typing import Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from commonbrain.api.operations.message import MessageResponse
from commonbrain.coordination.inbox import MessageView, ThreadSummary
from commonbrain.coordination.sending import AssignedTask, SendResult
from commonbrain.model.kinds import MessagePriority
from commonbrain.model.timestamps import show_instant

_COLOURS: Final = {MessagePriority.URGENT: "bold red", MessagePriority.ACTION: "yellow"}
_EMPTY_MESSAGES: Final = {
    "inbox": "Nothing waits to be read.",
    "history": "Nothing was said.",
    "threads": "There are no threads.",
    "delegated": "Nothing is delegated.",
}


def render_messages(reply: MessageResponse) -> RenderableType:
    """Show what one call brought."""
    lines = list(_lines(reply))
    if not lines:
        lines = [Text(_EMPTY_MESSAGES.get(reply.op, ""), style="dim")]
    if reply.unread is not None and reply.unread != "0":
        lines.append(Text(f"{reply.unread} unread", style="dim"))
    if reply.cursor:
        lines.append(Text(f"more with --cursor {reply.cursor}", style="dim"))
    return Group(*lines)


def _lines(reply: MessageResponse) -> Iterator[RenderableType]:
    if reply.sent is not None:
        yield from _render_sent(reply.sent)
    for one in reply.messages or ():
        yield from _render_message(one)
    for thread in reply.threads or ():
        yield from _render_thread(thread)
    for task in reply.delegated or ():
        yield from _render_assignment(task)


def _render_sent(sent: SendResult) -> Iterator[RenderableType]:
    task = f"  task {sent.task}" if sent.task else ""
    yield Text.assemble(
        ("sent", "bold green"), f"  {sent.id}  to {_names(sent.to)}  in {sent.thread}{task}"
    )
    for part in sent.derived:
        yield Text(f"  {part.status}  {part.id or ''}  {part.headline or part.reason or ''}", "dim")
    for warning in sent.warnings:
        yield Text(f"  {warning}", style="dim")
    if sent.embedding_pending:
        yield Text("  Found by its words only until the embedder is back.", style="dim")


def _render_message(one: MessageView) -> Iterator[RenderableType]:
    mark = ("● ", "bold cyan") if one.is_unread else ("  ", "")
    color = _COLOURS.get(one.priority, "")
    details = [
        f"{one.sender} → {_names(one.to)}",
        show_instant(one.at),
        one.priority if color else None,
        one.project,
        one.id,
    ]
    subject = one.subject or one.headline
    yield Text.assemble(mark, (subject, f"bold {color}".strip()))
    yield Text(f"  {' · '.join(str(part) for part in details if part)}", style="dim")
    text = one.body if one.body is not None else one.headline
    if text != subject:
        yield Padding(Text(text), (0, 0, 0, 2))
    for ack in one.acks:
        answer_text = f": {ack.answer}" if ack.answer else ""
        yield Text(f"  ✓ {ack.agent}, {show_instant(ack.at)}{answer_text}", style="green")


def _render_thread(one: ThreadSummary) -> Iterator[RenderableType]:
    unread = (f"  {one.unread} unread", "bold cyan") if one.unread else ("", "")
    yield Text.assemble((one.subject, "bold"), unread)
    participants = ", ".join(one.participants)
    details = (f"{one.messages} messages", participants, show_instant(one.last_at), one.id)
    yield Text(f"  {' · '.join(part for part in details if part)}", style="dim")


def _render_assignment(one: AssignedTask) -> Iterator[RenderableType]:
    status = ("expired", "red") if one.is_expired else (str(one.status), "bold")
    yield Text.assemble(status, f"  {one.headline}")
    details = (
        f"{one.by} → {one.to}",
        f"due {show_instant(one.due_at)}" if one.due_at else "",
        one.task,
    )
    yield Text(f"  {' · '.join(part for part in details if part)}", style="dim")
    if one.result:
        yield Text(f"  {one.result}", style="green")


def _names(to: tuple[str, ...]) -> str:
    return "all" if to == ("*",) else ", ".join(to)
