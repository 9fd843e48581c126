"""Replies about memories: list, get, revise, forget, skill, trace."""

from datetime import datetime

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from commonbrain.api.operations.get import GetResponse, origin_line, view_rows
from commonbrain.api.operations.list import facet_lines
from commonbrain.api.operations.trace import render_step, render_summary
from commonbrain.causality.result import VIA_NAME, TraceResult
from commonbrain.cli.terminal import render_item_result
from commonbrain.history.change_plan import ReviseResult
from commonbrain.history.selection import BulkChangeResult
from commonbrain.ingestion.skills import SkillList
from commonbrain.model.memory import CURRENT_STATES
from commonbrain.model.paging import more_line
from commonbrain.model.timestamps import show_day, show_instant
from commonbrain.retrieval.get import MemoryView, View
from commonbrain.retrieval.listing import MemoryPage
from commonbrain.retrieval.provenance import Provenance


def render_get(reply: GetResponse) -> RenderableType:
    """Render memories in full."""
    return Group(*(_render_memory(one) for one in (reply, *reply.more)))


def render_list(reply: MemoryPage) -> RenderableType:
    """Render memories of a list as a table, with the counts of its facets."""
    facets = (Text(line, style="dim") for line in facet_lines(reply.facets))
    if not reply.memories:
        return Group(Text("No memory matches.", style="yellow"), *facets)
    table = Table(box=None, header_style="dim")
    # Of one project, no column repeats its name.
    projects = {one.project for one in reply.memories}
    names = ("id", "kind", "occurred", *(("project",) if len(projects) > 1 else ()))
    for name in names:
        table.add_column(name, no_wrap=name != "project", overflow="fold")
    table.add_column("headline", overflow="fold", ratio=1)
    for one in reply.memories:
        is_current = one.state in CURRENT_STATES
        marks = (*([] if is_current else [str(one.state)]), *(["pinned"] if one.pinned else []))
        headline = f"{one.headline}  ({', '.join(marks)})" if marks else one.headline
        cells = (one.id, one.kind, show_day(one.occurred_at), one.project or "")[: len(names)]
        table.add_row(*map(Text, cells), Text(headline, style="" if is_current else "dim"))
    more = (Text(line, style="dim") for line in more_line(reply.more, reply.next))
    return Group(table, *more, *facets)


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


def render_skills(reply: SkillList) -> RenderableType:
    """Render skills as a table."""
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
