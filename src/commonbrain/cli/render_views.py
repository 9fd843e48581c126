"""How a briefing looks to people."""

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from commonbrain.api.operations.review import reviews_lines
from commonbrain.api.operations.session import DUTY_OPS, task_lines
from commonbrain.api.operations.trace import step_line, summary_lines
from commonbrain.causality.result import VIA_LEXICAL, TraceResult
from commonbrain.coordination.briefing import (
    Briefing,
    BriefingEntry,
    context_lines,
    handoff_lines,
    note_line,
    session_line,
    truncation_line,
)
from commonbrain.coordination.session_views import ActiveSession, SessionResponse
from commonbrain.history.review_queue import ConflictItem, PendingItem, ReviewQueue, StaleItem
from commonbrain.model.timestamps import show_instant


def render_briefing(reply: Briefing) -> RenderableType:
    """Show what an agent is told when it begins, section by section."""
    return Group(*_lines(reply))


def _lines(reply: Briefing) -> Iterator[Text]:
    yield from _section("Blockers", reply.blockers, style="bold red")
    yield from _section("Skills, always on", reply.skills, style="bold magenta")
    yield from _plain("Pinned notes", [note_line(one) for one in reply.notes])
    items = "Action items: writes wait for them" if reply.writes_blocked else "Action items"
    yield from _section(items, reply.action_items, style="bold yellow")
    if reply.handoff:
        first, *rest = handoff_lines(reply.handoff)
        yield from _plain(first, rest)
    if reply.unread:
        yield Text(f"Messages: {reply.unread:,} unread", style="bold cyan")
    yield from _section("Urgent", reply.urgent, style="bold red")
    yield from _plain("Other sessions here", [session_line(one) for one in reply.siblings])
    yield from _section("Patterns", reply.patterns, style="bold green")
    yield from _section("Tasks", reply.tasks, style="bold cyan")
    if reply.working_context:
        first, *rest = context_lines(reply.working_context)
        yield from _plain(first, rest)
    yield from (Text(f"Degraded: {what}", style="yellow") for what in reply.degraded)
    yield from (Text(truncation_line(cut), style="dim") for cut in reply.truncated)
    where = f", project {reply.project}" if reply.project else ""
    session = f"session {reply.session}" if reply.session else "no session"
    yield Text(f"{session}{where}, {reply.tokens} tokens. {reply.loaded}", style="dim")


def _section(heading: str, entries: Sequence[BriefingEntry], *, style: str) -> Iterator[Text]:
    if entries:
        yield Text(heading, style=style)
    for one in entries:
        note = f"  {one.note}" if one.note else ""
        yield Text.assemble("  ", (one.id, "dim"), f"  {one.headline}", (note, "italic"))


def _plain(heading: str, lines: Sequence[str]) -> Iterator[Text]:
    if lines:
        yield Text(heading, style="bold")
        yield from (Text(f"  {line}") for line in lines)


_COLUMNS: Final = ("session", "agent", "client", "project", "task", "state", "since", "heard")
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def render_session(reply: SessionResponse) -> RenderableType:
    """Show what became of a call about sessions."""
    if reply.op in DUTY_OPS:
        return Text("\n".join(task_lines(reply)))
    if reply.sessions is None:
        return Text(f"session {reply.session} {_done(reply)}")
    if not reply.sessions:
        return Text("Nobody else is at work.")
    table = Table(box=None, header_style="dim")
    for name in _COLUMNS:
        table.add_column(name, overflow="fold")
    for one in reply.sessions:
        table.add_row(*(Text(cell) for cell in _cells(one)))
    return table


def _done(reply: SessionResponse) -> str:
    refused = reply.outcome is not None and reply.outcome.status.is_refused
    match reply.op:
        case "handoff":
            return "left no handoff" if refused else "left a handoff"
        case "end":
            return "goes on, for its handoff was refused" if refused else "ended"
        case _:
            return f"is at: {reply.task}"


def _cells(one: ActiveSession) -> tuple[str, ...]:
    return (
        one.session,
        one.agent,
        one.client or "",
        one.project or "",
        one.task or "",
        "idle" if one.is_idle else "active",
        show_instant(one.since)[:16].replace("T", " "),
        f"{_age(one.heartbeat_age_s)} ago",
    )


def _age(seconds: int) -> str:
    size, unit = next(one for one in _UNITS if seconds >= one[0] or one[0] == 1)
    return f"{seconds // size} {unit}"


def render_trace(reply: TraceResult) -> RenderableType:
    """Draw each thing that was asked about as a tree, with what led to it or came of it."""
    trees: list[Tree] = []
    branches: list[Tree] = []
    for one in reply.steps:
        style = "dim" if one.via == VIA_LEXICAL else "bold" if one.is_root or not one.depth else ""
        line = Text(step_line(one), style=style)
        # A step belongs to the last one that is nearer.
        del branches[one.depth :]
        if branches:
            branches.append(branches[-1].add(line))
        else:
            branches = [Tree(line)]
            trees += branches
    told = (Text(line, style="yellow" if _is_doubt(line) else "") for line in summary_lines(reply))
    return Group(*trees, *told)


def _is_doubt(line: str) -> bool:
    return line.startswith(("gap: ", "limit: "))


def render_review_queue(reply: ReviewQueue) -> RenderableType:
    """Show what wants a decision, each with its commands."""
    rows = (*reply.conflicts, *reply.needs_review, *reply.proposals)
    if not rows:
        return Text("Nothing wants a decision.", style="green")
    more = [f"There are more {matter}: --skip, or --limit up to 100." for matter in reply.more]
    shown = (line for row in rows for line in _row(row))
    return Group(*shown, *(Text(line, style="dim") for line in more))


def _row(row: ConflictItem | StaleItem | PendingItem) -> Iterator[Text]:
    first, *rest = reviews_lines(row)
    yield Text(first, style="bold yellow")
    calls = (line.replace("-> ", "brain ", 1) for line in rest if line.startswith("  -> "))
    yield from (Text(line) for line in rest if not line.startswith("  -> "))
    yield from (Text(line, style="dim", overflow="fold") for line in calls)
