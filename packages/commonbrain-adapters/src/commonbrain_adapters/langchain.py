"""A LangChain chat history.

Its interface: https://github.com/langchain-ai/langchain, `langchain_core/chat_history.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from commonbrain.client import Brain
from commonbrain.extras import extra_missing
from commonbrain_adapters.message_log import LoggedMessage, MessageLog

try:
    from langchain_core.chat_history import BaseChatMessageHistory
    from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict
except ImportError as error:
    raise extra_missing("langchain_core", extra="langchain") from error

_SENDERS: Final = {"ai": "assistant", "human": "user"}
"""The roles as other programs name them; the others are the same."""


class CommonbrainChatHistory(BaseChatMessageHistory):
    """Keeps the messages of a session as memories of a brain, in order.

    Adding messages raises `RejectedError` if one holds a secret or is larger than 256 KiB; then
    none of the call is stored.
    """

    def __init__(self, brain: Brain, session_id: str) -> None:
        """Open the history of a session, which may be new."""
        self._log = MessageLog(brain.as_model(), "langchain", (session_id,))

    @property
    def messages(self) -> list[BaseMessage]:  # pyright: ignore[reportIncompatibleVariableOverride] histories override it so
        """The messages in order, each as it was added."""
        return messages_from_dict(self._log.read())

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages at the end."""
        self._log.append([_logged(message) for message in messages])

    def clear(self) -> None:
        """Forget the messages of the session."""
        self._log.clear()


def _logged(message: BaseMessage) -> LoggedMessage:
    sender = message.name or _SENDERS.get(message.type, message.type)
    return LoggedMessage(value=message_to_dict(message), text=str(message.text), sender=sender)
