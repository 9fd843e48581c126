"""At work: who is live on what, open tasks, the last handoffs, and the person's messages."""

from dataclasses import dataclass
from typing import Final

from commonbrain.api.operations.message import MESSAGE, MessageRequest, MessageResponse
from commonbrain.api.operations.recall import RecallRequest
from commonbrain.api.operations.session import SESSION, SessionRequest
from commonbrain.coordination.handoff import LABEL
from commonbrain.coordination.inbox import MessageView, ThreadSummary
from commonbrain.coordination.sending import AssignedTask
from commonbrain.coordination.session_views import ActiveSession, OpenTask
from commonbrain.model.kinds import Kind
from commonbrain.model.recall_result import Item
from commonbrain.model.scope import Role
from commonbrain.model.tasks import holder_of
from commonbrain.web.reading import READ_RECALL
from commonbrain.web.rendering import link
from commonbrain.web.screens.screen import Screen
from commonbrain.web.visit import Visit

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
