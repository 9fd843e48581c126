"""Convert memories, notes and sessions to entries of a briefing, each on one safe line."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from commonbrain.coordination.briefing import (
    ActiveSession,
    BriefingEntry,
    InheritedHandoff,
    PinnedNote,
    WorkingContext,
)
from commonbrain.coordination.briefing_packing import NOTE_CHARS_MAX
from commonbrain.model import ids
from commonbrain.model.escaping import inert, inert_line
from commonbrain.model.kinds import (
    MessageDetail,
    RuleDetail,
    Severity,
    TaskDetail,
    TaskPriority,
    TaskStatus,
)
from commonbrain.model.memory import Memory
from commonbrain.model.scope import Caller
from commonbrain.model.sessions import Note, Session, is_idle
from commonbrain.model.skills import skill_of
from commonbrain.model.timestamps import show_day
from commonbrain.text.entities import extract_entities

TASK_SHOWN_CHARS: Final = 200
"""Characters of the task shown in the working context."""
SIBLING_TASK_CHARS: Final = 100
_NAMES_MAX: Final = 8
"""Entities of the task that are shown."""
_NAME_CHARS: Final = 60


def entry(memory: Memory, *notes: str | None) -> BriefingEntry:
    """Convert a memory to an entry, with further details."""
    shown_notes = [note for note in notes if note]
    return BriefingEntry(
        id=ids.show(ids.MEMORY, memory.id),
        headline=inert_line(memory.headline),
        note=", ".join(shown_notes) or None,
    )


def rule_entry(memory: Memory, *, project: str | None) -> BriefingEntry:
    """Convert a rule; it names its project if none was given."""
    return entry(memory, _elsewhere(memory, project))


def skill_entry(memory: Memory) -> BriefingEntry:
    """Convert a skill to an entry with its name."""
    skill = skill_of(memory)
    is_strict = isinstance(memory.detail, RuleDetail) and (
        memory.detail.severity is Severity.BLOCKER
    )
    name = f"skill:{inert_line(skill.name)}" if skill else None
    return entry(memory, name, Severity.BLOCKER if is_strict else None)


def item_entry(memory: Memory, *, project: str | None) -> BriefingEntry:
    """Convert an action item."""
    return entry(memory, memory.kind, _elsewhere(memory, project))


def task_entry(memory: Memory, caller: Caller, *, now: datetime) -> BriefingEntry:
    """Convert a task, with the details needed to choose one."""
    detail = memory.detail
    if not isinstance(detail, TaskDetail):
        return entry(memory)
    is_taken = detail.lease_until is not None and detail.lease_until > now
    taken = is_taken and detail.lease_holder not in {None, caller.session}
    return entry(
        memory,
        None if detail.priority is TaskPriority.MEDIUM else str(detail.priority),
        None if detail.status is TaskStatus.OPEN else str(detail.status),
        f"due {show_day(detail.due_at)}" if detail.due_at else None,
        f"for {inert_line(detail.assignee)}" if detail.assignee else None,
        "claimed by another session" if taken else None,
        _elsewhere(memory, caller.project),
    )


def message_entry(memory: Memory) -> BriefingEntry:
    """Convert a message to an entry with its sender."""
    sender = memory.detail.sender if isinstance(memory.detail, MessageDetail) else None
    return entry(memory, f"from {inert_line(sender or memory.agent)}")


def handoff_of(memory: Memory) -> InheritedHandoff:
    """Convert a handoff."""
    return InheritedHandoff(
        id=ids.show(ids.MEMORY, memory.id),
        agent=inert_line(memory.agent),
        date=show_day(memory.occurred_at),
        text=inert(memory.body),
    )


def note_of(note: Note) -> PinnedNote:
    """Convert a pinned note."""
    return PinnedNote(key=inert_line(note.key), value=_cut(note.value, NOTE_CHARS_MAX))


def active_session_of(session: Session, *, now: datetime) -> ActiveSession:
    """Convert another session."""
    return ActiveSession(
        session=inert_line(session.key),
        agent=inert_line(session.agent),
        task=_cut(session.task, SIBLING_TASK_CHARS) if session.task else None,
        note="idle" if is_idle(session, now) else None,
    )


def context_of(task: str, skills: Iterable[Memory]) -> WorkingContext:
    """Build the working context from the text of a task."""
    named = extract_entities(task)
    names = (*named.references, *named.people, *named.tags, *named.topics)
    return WorkingContext(
        task=_cut(task, TASK_SHOWN_CHARS),
        names=tuple(name for name in map(inert_line, names) if len(name) <= _NAME_CHARS)[
            :_NAMES_MAX
        ],
        skills=tuple(map(skill_entry, skills)),
    )


def _elsewhere(memory: Memory, project: str | None) -> str | None:
    """Return the project of a memory if none was requested."""
    named = memory.project if project is None else None
    return f"project {inert_line(named)}" if named else None


def _cut(text: str, chars: int) -> str:
    line = inert_line(text)
    return line if len(line) <= chars else f"{line[: chars - 1].rstrip()}…"
