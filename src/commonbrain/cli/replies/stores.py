"""Replies about a store: status, doctor, review."""

from collections.abc import Iterator, Mapping

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from commonbrain.administration.status import Diagnosis
from commonbrain.api.operations.doctor import secret_lines
from commonbrain.api.operations.review import ReviewRow, reviews_lines, rows_of
from commonbrain.api.operations.status import (
    StatusReply,
    hook_lines,
    metrics_lines,
    threshold_line,
    trend_lines,
)
from commonbrain.cli.terminal import render_counts
from commonbrain.history.review_queue import ReviewQueue
from commonbrain.model.paging import more_line
from commonbrain.storage.interface import Finding


def render_status(reply: StatusReply) -> RenderableType:
    """Render the counts of a store."""
    table = Table()
    table.add_column("kind")
    table.add_column("current", justify="right")
    for kind, count in sorted(reply.by_kind.items()):
        table.add_row(kind, f"{count:,}")
    states = _format_counts(reply.by_state)
    memories_text = render_counts(reply.memories, "memory", many="memories")
    return Group(
        # A title of the table would be cut to the width of its columns.
        Text(f"{memories_text} in {reply.store}", overflow="fold"),
        Text(f"You are {reply.agent}, {reply.role} of the tenant {reply.tenant}.", style="dim"),
        *([table] if reply.by_kind else []),
        *([Text(f"states: {states}", style="dim")] if states else []),
        Text(f"space: {reply.space}, {reply.embedding_pending} wait for an embedding", style="dim"),
        Text(threshold_line(reply.thresholds), style="dim", overflow="fold"),
        *([Text(f"reranker: {reply.reranker}", style="dim")] if reply.reranker else []),
        *([Text(f"jobs: {_format_counts(reply.jobs)}", style="dim")] if reply.jobs else []),
        *(Text(line, style="dim", overflow="fold") for line in hook_lines(reply)),
        *([render_review_queue(reply.review)] if reply.review else []),
        *(Text(line, overflow="fold") for line in metrics_lines(reply)),
        *(Text(line, overflow="fold") for line in trend_lines(reply.trends)),
    )


def _format_counts(by_state: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {state}" for state, count in sorted(by_state.items()))


def render_diagnosis(reply: Diagnosis) -> RenderableType:
    """Render the findings of a check."""
    table = Table(title=Text(f"{reply.store}", overflow="fold"), title_justify="left")
    for name in ("check", "result", "detail"):
        table.add_column(name)
    for one in reply.findings:
        table.add_row(Text(one.check), _finding_status(one), Text(one.detail))
    hints = [Text(f"{one.check}: {one.hint}", style="dim") for one in reply.findings if one.hint]
    hints += [Text(line, overflow="fold") for line in secret_lines(reply)]
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
