"""A thread as a conversation, with what the person can answer."""

from dataclasses import dataclass
from typing import Final

from commonbrain.api.operations.message import MESSAGE, MessageRequest
from commonbrain.coordination.inbox import MessageView, ThreadSummary
from commonbrain.model.errors import NotFoundError
from commonbrain.model.scope import EVERYBODY, Role
from commonbrain.web.rendering import link
from commonbrain.web.screens.screen import Screen
from commonbrain.web.visit import Visit

_MESSAGES: Final = 20
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


def _load(visit: Visit) -> ThreadView:
    id_ = visit.path["id"]
    summary = visit.call(MESSAGE, MessageRequest(op="thread", thread=id_))
    page = visit.call(
        MESSAGE,
        MessageRequest(
            op="history", thread=id_, limit=_MESSAGES, cursor=visit.text("cursor") or None
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
    name="thread", path="/thread/{id}", title="Thread", load=_load, role=Role.WRITER
)
