"""Replies about sessions and messages: boot, session, message."""

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from commonbrain.api.operations.message import MessageResponse
from commonbrain.api.operations.session import STATE_OPS, task_lines
from commonbrain.cli.terminal import render_item_result
from commonbrain.coordination.briefing import (
    MORE,
    Briefing,
    BriefingEntry,
    context_lines,
    handoff_lines,
    line,
    note_line,
    session_line,
    truncation_line,
)
from commonbrain.coordination.inbox import MessageView, ThreadSummary
from commonbrain.coordination.sending import AssignedTask, SendResult
from commonbrain.coordination.session_views import ActiveSession, SessionResponse
from commonbrain.model.kinds import MessagePriority
from commonbrain.model.paging import more_line
from commonbrain.model.timestamps import show_instant


def render_briefing(reply: Briefing) -> RenderableType:
    """Render the briefing by section."""
    return Group(*_render_sections(reply))


def _render_sections(reply: Briefing) -> Iterator[Text]:
    yield from _render_entries("Blockers", reply.blockers, style="bold red")
    yield from _render_entries("Skills, always on", reply.skills, style="bold magenta")
    yield from _render_lines("Pinned notes", [note_line(one) for one in reply.notes])
    items = "Action items: writes wait for them" if reply.writes_blocked else "Action items"
    yield from _render_entries(items, reply.action_items, style="bold yellow")
    yield from _render_lines(MORE.capitalize(), list(map(line, reply.more)))
    if reply.handoff:
        first, *rest = handoff_lines(reply.handoff)
        yield from _render_lines(first, rest)
    if reply.unread:
        yield Text(f"Messages: {reply.unread:,} unread", style="bold cyan")
    yield from _render_entries("Urgent", reply.urgent, style="bold red")
    yield from _render_lines("Other sessions here", [session_line(one) for one in reply.siblings])
    yield from _render_entries("Patterns", reply.patterns, style="bold green")
    yield from _render_entries("Tasks", reply.tasks, style="bold cyan")
    yield from _render_entries("Changed lately", reply.changes, style="bold")
    if reply.working_context:
        first, *rest = context_lines(reply.working_context)
        yield from _render_lines(first, rest)
    yield from (
        Text(f"Degraded: {section_text}", style="yellow") for section_text in reply.degraded
    )
    yield from (Text(truncation_line(cut), style="dim") for cut in reply.truncated)
    where = f", project {reply.project}" if reply.project else ""
    session = f"session {reply.session}" if reply.session else "no session"
    yield Text(f"{session}{where}, {reply.tokens} tokens. {reply.loaded}", style="dim")


def _render_entries(
    heading: str, entries: Sequence[BriefingEntry], *, style: str
) -> Iterator[Text]:
    if entries:
        yield Text(heading, style=style)
    for one in entries:
        note = f"  {one.note}" if one.note else ""
        yield Text.assemble("  ", (one.id, "dim"), f"  {one.headline}", (note, "italic"))


def _render_lines(heading: str, lines: Sequence[str]) -> Iterator[Text]:
    if lines:
        yield Text(heading, style="bold")
        yield from (Text(f"  {line}") for line in lines)


_COLUMNS: Final = (
    "session",
    "agent",
    "client",
    "project",
    "task",
    "state",
    "since",
    "heard",
    "metadata",
)
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def render_session(reply: SessionResponse) -> RenderableType:
    """Render the reply of a session call."""
    if reply.op in STATE_OPS:
        return Text("\n".join(task_lines(reply)))
    if reply.sessions is None:
        return Text(f"session {reply.session} {_describe_session(reply)}")
    if not reply.sessions:
        return Text("No other session is active.")
    table = Table(box=None, header_style="dim")
    for name in _COLUMNS:
        table.add_column(name, overflow="fold")
    for one in reply.sessions:
        table.add_row(*(Text(cell) for cell in _session_row(one)))
    return Group(table, *(Text(line, style="dim") for line in more_line(reply.more, reply.next)))


def _describe_session(reply: SessionResponse) -> str:
    refused = reply.outcome is not None and reply.outcome.status.is_refused
    match reply.op:
        case "handoff":
            return "left no handoff" if refused else "left a handoff"
        case "end":
            return "goes on, for its handoff was refused" if refused else "ended"
        case _:
            return f"is at: {reply.task}"


def _session_row(one: ActiveSession) -> tuple[str, ...]:
    return (
        one.session,
        one.agent,
        one.client or "",
        one.project or "",
        one.task or "",
        "idle" if one.is_idle else "active",
        show_instant(one.since)[:16].replace("T", " "),
        f"{_format_age(one.heartbeat_age_s)} ago",
        ", ".join(f"{name} {value}" for name, value in one.metadata.items()),
    )


def _format_age(seconds: int) -> str:
    size, unit = next(one for one in _UNITS if seconds >= one[0] or one[0] == 1)
    return f"{seconds // size} {unit}"


def render_session_reply(reply: SessionResponse) -> RenderableType:
    """Render the reply of a session call, with the handoff that it stored."""
    handoff = [render_item_result(reply.outcome)] if reply.outcome else []
    spent = [Text(f"{reply.token_use.line}.", style="dim")] if reply.token_use else []
    return Group(render_session(reply), *handoff, *spent)


_COLOURS: Final = {MessagePriority.URGENT: "bold red", MessagePriority.ACTION: "yellow"}
_NO_MESSAGES: Final = {
    "inbox": "There are no unread messages.",
    "history": "There are no messages.",
    "threads": "There are no threads.",
    "delegated": "Nothing is delegated.",
}


def render_messages(reply: MessageResponse) -> RenderableType:
    """Render the reply of a message call."""
    lines = list(_lines(reply))
    if not lines:
        lines = [Text(_NO_MESSAGES.get(reply.op, ""), style="dim")]
    if reply.unread is not None and reply.unread != "0":
        lines.append(Text(f"{reply.unread} unread", style="dim"))
    lines += (Text(line, style="dim") for line in more_line(reply.more, reply.next))
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
    for notice in (*sent.shared, *sent.warnings):
        yield Text(f"  {notice}", style="dim")
    if sent.embedding_pending:
        yield Text("  Found by its words only until it is embedded.", style="dim")


def _render_message(one: MessageView) -> Iterator[RenderableType]:
    mark = ("● ", "bold cyan") if one.is_unread else ("  ", "")
    color = _COLOURS.get(one.priority, "")
    details = [
        f"{one.sender} → {_names(one.to)}",
        one.readers,
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
    tags = " ".join(f"#{tag}" for tag in one.tags)
    messages = f"{one.messages} messages"
    last = show_instant(one.last_at)
    details = (one.status, f"by {one.by}", messages, participants, last, tags, one.id)
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
