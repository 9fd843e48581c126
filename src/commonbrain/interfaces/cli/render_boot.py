"""How a briefing looks to people."""

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from commonbrain.domain.briefing import (
    Briefing,
    Entry,
    context_lines,
    cut_line,
    handoff_lines,
    note_line,
    sibling_line,
)


def briefing(reply: Briefing) -> RenderableType:
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
    yield from _plain("Other sessions here", [sibling_line(one) for one in reply.siblings])
    yield from _section("Patterns", reply.patterns, style="bold green")
    yield from _section("Tasks", reply.tasks, style="bold cyan")
    if reply.working_context:
        first, *rest = context_lines(reply.working_context)
        yield from _plain(first, rest)
    yield from (Text(f"Degraded: {what}", style="yellow") for what in reply.degraded)
    yield from (Text(cut_line(cut), style="dim") for cut in reply.truncated)
    where = f", project {reply.project}" if reply.project else ""
    session = f"session {reply.session}" if reply.session else "no session"
    yield Text(f"{session}{where}, {reply.tokens} tokens. {reply.loaded}", style="dim")


def _section(heading: str, entries: Sequence[Entry], *, style: str) -> Iterator[Text]:
    if entries:
        yield Text(heading, style=style)
    for one in entries:
        note = f"  {one.note}" if one.note else ""
        yield Text.assemble("  ", (one.id, "dim"), f"  {one.headline}", (note, "italic"))


def _plain(heading: str, lines: Sequence[str]) -> Iterator[Text]:
    if lines:
        yield Text(heading, style="bold")
        yield from (Text(f"  {line}") for line in lines)
