"""How notes, tasks, leases and checkpoints are told, to agents and to people."""

from typing import Final

from commonbrain.domain.kinds import TaskPriority, TaskStatus
from commonbrain.domain.times import show_instant
from commonbrain.flows.sessions.told import Checked, Lease, Noted, Owed, Told

DUTY_OPS: Final = frozenset({"note", "notes", "checkpoint", "tasks", "claim", "release"})
"""What is told by these lines alone."""


def duty_lines(reply: Told) -> list[str]:
    """Tell what a session keeps, owes and claims, of what a reply speaks of."""
    lines: list[str] = []
    if reply.notes is not None:
        lines += [_note_line(one) for one in reply.notes] or ["Nothing is noted."]
    if reply.tasks is not None:
        lines += [_task_line(one) for one in reply.tasks] or ["Nothing is to be done."]
        more = (reply.tasks_total or 0) - len(reply.tasks)
        lines += [f"And {more} more."] if more else []
    if reply.lease is not None:
        lines += [_lease_line(reply.lease)]
    if reply.checked is not None:
        lines += _checked_lines(reply.checked)
    return lines


def _note_line(one: Noted) -> str:
    # What others pinned stands here too: its further lines are not to be taken for ours.
    value = "\n> ".join(one.value.splitlines())
    return f"{one.key}{f' (pinned by {one.agent})' if one.pinned else ''}: {value}"


def _task_line(one: Owed) -> str:
    notes = (
        None if one.priority is TaskPriority.MEDIUM else str(one.priority),
        None if one.status is TaskStatus.OPEN else str(one.status),
        f"due {show_instant(one.due_at)}" if one.due_at else None,
        f"for {one.assignee}" if one.assignee else None,
        "action item" if one.must_ack else None,
        f"claimed by {one.holder} until {show_instant(one.until)}" if one.until else None,
    )
    told = ", ".join(note for note in notes if note)
    return f"{one.id} {one.headline}{f' ({told})' if told else ''}"


def _lease_line(one: Lease) -> str:
    whose = f" by {one.holder} until {show_instant(one.until)}" if one.until else ""
    return f"{one.id} {one.status}{whose}: {one.headline}"


def _checked_lines(checked: Checked) -> list[str]:
    if checked.is_repeated:
        return [f"Already checked at {show_instant(checked.at)}, nothing changed since."]
    lines = [f"BLOCKER {one.id}: {one.headline}" for one in checked.blockers]
    lines += ["More blockers: recall, kinds rule."] if checked.is_more else []
    lines += [f"PATTERN {one.id}: {one.headline}" for one in checked.patterns]
    lines += [f"skill:{one.skill} {one.id}: {one.headline}" for one in checked.skills]
    return lines or ["No rule binds this."]
