"""How sessions look to people."""

from typing import Final

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from commonbrain.domain.times import show_instant
from commonbrain.flows.sessions.told import Peer, Told
from commonbrain.interfaces.operations.duty_lines import DUTY_OPS, duty_lines

_COLUMNS: Final = ("session", "agent", "client", "project", "task", "state", "since", "heard")
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def told(reply: Told) -> RenderableType:
    """Show what became of a call about sessions."""
    if reply.op in DUTY_OPS:
        return Text("\n".join(duty_lines(reply)))
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


def _done(reply: Told) -> str:
    refused = reply.outcome is not None and reply.outcome.status.is_refused
    match reply.op:
        case "handoff":
            return "left no handoff" if refused else "left a handoff"
        case "end":
            return "goes on, for its handoff was refused" if refused else "ended"
        case _:
            return f"is at: {reply.task}"


def _cells(one: Peer) -> tuple[str, ...]:
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
