"""Letta: agent files (`.af`), with the memory blocks and the messages of one agent or several.

A memory block becomes a fact, or an event if it is too long for one; a message of a person or of
the agent a message in the thread of its agent; an archival passage a fact. What an agent runs on
stays behind: its tools, settings, and the results of tools. The format is `AgentFileSchema` (letta
0.16, letta/schemas/agent_file.py) and the older one with `core_memory` (letta/serialize_schemas/
pydantic_agent_schema.py). Neither has archival passages; a list `passages` of the API is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from commonbrain.model.kinds import Kind, MessageDetail
from commonbrain.model.memory import Draft, ThreadRef
from commonbrain.text.classification import classify
from commonbrain.transfer.importer import (
    Content,
    Importer,
    ImportItem,
    name_or_none,
    source_reference,
)
from commonbrain.transfer.importers.chats import Tally
from commonbrain.transfer.importers.json_lines import as_list, as_object
from commonbrain_import.graphs import about
from commonbrain_import.json_files import Element, read_elements
from commonbrain_import.rows import Row, json_in, names_in, text_in, time_in

_HINT: Final = "Give an agent file (.af) that Letta exported."
_BLOCKS: Final = frozenset({"blocks", "core_memory"})
_PASSAGES: Final = frozenset({"passages", "archival_memory", "archival_passages"})
_KNOWN: Final = (
    _BLOCKS | _PASSAGES | {"agents", "messages", "agent_type", "in_context_message_indices"}
)
_SPOKEN: Final = frozenset({"user", "assistant"})
_SEND: Final = "send_message"
"""The tool by which an older agent answers; its argument is the answer."""
_LEFT: Final = frozenset({"tools", "mcp_servers", "skills", "sources", "files", "groups"})


class LettaAgentFile(Importer):
    """Reads one agent file."""

    name = "letta"
    purpose = "Letta's agent file (.af): memory blocks and messages"
    places = ("Downloads/*.af",)

    def read(self, source: Path) -> Iterator[ImportItem]:
        """Yield blocks, messages and passages in the order of the file.

        Raises:
            InvalidInputError: the file is missing, not JSON, or no agent file; raised before the
                first piece.

        """
        reader = _Reader(stem=source.stem)
        yield from read_elements(
            source,
            reader.read,
            shows_format=lambda element: element.key in _KNOWN,
            what="agent file",
            hint=_HINT,
        )
        yield from reader.omitted.pieces()


@dataclass(slots=True, kw_only=True)
class _Reader:
    """Makes drafts, and counts what is left out."""

    stem: str
    omitted: Tally = field(default_factory=Tally)

    def read(self, element: Element) -> Iterator[Content]:
        fields = as_object(element.value) if element.is_in_list else None
        if element.key in _LEFT and element.is_in_list:
            self.omitted[element.key.replace("_", " ")] += 1
        elif fields is None:
            return
        elif element.key == "agents":
            yield from self._agent(fields)
        elif element.key == "messages":
            yield from self._message(fields, agent=self.stem, number=element.number)
        elif element.key in _BLOCKS:
            yield from self._block(fields, number=element.number)
        elif element.key in _PASSAGES:
            yield from self._passage(fields, number=element.number)

    def _agent(self, agent: Row) -> Iterator[Content]:
        name = text_in(agent, "name", "id") or self.stem
        for number, one in enumerate(as_list(agent.get("messages")) or (), 1):
            yield from self._message(as_object(one) or {}, agent=name, number=number)
        for number, one in enumerate(as_list(agent.get("memory_blocks")) or (), 1):
            yield from self._block(as_object(one) or {}, number=number, agent=name)
        self.omitted["system prompts"] += bool(text_in(agent, "system"))

    def _block(self, block: Row, *, number: int, agent: str = "") -> Iterator[Content]:
        label, body = text_in(block, "label"), text_in(block, "value")
        id_ = text_in(block, "id") or f"{agent}/{label or number}".strip("/")
        if not body:
            self.omitted["empty memory blocks"] += 1
            return
        yield Draft(
            body=about(label, body) if label else body,
            kind=Kind.FACT,
            label="memory block",
            tags=names_in([label]),
            source_ref=self._reference(f"block/{id_}"),
            occurred_at=time_in(block, "updated_at", "created_at"),
        )

    def _passage(self, passage: Row, *, number: int) -> Iterator[Content]:
        body = text_in(passage, "text")
        reference = self._reference(f"passage/{text_in(passage, 'id') or number}")
        self.omitted["vectors"] += bool(passage.get("embedding"))
        yield Draft(
            body=body,
            kind=classify(body),
            tags=names_in(passage.get("tags")),
            source_ref=reference,
            occurred_at=time_in(passage, "created_at"),
        )

    def _message(self, message: Row, *, agent: str, number: int) -> Iterator[Content]:
        role = text_in(message, "role")
        texts = [*_spoken(message), *_sent(message)] if role in _SPOKEN else []
        if not any(texts):
            what = "messages of the system and of tools" if role not in _SPOKEN else "tool calls"
            self.omitted[what] += 1
            return
        id_ = text_in(message, "id") or f"{agent}/{number}"
        sender = text_in(message, "name") or (agent if role == "assistant" else role)
        key = self._reference(f"agent/{agent}")
        yield Draft(
            body="\n".join(texts),
            kind=Kind.MESSAGE,
            source_ref=self._reference(f"message/{id_}"),
            occurred_at=time_in(message, "created_at"),
            thread=ThreadRef(key=key, subject=source_reference(f"Letta agent {agent}", "")),
            detail=MessageDetail(sender=name_or_none(sender)),
        )

    def _reference(self, place: str) -> str:
        return source_reference(f"letta/{self.stem}", place)


def _spoken(message: Row) -> Iterator[str]:
    """Yield the texts of a message; an older agent gets its user's words as JSON."""
    content = message.get("content")
    parts = [content] if isinstance(content, str) else as_list(content) or ()
    for part in parts:
        fields = as_object(part)
        text = part if isinstance(part, str) else text_in(fields or {}, "text")
        yield from filter(None, [_unwrapped(text.strip())])


def _unwrapped(text: str) -> str:
    """Return the message in `{"type": "user_message", "message": ...}`; events have none."""
    fields = as_object(json_in({"text": text}, "text")) if text.startswith("{") else None
    if fields is None or "type" not in fields:
        return text
    return text_in(fields, "message") if fields["type"] == "user_message" else ""


def _sent(message: Row) -> Iterator[str]:
    for call in as_list(message.get("tool_calls")) or ():
        function = as_object((as_object(call) or {}).get("function")) or {}
        if function.get("name") == _SEND:
            given = as_object(json_in(function, "arguments")) or {}
            yield from filter(None, [text_in(given, "message")])


IMPORTER: Final = LettaAgentFile()
