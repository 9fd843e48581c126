"""At work: who is live on what, open tasks, handoffs and messages; a thread as a conversation."""

from dataclasses import dataclass
from typing import Final

from commonbrain.api.operations.message import MESSAGE, MessageRequest, MessageResponse
from commonbrain.api.operations.recall import RecallRequest
from commonbrain.api.operations.session import SESSION, SessionRequest
from commonbrain.coordination.handoff import LABEL
from commonbrain.coordination.inbox import MessageView, ThreadSummary
from commonbrain.coordination.sending import AssignedTask
from commonbrain.coordination.session_views import ActiveSession, OpenTask
from commonbrain.model.errors import NotFoundError
from commonbrain.model.kinds import Kind
from commonbrain.model.recall_result import Item
from commonbrain.model.scope import EVERYBODY, Role
from commonbrain.model.tasks import holder_of
from commonbrain.web.rendering import link
from commonbrain.web.screens.screen import Screen
from commonbrain.web.visit import READ_RECALL, Visit

_SESSIONS: Final = 20
_TASKS: Final = 15
_HANDOFFS: Final = 4
_HANDOFF_TOKENS: Final = 6_000
"""Enough for the whole text of each."""
_MESSAGES: Final = 12
_CURSORS: Final = ("sessions", "tasks", "inbox", "threads")
"""The parameters that say where each list begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkView:
    """Who works on what, and what they write to each other."""

    project: str | None
    sessions: tuple[ActiveSession, ...]
    tasks: tuple[OpenTask, ...]
    tasks_total: int
    holder: str
    """Who holds the tasks that the person has claimed."""
    handoffs: tuple[Item, ...]
    inbox: tuple[MessageView, ...]
    unread: str
    threads: tuple[ThreadSummary, ...]
    delegated: tuple[AssignedTask, ...]
    next: dict[str, str]
    """The address of the next page of each list that has one."""


def _load(visit: Visit) -> WorkView:
    project = visit.text("project") or None
    cursors = {name: visit.text(name) or None for name in _CURSORS}
    sessions = visit.call(
        SESSION,
        SessionRequest(op="list", project=project, limit=_SESSIONS, cursor=cursors["sessions"]),
    )
    tasks = visit.call(
        SESSION,
        SessionRequest(op="tasks", project=project, limit=_TASKS, cursor=cursors["tasks"]),
    )
    inbox = _messages(visit, op="inbox", cursor=cursors["inbox"])
    threads = _messages(visit, op="threads", cursor=cursors["threads"])
    lists = {"sessions": sessions, "tasks": tasks, "inbox": inbox, "threads": threads}
    return WorkView(
        project=project,
        sessions=sessions.sessions or (),
        tasks=tasks.tasks or (),
        tasks_total=tasks.tasks_total or 0,
        holder=holder_of(visit.brain.caller),
        handoffs=_handoffs(visit, project),
        inbox=inbox.messages or (),
        unread=inbox.unread or "0",
        threads=threads.threads or (),
        delegated=_messages(visit, op="delegated", cursor=None).delegated or (),
        next={
            name: link("/work", **{"project": project, **cursors, name: page.next})
            for name, page in lists.items()
            if page.next
        },
    )


def _handoffs(visit: Visit, project: str | None) -> tuple[Item, ...]:
    request = RecallRequest(
        kinds=[Kind.EPISODE],
        labels=[LABEL],
        project=project,
        max_items=_HANDOFFS,
        max_tokens=_HANDOFF_TOKENS,
    )
    return visit.call(READ_RECALL, request).items


def _messages(visit: Visit, *, op: str, cursor: str | None) -> MessageResponse:
    request = MessageRequest.model_validate({"op": op, "limit": _MESSAGES, "cursor": cursor})
    return visit.call(MESSAGE, request)


WORK: Final = Screen(
    name="work", path="/work", title="At work", load=_load, key="w", role=Role.WRITER
)


_THREAD_MESSAGES: Final = 20
"""The template shows 4,000 characters of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadView:
    """A thread with its latest messages, or those before a cursor."""

    thread: ThreadSummary
    messages: tuple[MessageView, ...]
    """Oldest first."""
    unread: tuple[str, ...]
    """Ids of those that the person has not read."""
    unanswered: tuple[str, ...]
    """Ids of those to the person that they have not acknowledged."""
    reply_to: str | None
    """The message that a reply answers: the latest; None if no other agent takes part."""
    earlier: str | None
    """The address of the messages before; None if these are the first."""


def _load_thread(visit: Visit) -> ThreadView:
    id_ = visit.path["id"]
    summary = visit.call(MESSAGE, MessageRequest(op="thread", thread=id_))
    page = visit.call(
        MESSAGE,
        MessageRequest(
            op="history", thread=id_, limit=_THREAD_MESSAGES, cursor=visit.text("cursor") or None
        ),
    )
    if not summary.threads:
        raise NotFoundError(f"No thread {id_[:40]}.", hint="List the threads.")
    [thread] = summary.threads
    messages = page.messages or ()
    return ThreadView(
        thread=thread,
        messages=messages,
        unread=tuple(one.id for one in messages if one.is_unread),
        unanswered=tuple(one.id for one in messages if _awaits(one, visit.brain.caller.agent)),
        reply_to=messages[-1].id if messages else None,
        earlier=link(f"/thread/{id_}", cursor=page.next) if page.next else None,
    )


def _awaits(message: MessageView, agent: str) -> bool:
    """Return whether a message was sent to an agent that has not acknowledged it."""
    is_addressed = agent in message.to or EVERYBODY in message.to
    is_own = message.sender == agent
    return is_addressed and not is_own and agent not in {one.agent for one in message.acks}


THREAD: Final = Screen(
    name="thread", path="/thread/{id}", title="Thread", load=_load_thread, role=Role.WRITER
)
