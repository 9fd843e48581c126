"""A LlamaIndex memory block.

Its interface: https://github.com/run-llama/llama_index, `llama_index/core/memory/memory.py`.
"""

# The library may not be installed where types are checked, so that its types are unknown there.
# pyright: reportMissingImports=false, reportUntypedBaseClass=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from pydantic import Field

from commonbrain.client import Brain
from commonbrain.extras import extra_missing
from commonbrain.model.limits import QUERY_CHARS_MAX
from commonbrain.model.recall_result import ResultStatus
from commonbrain_adapters.message_log import LoggedMessage, MessageLog

try:
    from llama_index.core.base.llms.types import ChatMessage
    from llama_index.core.memory import BaseMemoryBlock
except ImportError as error:
    raise extra_missing("llama_index", extra="llamaindex") from error

_NO_SESSION: Final = "default"
_SESSION_KEY: Final = "session_id"
"""Where LlamaIndex writes the session into a message that it puts into a block."""


class CommonbrainMemoryBlock(BaseMemoryBlock[str]):  # pyright: ignore[reportGeneralTypeIssues]
    """Recalls what the latest messages are about, and stores what leaves the short-term memory.

    A session recalls its own messages; with `across_sessions`, it recalls all memories of the
    brain, in its project. Messages without text are left out. Storing raises `RejectedError` if a
    message holds a secret.
    """

    name: str = "RecalledMemories"
    brain: Brain = Field(exclude=True)
    """Where messages are stored, with the project of the brain."""
    across_sessions: bool = False
    max_items: int = 5
    """The most memories in one answer, 1 to 100."""
    max_tokens: int = 700
    """The most tokens of one answer, 64 to 32,000."""
    context_messages: int = 3
    """How many of the latest messages are the question."""

    async def _aget(
        self,
        messages: list[ChatMessage] | None = None,
        session_id: str | None = None,
        **_: Any,  # noqa: ANN401 the interface of blocks
    ) -> str:
        """Return the memories that answer the latest messages, quoted; empty if none does."""
        latest = [_text_of(message) for message in (messages or [])[-self.context_messages :]]
        query = "\n".join(filter(None, latest))[-QUERY_CHARS_MAX:].strip()
        if not query:
            return ""
        return await asyncio.to_thread(self._recall, query, session_id)

    async def _aput(self, messages: list[ChatMessage]) -> None:
        """Store messages at the end of their sessions."""
        by_session: dict[str, list[LoggedMessage]] = {}
        for message in messages:
            text = _text_of(message)
            if text.strip():
                session = str(message.additional_kwargs.get(_SESSION_KEY) or _NO_SESSION)
                role = str(message.role.value)
                logged = LoggedMessage(value={"role": role, "text": text}, text=text, sender=role)
                by_session.setdefault(session, []).append(logged)
        for session, logged_messages in by_session.items():
            await asyncio.to_thread(self._append, session, logged_messages)

    def _recall(self, query: str, session_id: str | None) -> str:
        log = self._log(session_id or _NO_SESSION)
        answer = self.brain.recall(
            query,
            tags=() if self.across_sessions else (log.tag,),
            project=self.brain.caller.project,
            max_items=self.max_items,
            max_tokens=self.max_tokens,
        )
        return answer.evidence if answer.verdict is ResultStatus.FOUND else ""

    def _append(self, session_id: str, messages: Sequence[LoggedMessage]) -> None:
        self._log(session_id).append(messages)

    def _log(self, session_id: str) -> MessageLog:
        return MessageLog(self.brain.as_model(), "llamaindex", (session_id,))


def _text_of(message: ChatMessage) -> str:
    return str(message.content or "")
