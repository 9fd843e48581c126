"""A memory service of Google's Agent Development Kit (ADK).

Its interface: https://github.com/google/adk-python, `google/adk/memory/base_memory_service.py`.
"""

# The library may not be installed where types are checked, so that its types are unknown there.
# pyright: reportMissingImports=false, reportUntypedBaseClass=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from commonbrain.client import Brain
from commonbrain.extras import package_missing
from commonbrain.model.scope import Scope
from commonbrain_adapters.message_log import LoggedMessage, MessageLog

try:
    from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
    from google.adk.memory.memory_entry import MemoryEntry
    from google.genai.types import Content, Part
except ImportError as error:
    raise package_missing("google-adk") from error

if TYPE_CHECKING:
    from google.adk.events.event import Event
    from google.adk.sessions.session import Session

_NAME: Final = "google-adk"
_MAX_ITEMS: Final = 10
"""As many as a search of ADK's own service in memory returns."""


class CommonbrainMemoryService(BaseMemoryService):
    """Keeps what users and agents say as memories of a brain; pass it to a `Runner`.

    Memories belong to one user of one app, in the project of the brain. Only texts of events are
    stored: calls of tools, files and thoughts are left out.
    """

    def __init__(
        self, brain: Brain, *, scope: Scope | str = Scope.TEAM, max_items: int = _MAX_ITEMS
    ) -> None:
        """Open the memory; nothing is stored yet.

        Args:
            brain: where memories are stored.
            scope: who else may recall them: team, or private to the agent of the brain.
            max_items: the most memories that a search returns, 1 to 100.

        """
        self._brain = brain.as_model()
        self._scope = Scope(scope)
        self._max_items = max_items

    async def add_session_to_memory(self, session: Session) -> None:
        """Store the events of a session that were not stored yet.

        Raises:
            RejectedError: an event holds a secret or is too large; the others are stored.

        """
        await self.add_events_to_memory(
            app_name=session.app_name,
            user_id=session.user_id,
            events=session.events,
            session_id=session.id,
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Store those of some events that were not stored yet; metadata is stored with each.

        Raises:
            RejectedError: an event holds a secret or is too large; the others are stored.

        """
        path = (app_name, user_id) if session_id is None else (app_name, user_id, session_id)
        metadata = dict(custom_metadata or {})
        messages = [_logged(entry) for event in events for entry in _entries(event, metadata)]
        await asyncio.to_thread(self._log(*path).append_missing, messages)

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Store entries exactly; one with the id and text of a stored one is left out.

        Raises:
            RejectedError: an entry holds a secret or is too large; the others are stored.

        """
        given = dict(custom_metadata or {})
        messages = [
            _logged(memory.model_copy(update={"custom_metadata": given | memory.custom_metadata}))
            for memory in memories
        ]
        await asyncio.to_thread(self._log(app_name, user_id).append_missing, messages)

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """Return the memories of a user that answer a query, best first."""
        if not query.strip():
            return SearchMemoryResponse()
        log = self._log(app_name, user_id)
        values = await asyncio.to_thread(log.search, query, max_items=self._max_items)
        memories = [MemoryEntry.model_validate({**value, "id": id_}) for id_, value in values]
        return SearchMemoryResponse(memories=memories)

    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Forget a memory by the id that a search returned; another user's stays.

        Raises:
            RejectedError: the agent of the brain may not forget it.

        """
        if memory_id:
            await asyncio.to_thread(self._log(app_name, user_id).forget, memory_id)

    def _log(self, *path: str) -> MessageLog:
        return MessageLog(self._brain, _NAME, path, self._scope)


def _entries(event: Event, metadata: dict[str, Any]) -> list[MemoryEntry]:
    """Return the entry of an event; none if nothing was said in it."""
    text = _text_of(event.content)
    if not text.strip():
        return []
    at = datetime.fromtimestamp(event.timestamp, UTC)
    content = Content(role=event.content.role, parts=[Part(text=text)])
    return [
        MemoryEntry(
            id=event.id or None,
            content=content,
            author=event.author,
            timestamp=at.isoformat(),
            custom_metadata=metadata,
        )
    ]


def _logged(entry: MemoryEntry) -> LoggedMessage:
    return LoggedMessage(
        value=entry.model_dump(mode="json", exclude={"id"}, exclude_none=True),
        text=_text_of(entry.content),
        sender=entry.author or entry.content.role or _NAME,
        key=entry.id,
        occurred_at=_time(entry.timestamp),
    )


def _text_of(content: Content | None) -> str:
    parts = (content.parts if content is not None else None) or []
    return "\n".join(part.text for part in parts if part.text and not part.thought)


def _time(timestamp: str | None) -> datetime | None:
    """Parse a time, which ADK writes in local time; None if it is in another format."""
    try:
        return datetime.fromisoformat(timestamp or "").astimezone(UTC)
    except ValueError:
        return None
