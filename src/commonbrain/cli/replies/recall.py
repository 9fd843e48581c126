"""The reply of recall: a panel for each memory."""

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.rule import Rule
from rich.text import Text

from commonbrain.cli.terminal import render_counts
from commonbrain.model.paging import more_line
from commonbrain.model.recall_result import UNSURE, Item, Order, RecallResult, ResultStatus
from commonbrain.model.timestamps import show_day


def render_recall(reply: RecallResult) -> RenderableType:
    """Render the memories found, each in a panel."""
    skipped = [Text(f"skipped: {reason}", style="yellow") for reason in reply.degraded]
    if not reply.items:
        return Group(Text(_EMPTY_MESSAGES[reply.verdict], style="yellow"), *skipped)
    left_out = f", {reply.omitted.count} more left out" if reply.omitted.count else ""
    count_text = render_counts(len(reply.items), "item", many="items")
    footer = Text(
        f"{count_text}, {reply.tokens} tokens, certainty {reply.certainty}{left_out}", style="dim"
    )
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
