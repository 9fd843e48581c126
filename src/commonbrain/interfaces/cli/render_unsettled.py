"""What wants a decision, drawn for a person, with the commands that make it."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from commonbrain.flows.unsettled import Agenda, Dispute, Doubt, Waiting
from commonbrain.interfaces.operations.unsettled import told


def agenda(reply: Agenda) -> RenderableType:
    """Show what wants a decision, each with its commands."""
    rows = (*reply.conflicts, *reply.needs_review, *reply.proposals)
    if not rows:
        return Text("Nothing wants a decision.", style="green")
    more = [f"There are more {matter}: --skip, or --limit up to 100." for matter in reply.more]
    shown = (line for row in rows for line in _row(row))
    return Group(*shown, *(Text(line, style="dim") for line in more))


def _row(row: Dispute | Doubt | Waiting) -> Iterator[Text]:
    first, *rest = told(row)
    yield Text(first, style="bold yellow")
    calls = (line.replace("-> ", "brain ", 1) for line in rest if line.startswith("  -> "))
    yield from (Text(line) for line in rest if not line.startswith("  -> "))
    yield from (Text(line, style="dim", overflow="fold") for line in calls)
