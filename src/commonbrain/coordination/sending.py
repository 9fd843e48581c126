"""Send a message: validate it, store it in its thread, and deliver it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final, TypedDict

from commonbrain.history.unit_of_work import UnitOfWork
from commonbrain.ingestion.batch import WriteOptions
from commonbrain.ingestion.commit import open_thread
from commonbrain.ingestion.embedding import embed_drafts
from commonbrain.ingestion.preparation import PreparedDraft, prepare_drafts
from commonbrain.ingestion.result import DerivedResult, ItemResult, ItemStatus
from commonbrain.ingestion.service import store_draft
from commonbrain.ingestion.sources import put_link
from commonbrain.ingestion.validation import Rejection
from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError, parse_choice
from commonbrain.model.kinds import (
    Kind,
    MessageDetail,
    MessagePriority,
    TaskDetail,
    TaskPriority,
    TaskStatus,
)
from commonbrain.model.limits import NAME_CHARS_MAX, RECIPIENTS_MAX, SUBJECT_CHARS_MAX
from commonbrain.model.links import LinkType
from commonbrain.model.memory import Draft, Memory, Sharing, ThreadRef
from commonbrain.model.messages import Reader, Receipt, ThreadStatus
from commonbrain.model.revision import Action
from commonbrain.model.scope import EVERYBODY, NOBODYS_NAMES, Caller, Scope
from commonbrain.model.timestamps import instant
from commonbrain.services import Services
from commonbrain.text.headlines import shorten_to_headline
from commonbrain.text.normalisation import normalise_line

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction


TEAM_LEARNS: Final = (
    "Others learn only what a private message marks with @decision or @convention; send to all "
    "what everyone may know."
)
"""How a third agent learns of a direct message."""


class MessageOptions(TypedDict, total=False):
    """The options of a message; recipients and text are separate."""

    subject: str | None
    priority: MessagePriority | str
    thread: str | None
    """The id of a thread to continue; without it the message starts one."""
    project: str | None
    """A project other than the sender's; a broadcast reaches the agents that work in it."""
    expires_at: datetime | str | None
    share: Sharing | str | None
    """What the team learns of a direct message: by default what it marks with `@decision` or
    `@convention`, in a project that shares discussions all of it; `decision` or `convention`, the
    whole text as such; `none`, nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendResult:
    """A message that was stored and delivered."""

    id: str
    thread: str
    to: tuple[str, ...]
    """Names, or `*` for everyone."""
    derived: tuple[DerivedResult, ...] = ()
    """Outcomes of the tagged parts of its text."""
    warnings: tuple[str, ...] = ()
    embedding_pending: bool = False
    task: str | None = None
    """The task that it assigns."""
    shared: tuple[str, ...] = ()
    """What the team learns of a direct message, each part with the call that takes it back."""


def parse_recipients(
    to: Sequence[str] | str, caller: Caller, *, services: Services
) -> tuple[str, ...]:
    """Parse recipients into distinct names without the sender; none means everyone.

    Raises:
        InvalidInputError: a name is invalid, there are too many, or none is left.

    """
    given = (to,) if isinstance(to, str) else to
    if len(given) > RECIPIENTS_MAX:
        raise InvalidInputError(
            f"{len(given)} recipients; {RECIPIENTS_MAX} are allowed.", hint="Send it to all."
        )
    names = [services.clean_text(_name(one), what="recipient", caller=caller) for one in given]
    if NOBODYS_NAMES.intersection(names):
        return ()
    others = tuple(dict.fromkeys(name for name in names if name != caller.agent))
    if not others:
        raise InvalidInputError(
            "The sender is the only recipient." if names else "The message has no recipient.",
            hint="Name other agents, or all.",
        )
    return others


def draft_of(
    body: str,
    *,
    to: tuple[str, ...],
    options: MessageOptions,
    caller: Caller,
    services: Services,
    parent: Memory | None = None,
) -> Draft:
    """Build the draft of a message; without recipients it is a broadcast to the team.

    So can the team recall one with recipients, in a project that shares discussions.

    Raises:
        InvalidInputError: the priority, time or subject is invalid.

    """
    subject = normalise_line(options.get("subject"))
    if subject is not None and len(subject) > SUBJECT_CHARS_MAX:
        raise InvalidInputError(
            f"The subject has {len(subject)} characters; {SUBJECT_CHARS_MAX} are allowed."
        )
    expires_at, project = options.get("expires_at"), options.get("project")
    sharing = parse_choice(Sharing, options.get("share") or Sharing.MARKED)
    is_open = sharing is not Sharing.NONE and services.parameters_for(caller).shares_discussions(
        project or caller.project
    )
    detail = MessageDetail(
        sender=caller.agent,
        recipients=to,
        subject=subject,
        priority=parse_choice(MessagePriority, options.get("priority") or MessagePriority.INFO),
        parent_id=None if parent is None else parent.id,
    )
    return Draft(
        body=body,
        kind=Kind.MESSAGE,
        headline=None if subject is None else shorten_to_headline(subject),
        project=project,
        scope=Scope.PRIVATE if to and not is_open else Scope.TEAM,
        expires_at=instant(expires_at) if expires_at else None,
        detail=detail,
        sharing=sharing,
    )


def thread_of(options: MessageOptions) -> int | None:
    """Return the thread that a message continues; None starts one.

    Raises:
        InvalidInputError: it is not the id of a thread.

    """
    thread = options.get("thread")
    return ids.parse(ids.THREAD, thread) if thread else None


def prepare_message(draft: Draft, caller: Caller, *, services: Services) -> PreparedDraft:
    """Validate the draft of a message.

    Raises:
        RejectedError: it contains a secret, is too long, or is empty without injected context.

    """
    ready = prepare_drafts(
        draft, caller, scanner=services.secret_scanner, parameters=services.parameters_for(caller)
    )
    if isinstance(ready, Rejection):
        raise ready.error()
    return ready


def embed_messages(
    ready: Sequence[PreparedDraft], caller: Caller, *, services: Services
) -> list[PreparedDraft]:
    """Embed messages; without the embedder they are found by their words."""
    done = embed_drafts(ready, caller, services=services)
    if any(one.vectors is None and not one.is_deferred for one in done):
        services.unembedded[caller.tenant] = True
    return done


def deliver_message(unit: UnitOfWork, ready: PreparedDraft, *, thread: int | None) -> SendResult:
    """Store a message in its thread and deliver it, in one transaction.

    Raises:
        InvalidInputError: the thread does not exist, or the caller can see none of its messages.

    """
    detail = ready.admitted.detail
    if not isinstance(detail, MessageDetail):
        raise TypeError("Only a message is delivered.")
    within = _begin(unit, ready, subject=detail.subject) if thread is None else thread
    threaded = replace(detail, thread_id=within)
    ready = replace(ready, admitted=replace(ready.admitted, detail=threaded))
    outcome = store_draft(unit, ready)
    id_ = outcome.id or ""
    if not threaded.recipients:
        everybody = Receipt(
            message_id=ids.parse(ids.MEMORY, id_),
            agent=EVERYBODY,
            sender=unit.caller.agent,
            project=ready.project,
            is_urgent=threaded.priority is MessagePriority.URGENT,
        )
        unit.tx.messages.post([everybody])
    unit.tx.messages.open(reader_of(unit))
    if thread is not None:
        unit.tx.threads.set_status(thread, ThreadStatus.OPEN)
    unit.embed_later(ready, outcome)
    return SendResult(
        id=id_,
        thread=ids.show(ids.THREAD, within),
        to=threaded.recipients or (EVERYBODY,),
        derived=outcome.derived,
        warnings=(*outcome.warnings, *_unseen(unit, threaded.recipients)),
        embedding_pending=outcome.embedding_pending,
        shared=tuple(_shared(ready, outcome)) if threaded.recipients else (),
    )


def _unseen(unit: UnitOfWork, recipients: Sequence[str]) -> Iterator[str]:
    """Say which recipients may be misspelt: the message waits for an agent of that name."""
    if unseen := unit.tx.sessions.unseen(recipients):
        yield f"No agent {' or '.join(unseen)} has been seen here; check the name."


def _shared(ready: PreparedDraft, outcome: ItemResult) -> Iterator[str]:
    """Say what the team sees of a direct message, and how to take it back or let it know more."""
    if ready.scope is not Scope.PRIVATE:
        yield "The team can recall it: the project shares discussions."
        return
    is_known = False
    for part, result in zip(ready.derived, outcome.derived, strict=False):
        is_shared = isinstance(part, PreparedDraft) and part.draft.sharing is not Sharing.NONE
        if is_shared and result.status is ItemStatus.STORED and result.id:
            yield (
                f"{result.id} is a {result.kind} of the team now; the message stays private. "
                f"To take it back: forget {result.id}."
            )
            is_known = True
    if not is_known and ready.draft.sharing is not Sharing.NONE:
        yield TEAM_LEARNS


def reader_of(unit: UnitOfWork) -> Reader:
    """Return the caller as a reader of messages."""
    return Reader(agent=unit.caller.agent, project=unit.caller.project, now=unit.now)


def _begin(unit: UnitOfWork, ready: PreparedDraft, *, subject: str | None) -> int:
    """Create a thread with the headline of its first message."""
    drawn = ids.make_id(unit.now, unit.services.random_source.bits(ids.RANDOM_BITS))
    begun = ThreadRef(key=ids.show(ids.THREAD, drawn), subject=subject or ready.admitted.headline)
    return open_thread(unit, begun, project=ready.project, agent=unit.caller.agent)


def _name(given: str) -> str:
    """Parse the name of an agent.

    Raises:
        InvalidInputError: it is empty or too long.

    """
    name = normalise_line(given) or ""
    if not 0 < len(name) <= NAME_CHARS_MAX:
        raise InvalidInputError(
            f"The recipient {name[:40]!r} has {len(name)} characters.",
            hint=f"Give 1 to {NAME_CHARS_MAX}.",
        )
    return name


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
    """A page of assigned tasks, newest first."""

    delegated: tuple[AssignedTask, ...]
    next: str | None = None
    """The cursor of the next page; None on the last one."""
    more: int = 0
    """Tasks after this page; 1,000 means 1,000 or more."""


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
    exact = replace(unit, options=WriteOptions(checks_similarity=False))
    outcome = store_draft(exact, sourced)
    unit.embed_later(sourced, outcome)
    task_id = ids.parse(ids.MEMORY, outcome.id or "")
    if outcome.status is ItemStatus.STORED:
        put_link(unit, unit.fetch(message_id), to=task_id, type_=LinkType.ABOUT)
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
