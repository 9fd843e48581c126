"""Assigned tasks: a message with a task, whose status shows the progress of the work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from commonbrain.coordination.sending import SendResult, deliver_message
from commonbrain.history.unit_of_work import UnitOfWork
from commonbrain.ingestion.preparation import PreparedDraft
from commonbrain.ingestion.result import ItemStatus
from commonbrain.ingestion.service import Remember, WriteOptions
from commonbrain.ingestion.sources import put_link
from commonbrain.model import ids
from commonbrain.model.kinds import (
    Kind,
    MessageDetail,
    MessagePriority,
    TaskDetail,
    TaskPriority,
    TaskStatus,
)
from commonbrain.model.links import LinkType
from commonbrain.model.memory import Draft, Memory
from commonbrain.model.query import Filter
from commonbrain.model.revision import Action

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

_TASK_PRIORITY: Final[Mapping[MessagePriority, TaskPriority]] = {
    MessagePriority.INFO: TaskPriority.LOW,
    MessagePriority.ACTION: TaskPriority.MEDIUM,
    MessagePriority.URGENT: TaskPriority.HIGH,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedTask:
    """A task assigned by a message, and its status."""

    task: str
    message: str
    by: str
    to: str
    headline: str
    status: TaskStatus
    priority: TaskPriority
    due_at: datetime | None
    expires_at: datetime | None
    is_expired: bool
    result: str | None
    """The reason given with its status."""
    at: datetime
    changed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedTaskPage:
    """A page of assigned tasks, newest first, and the cursor of the next page."""

    delegated: tuple[AssignedTask, ...]
    cursor: str | None = None


def task_of(message: Draft, *, due_at: datetime | None) -> Draft:
    """Return the task that a message assigns, with its readers and priority."""
    detail = message.detail
    message_priority = (
        detail.priority if isinstance(detail, MessageDetail) else MessagePriority.ACTION
    )
    [assignee] = detail.recipients if isinstance(detail, MessageDetail) else (None,)
    return replace(
        message,
        kind=Kind.TASK,
        detail=TaskDetail(
            due_at=due_at, priority=_TASK_PRIORITY[message_priority], assignee=assignee
        ),
        audience=(assignee,) if assignee else (),
    )


def send_with_task(
    unit: UnitOfWork, message: PreparedDraft, *, task: PreparedDraft, thread: int | None
) -> SendResult:
    """Store the message, its task, and the link between them."""
    sent = deliver_message(unit, message, thread=thread)
    message_id = ids.parse(ids.MEMORY, sent.id)
    draft = replace(task.draft, source_message_id=message_id)
    # Inline tags were processed with the message.
    sourced = replace(task, draft=draft, derived=())
    writer = Remember(unit.services, unit.caller)
    query_scope = unit.query_scope(Filter(trust_min=0.0))
    outcome = writer.store_draft(
        unit.tx, sourced, query_scope=query_scope, options=WriteOptions(checks_similarity=False)
    )
    task_id = ids.parse(ids.MEMORY, outcome.id or "")
    if outcome.status is ItemStatus.STORED:
        put_link(
            unit.tx, unit.fetch(message_id), to=task_id, type_=LinkType.ABOUT, caller=unit.caller
        )
    return replace(sent, task=outcome.id, warnings=(*sent.warnings, *outcome.warnings))


def assignment_of(tx: Transaction, task: Memory, *, now: datetime) -> AssignedTask | None:
    """Return an assigned task with its status and the latest reason."""
    detail = task.detail
    if not isinstance(detail, TaskDetail) or task.source_message_id is None:
        return None
    request = tx.memories.get([task.source_message_id]).get(task.source_message_id)
    status_changes = [
        change for change in tx.changes.of([task.id]) if change.action is Action.STATUS
    ]
    last = max(status_changes, key=lambda change: change.id, default=None)
    return AssignedTask(
        task=ids.show(ids.MEMORY, task.id),
        message=ids.show(ids.MEMORY, task.source_message_id),
        by=task.agent if request is None else request.agent,
        to=detail.assignee or "",
        headline=task.headline,
        status=detail.status,
        priority=detail.priority,
        due_at=detail.due_at,
        expires_at=task.expires_at,
        is_expired=task.is_over(now),
        result=last.reason if last else None,
        at=task.recorded_at,
        changed_at=last.at if last else task.recorded_at,
    )
