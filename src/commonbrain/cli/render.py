"""Replies as tables, panels and trees."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any, Final

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from commonbrain.administration.status import Diagnosis
from commonbrain.api.operations import Operation
from commonbrain.api.operations.get import GetResponse, origin_line, view_rows
from commonbrain.api.operations.message import MessageResponse
from commonbrain.api.operations.review import ReviewRow, reviews_lines, rows_of
from commonbrain.api.operations.session import STATE_OPS, task_lines
from commonbrain.api.operations.status import StatusReply, hook_lines, metrics_lines
from commonbrain.api.operations.trace import render_step, render_summary
from commonbrain.causality.result import VIA_NAME, TraceResult
from commonbrain.cli.terminal import Sanitized, render_counts, render_item_result
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
from commonbrain.history.change_plan import ReviseResult
from commonbrain.history.review_queue import ReviewQueue
from commonbrain.history.selection import BulkChangeResult
from commonbrain.ingestion.skills import SkillList
from commonbrain.model.kinds import MessagePriority
from commonbrain.model.paging import more_line
from commonbrain.model.recall_result import UNSURE, Item, Order, RecallResult, ResultStatus
from commonbrain.model.timestamps import show_day, show_instant
from commonbrain.retrieval.get import MemoryView, View
from commonbrain.retrieval.provenance import Provenance
from commonbrain.storage.interface import Finding
from commonbrain.transfer.imports import ImportReport


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


def render_trace(reply: TraceResult) -> RenderableType:
    """Render each traced memory as a tree of its causes or effects."""
    trees: list[Tree] = []
    branches: list[Tree] = []
    for one in reply.steps:
        style = "dim" if one.via == VIA_NAME else "bold" if one.is_root or not one.depth else ""
        line = Text(render_step(one), style=style)
        # A step belongs to the last one that is nearer.
        del branches[one.depth :]
        if branches:
            branches.append(branches[-1].add(line))
        else:
            branches = [Tree(line)]
            trees += branches
    render_sessions = (
        Text(line, style="yellow" if _is_caveat(line) else "") for line in render_summary(reply)
    )
    return Group(*trees, *render_sessions)


def _is_caveat(line: str) -> bool:
    return line.startswith(("changed: ", "gap: ", "limit: "))


def render_review_queue(reply: ReviewQueue) -> RenderableType:
    """Render what needs a decision, with the commands that resolve it."""
    rows = rows_of(reply)
    if not rows:
        return Text("Nothing needs a decision.", style="green")
    more = more_line(reply.more, reply.next)
    shown = (line for row in rows for line in _render_row(row))
    return Group(*shown, *(Text(line, style="dim") for line in more))


def _render_row(row: ReviewRow) -> Iterator[Text]:
    first, *rest = reviews_lines(row)
    yield Text(first, style="bold yellow")
    calls = (line.replace("-> ", "brain ", 1) for line in rest if line.startswith("  -> "))
    yield from (Text(line) for line in rest if not line.startswith("  -> "))
    yield from (Text(line, style="dim", overflow="fold") for line in calls)


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
        yield Text("  Found by its words only until the embedder is back.", style="dim")


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


def _render_recall(reply: RecallResult) -> RenderableType:
    skipped = [Text(f"skipped: {reason}", style="yellow") for reason in reply.degraded]
    if not reply.items:
        return Group(Text(_EMPTY_MESSAGES[reply.verdict], style="yellow"), *skipped)
    left_out = f", {reply.omitted.count} more left out" if reply.omitted.count else ""
    count_text = render_counts(len(reply.items), "item", many="items")
    confidence_text = f", confidence {reply.confidence.mean:.2f}" if reply.confidence else ""
    footer = Text(f"{count_text}, {reply.tokens} tokens{confidence_text}{left_out}", style="dim")
    against = [Text(conflict.line(), style="yellow") for conflict in reply.conflicts]
    is_unsure = reply.verdict is ResultStatus.BELOW_THRESHOLD
    unsure = [Text(UNSURE, style="yellow")] if is_unsure else []
    more = [Text(line, style="dim") for line in more_line(reply.more, reply.next)]
    return Group(*unsure, *_render_items(reply), *against, *skipped, footer, *more)


_EMPTY_MESSAGES: Final = {
    ResultStatus.NOTHING_STORED: "Nothing is stored that this filter allows.",
    ResultStatus.BELOW_THRESHOLD: "Nothing stored answers this. Use other words or drop a filter.",
    ResultStatus.FOUND: "Something was found, but nothing fits the budget. Raise --max-tokens.",
}


def _render_items(reply: RecallResult) -> Iterator[RenderableType]:
    """Render the items; those of a timeline by day."""
    if reply.order is Order.RELEVANCE:
        yield from (_render_item(item, when=show_day(item.occurred_at)) for item in reply.items)
        return
    for day, items in groupby(reply.items, key=lambda item: f"{item.occurred_at:%A %d %B %Y}"):
        yield Rule(Text(day), align="left")
        yield from (_render_item(item, when=f"{item.occurred_at:%H:%M}") for item in items)


def _render_item(item: Item, *, when: str) -> RenderableType:
    details = [
        item.label or item.kind,
        when,
        item.agent,
        item.project,
        item.source_ref,
        f"revised {item.superseded_count}x" if item.superseded_count else None,
        f"rated {item.rating:+}" if item.rating else None,
        item.context,
    ]
    cut = ("in part; get shows all of it",) if item.excerpt is not None else ()
    earlier = (f"earlier: {item.earlier}",) if item.earlier else ()
    source = (item.source.line().removeprefix("> (").removesuffix(")"),) if item.source else ()
    notes = "".join(f"\n({note})" for note in (*cut, *item.notes, *earlier, *source))
    why = f"{item.score:.2f} {' + '.join(item.why)}"
    return Panel(
        Text.assemble(
            item.body or item.shown_text or "(its text exceeds the budget)", (notes, "dim")
        ),
        title=Text(" · ".join(part for part in details if part)),
        subtitle=Text(f"{item.id} · {why}", style="dim"),
        title_align="left",
        subtitle_align="right",
    )


def _render_get(reply: GetResponse) -> RenderableType:
    return Group(*(_render_memory(one) for one in (reply, *reply.more)))


def _render_memory(reply: MemoryView) -> RenderableType:
    table = Table(box=None, show_header=False)
    table.add_column(style="dim")
    table.add_column()
    hidden = {"body", "banner", "headline", "detail", "conflicts", "related", *View}
    for name in (name for name in MemoryView.__slots__ if name not in hidden):
        _add_row(table, name, value=getattr(reply, name))
    for name, value in reply.detail.items():
        _add_row(table, name, value=value)
    body = Panel(Text(reply.body or reply.headline), title=Text(reply.headline), title_align="left")
    banner = [Text(reply.banner, style="bold yellow")] if reply.banner else []
    against = [Text(conflict.line(), style="yellow") for conflict in reply.conflicts or ()]
    names = [*View, *(["related"] if reply.related else [])]
    views = [_render_view(name, getattr(reply, name)) for name in names]
    tree = [_render_provenance(reply.id, reply.provenance)] if reply.provenance else []
    return Group(*banner, body, *against, table, *(view for view in views if view), *tree)


def _render_provenance(id_: str, provenance: Provenance) -> RenderableType:
    """Render the provenance of a memory as a tree, with a sentence on where it ends."""
    branches = [Tree(Text(id_))]
    for one in provenance.origins:
        # A step belongs to the last one that is nearer.
        del branches[one.depth :]
        branches.append(branches[-1].add(Text(origin_line(one))))
    cut = [Text("It goes on beyond what is shown.", style="dim")] if provenance.is_cut else []
    return Group(branches[0], *cut, *([Text(provenance.because)] if provenance.because else []))


def _render_view(view: str, side: object) -> RenderableType | None:
    """Render a view as a table with a row for each entry.

    None for a view that was not requested.
    """
    rows = view_rows(side)
    if side is None or not rows:
        return None if side is None else Text(f"{view}: none", style="dim")
    names = [name for name in rows[0] if any(row[name] not in (None, ()) for row in rows)]
    table = Table(*names, title=Text(view), title_justify="left")
    for row in rows:
        table.add_row(*(Text(_cell_text(row[name])) for name in names))
    return table


def _cell_text(value: object) -> str:
    if value is None:
        return ""
    return show_instant(value) if isinstance(value, datetime) else str(value)


def _add_row(table: Table, name: str, *, value: object) -> None:
    """Add a value, if there is one."""
    if value is None or value == ():
        return
    table.add_row(name, Text(_cell_text(value)))


def _render_status(reply: StatusReply) -> RenderableType:
    table = Table()
    table.add_column("kind")
    table.add_column("current", justify="right")
    for kind, count in sorted(reply.by_kind.items()):
        table.add_row(kind, f"{count:,}")
    memories_text = render_counts(reply.memories, "memory", many="memories")
    return Group(
        # A title of the table would be cut to the width of its columns.
        Text(f"{memories_text} in {reply.store}", overflow="fold"),
        Text(f"You are {reply.agent}, {reply.role} of the tenant {reply.tenant}.", style="dim"),
        table,
        Text(f"states: {_format_counts(reply.by_state) or 'none'}", style="dim"),
        Text(f"space: {reply.space}, {reply.embedding_pending} wait for an embedding", style="dim"),
        *([Text(f"jobs: {_format_counts(reply.jobs)}", style="dim")] if reply.jobs else []),
        *(Text(line, style="dim", overflow="fold") for line in hook_lines(reply)),
        *([render_review_queue(reply.review)] if reply.review else []),
        *(Text(line, overflow="fold") for line in metrics_lines(reply)),
    )


def _format_counts(by_state: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {state}" for state, count in sorted(by_state.items()))


def _render_diagnosis(reply: Diagnosis) -> RenderableType:
    table = Table(title=Text(f"{reply.store}", overflow="fold"), title_justify="left")
    for name in ("check", "result", "detail"):
        table.add_column(name)
    for one in reply.findings:
        table.add_row(Text(one.check), _finding_status(one), Text(one.detail))
    hints = [Text(f"{one.check}: {one.hint}", style="dim") for one in reply.findings if one.hint]
    done = reply.repaired
    if done is None:
        return Group(table, *hints)
    summary = Text(
        f"Reindexed: the words of {render_counts(done.words, 'memory', many='memories')}, "
        f"the vectors of {done.vectors_made:,}; {done.vectors_dropped:,} unsound vectors dropped."
    )
    return Group(summary, table, *hints)


def _finding_status(one: Finding) -> Text:
    if not one.is_sound:
        return Text("unsound", "bold red")
    return Text("look", "yellow") if one.hint else Text("sound", "green")


def _render_session(reply: SessionResponse) -> RenderableType:
    handoff = [render_item_result(reply.outcome)] if reply.outcome else []
    spent = [Text(f"{reply.token_use.line}.", style="dim")] if reply.token_use else []
    return Group(render_session(reply), *handoff, *spent)


def _render_skills(reply: SkillList) -> RenderableType:
    if not reply.skills:
        return Text("No skill.", style="yellow")
    table = Table(box=None, header_style="dim")
    for name in ("name", "headline", "keywords", "projects"):
        table.add_column(name, overflow="fold")
    table.add_column("id", no_wrap=True)
    for one in reply.skills:
        always = ("always on",) if one.always_on else ()
        cells = (one.name, one.headline, ", ".join((*always, *one.keywords)))
        table.add_row(*map(Text, (*cells, ", ".join(one.projects) or "all", one.id)))
    return Group(table, *(Text(line, style="dim") for line in more_line(reply.more, reply.next)))


def report(reply: ImportReport) -> RenderableType:
    """Render the result of an import."""
    table = Table()
    table.add_column("outcome")
    table.add_column("pieces", justify="right")
    for name in ("read", "stored", "exists", "changed", "quarantined", "rejected", "unreadable"):
        table.add_row(name, f"{getattr(reply, name):,}")
    if reply.parts:
        table.add_row("parts of longer ones", f"{reply.parts:,}")
    refusals = (Text(f"{one.where}: {one.reason}", style="yellow") for one in reply.refusals)
    return Group(Text(f"{reply.format} from {reply.source}", overflow="fold"), table, *refusals)


def render_revision(done: ReviseResult) -> RenderableType:
    """Render the result of a revision."""
    if done.outcome is not None:
        return render_item_result(done.outcome)
    colour = {"done": "green", "unchanged": "cyan", "proposed": "yellow"}.get(done.status, "red")
    line = Text.assemble(
        (f"{done.action} {done.status}", f"bold {colour}"), f"  {done.id}  {done.headline or ''}"
    )
    affected = [done.affected.line()] if done.affected else []
    more = [*done.changed, *affected, *([done.hint] if done.hint else [])]
    return Group(line, *(Text(f"  {text}", style="dim") for text in more))


def render_bulk_change(reply: BulkChangeResult) -> RenderableType:
    """Render the result or the preview of a bulk change."""
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(reply.by_kind.items()))
    line = Text(f"{reply.action} {reply.status}  {reply.count:,} ({kinds or 'none'})", style="bold")
    lists = (
        ("", reply.items, reply.count),
        ("skipped ", reply.skipped, reply.skipped_count),
        ("rests on them  ", reply.dependents, reply.dependents_count),
    )
    lines: list[Text] = []
    for mark, named, count in lists:
        lines += [Text(f"  {mark}{one.id}  {one.headline}  {one.why or ''}") for one in named]
        if count > len(named):
            lines.append(Text(f"  {mark}and {count - len(named):,} more", style="dim"))
    looked = [f"  {place}: {count:,}" for place, count in reply.receipt.items()]
    affected = [reply.affected.line()] if reply.affected else []
    more = [*looked, *affected, *([reply.hint] if reply.hint else [])]
    return Group(line, *lines, *(Text(text, style="dim") for text in more))


_RENDERERS: Final[Mapping[str, Callable[[Any], RenderableType]]] = {
    "boot": render_briefing,
    "recall": _render_recall,
    "get": _render_get,
    "revise": render_revision,
    "forget": render_bulk_change,
    "session": _render_session,
    "skill": _render_skills,
    "message": render_messages,
    "trace": render_trace,
    "status": _render_status,
    "review": render_review_queue,
    "doctor": _render_diagnosis,
}
"""By operation; other operations are rendered as their text."""


def print_reply(operation: Operation[Any, Any], reply: Any, *, console: Console) -> None:  # noqa: ANN401
    """Print any reply except that of remember."""
    render = _RENDERERS.get(operation.name)
    console.print(Sanitized(render(reply) if render else Text(operation.render_text(reply))))
