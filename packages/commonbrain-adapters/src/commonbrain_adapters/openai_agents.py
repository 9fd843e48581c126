"""Sessions of the OpenAI Agents SDK: openai/openai-agents-python, `agents/memory/session.py`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from commonbrain.client import Brain
from commonbrain.extras import extra_missing
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.scope import Scope
from commonbrain_adapters.message_log import LoggedMessage, MessageLog

try:
    from agents.memory.session_settings import SessionSettings, resolve_session_limit
except ImportError as error:
    raise extra_missing("agents", extra="openai-agents") from error

if TYPE_CHECKING:
    from agents.items import TResponseInputItem

FRAMEWORK: Final = "openai-agents"
_ASSISTANT: Final = "assistant"
_TOOL: Final = "tool"


class CommonbrainSession:
    """The items of one session as messages of a brain; pass it to `Runner.run(session=...)`.

    What people and agents say is found by recall; calls of tools and their results only come back
    to the session. A session belongs to the project of the brain. Removed items are forgotten:
    recall and the session no longer return them, `brain.revise.restore` brings them back.

    All methods raise `RejectedError` for an item that holds a secret or is larger than 256 KiB.
    """

    def __init__(
        self,
        session_id: str,
        brain: Brain,
        *,
        scope: Scope | str = Scope.TEAM,
        session_settings: SessionSettings | None = None,
    ) -> None:
        """Create the view of a session; nothing is stored yet.

        Args:
            session_id: the name of the session, unique in its project.
            brain: where items are stored.
            scope: who may recall them: team, or private to the agent of the brain.
            session_settings: the default limit of `get_items`.

        Raises:
            InvalidInputError: the name is empty.

        """
        if not session_id.strip():
            raise InvalidInputError("The session has no name.", hint="Give its id.")
        self.session_id = session_id
        self.session_settings: SessionSettings | None = session_settings or SessionSettings()
        self._items = MessageLog(brain.as_model(), FRAMEWORK, (session_id,), Scope(scope))

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the latest items, or all, in chronological order."""
        most = resolve_session_limit(limit, self.session_settings)
        if most is not None and most <= 0:
            return []
        values = await asyncio.to_thread(self._items.read, most)
        return cast("list[TResponseInputItem]", values)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Append items: all of them, or none if one is refused."""
        given = [_logged(cast("Mapping[str, Any]", item)) for item in items]
        await asyncio.to_thread(self._items.append, given)

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the most recent item and return it; None if there is none."""
        return cast("TResponseInputItem | None", await asyncio.to_thread(self._items.pop))

    async def clear_session(self) -> None:
        """Remove all items."""
        await asyncio.to_thread(self._items.clear)


def _logged(item: Mapping[str, Any]) -> LoggedMessage:
    """Return what to store of an item: only messages are found by their text."""
    kind = str(item.get("type") or "message")
    role = item.get("role")
    if role is not None:
        return LoggedMessage(
            value=item,
            text="\n".join(_texts(item.get("content"))),
            instead=f"{kind} of {role}",
            sender=str(role),
        )
    named = " ".join(str(item[name]) for name in ("name", "call_id", "id") if item.get(name))
    is_result = kind.endswith("_output")
    sender = _TOOL if is_result else _ASSISTANT
    return LoggedMessage(value=item, text="", instead=f"{kind} {named}".strip(), sender=sender)


def _texts(content: object) -> Iterator[str]:
    """Yield the texts of a message's content; images and files have none."""
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for part in cast("list[Mapping[str, Any]]", content):
            text = part.get("text") or part.get("refusal")
            if isinstance(text, str):
                yield text
