"""Exports of ChatGPT: each chat a thread, with the messages of its current branch.

`conversations.json`, or `conversations-000.json` and on in large exports, is a list of chats
`{conversation_id, title, create_time, current_node, mapping}`. `mapping` is a tree of nodes
`{id, message, parent, children}`; the branch that ChatGPT shows leads from `current_node` up to the
root. A message is `{id, author: {role}, create_time, recipient, content: {content_type, parts},
metadata}`. OpenAI does not publish the format; this follows the description in
https://github.com/mitkury/chatgpt-export-parser, `docs/chatgpt-data-export-format.md`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from commonbrain.transfer.importer import (
    Content,
    DetectedSource,
    Importer,
    ImportItem,
    Unreadable,
    file_found,
)
from commonbrain.transfer.importers.chats import (
    ASSISTANT,
    ATTACHMENTS,
    CONTEXT,
    REASONING,
    TOOL_CALLS,
    TOOL_RESULTS,
    USER,
    Chat,
    Tally,
    parse_time,
)
from commonbrain.transfer.importers.json_lines import as_list, as_object
from commonbrain.transfer.importers.markdown import links_outside
from commonbrain_import.exports import chats_of, members, pieces
from commonbrain_import.rows import Row, text_in

_BRANCHES: Final = "messages of other branches"
_TEXTS: Final = frozenset({"text", "multimodal_text"})
_REASONING: Final = frozenset({"thoughts", "reasoning_recap"})
_CITATION: Final = re.compile("\ue200[^\ue200\ue201]*\ue201")
"""ChatGPT marks its sources between these private characters; a reader sees nothing of them."""


class ChatGpt(Importer):
    """Reads the ZIP archive of an export, its folder, or one file with chats."""

    name = "chatgpt"
    purpose = "Export of ChatGPT: ZIP archive, folder or conversations.json"
    reads_zip = True

    def find(self, home: Path) -> Iterator[DetectedSource]:
        """Return archives in the folder for downloads that are named like an export."""
        pattern = "*-20[0-9][0-9]-[01][0-9]-[0-3][0-9]-[0-9][0-9]-[0-9][0-9]-[0-9][0-9]-*.zip"
        for file in sorted((home / "Downloads").glob(pattern)):
            if not file.name.startswith("data-"):
                yield from file_found(file)

    def read(self, source: Path) -> Iterator[ImportItem]:
        """Yield the messages chat by chat, in the order of the export.

        Raises:
            InvalidInputError: the source is no export of ChatGPT; raised before the first piece.

        """
        tally = Tally()
        reader = _Reader(tally=tally)
        with members(source) as files:
            chats = chats_of(files, source, has="mapping", service="ChatGPT")
            yield from links_outside(source, "*.json")
            yield from pieces([(one, reader.read) for one in chats], tally=tally)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """Makes messages of chats."""

    tally: Tally

    def read(self, fields: Row) -> Iterator[Content]:
        id_ = text_in(fields, "conversation_id", "id")
        mapping = as_object(fields.get("mapping"))
        if not id_ or mapping is None:
            yield Unreadable(where=f"chat {id_}".strip(), reason="It has no id or no messages.")
            return
        chat = Chat(
            format="chatgpt",
            id=id_,
            title=text_in(fields, "title"),
            begun_at=parse_time(fields.get("create_time")),
        )
        branch = _branch(mapping, fields.get("current_node"))
        for key, message in branch.items():
            yield from self._message(message, chat, place=key)
        others = (one for key, one in _messages(mapping) if key not in branch)
        self.tally[_BRANCHES] += sum(_speaker(one) is not None for one in others)

    def _message(self, message: Row, chat: Chat, *, place: str) -> Iterator[Content]:
        speaker = _speaker(message)
        if speaker is None:
            self.tally[_sort(message)] += 1
            return
        text = self._text(as_object(message.get("content")) or {})
        if not text:
            return
        metadata = as_object(message.get("metadata")) or {}
        model = metadata.get("model_slug")
        yield from chat.say(
            text,
            sender=speaker,
            id_=str(message.get("id") or place),
            time=message.get("create_time"),
            author=model if isinstance(model, str) and speaker == ASSISTANT else None,
        )

    def _text(self, content: Row) -> str:
        """Return the text of a message, and of recordings in it; count its other parts."""
        texts: list[str] = []
        for part in as_list(content.get("parts")) or (content.get("text"),):
            fields = as_object(part)
            text = fields.get("text") if fields is not None else part
            if isinstance(text, str):
                texts.append(_CITATION.sub("", text).strip())
            elif fields is not None:
                self.tally[ATTACHMENTS] += 1
        return "\n".join(filter(None, texts))


def _messages(mapping: Row) -> Iterator[tuple[str, Row]]:
    for key, node in mapping.items():
        message = as_object((as_object(node) or {}).get("message"))
        if message is not None:
            yield key, message


def _branch(mapping: Row, current: object) -> Mapping[str, Row]:
    """Return the messages from the root to the current node, by node.

    Without a current node, it is the end of the branch with the latest message.
    """
    messages = dict(_messages(mapping))
    key: object = (
        current
        if isinstance(current, str) and current in mapping
        else _end(mapping, _latest(messages))
    )
    path: dict[str, None] = {}
    while isinstance(key, str) and key in mapping and key not in path:
        path[key] = None
        key = (as_object(mapping[key]) or {}).get("parent")
    return {one: messages[one] for one in reversed(path) if one in messages}


def _latest(messages: Mapping[str, Row]) -> str | None:
    times = {key: parse_time(one.get("create_time")) for key, one in messages.items()}
    dated = [(time, key) for key, time in times.items() if time is not None]
    return max(dated)[1] if dated else next(reversed(list(messages)), None)


def _end(mapping: Row, key: str | None) -> str | None:
    """Return the last node below a node, by way of the last children."""
    for _ in mapping:
        children = as_list((as_object(mapping.get(key or "")) or {}).get("children"))
        last = children[-1] if children else None
        if not isinstance(last, str) or last not in mapping:
            break
        key = last
    return key


def _speaker(message: Row) -> str | None:
    """Return who says a message that a reader of the chat sees; None of others."""
    role = (as_object(message.get("author")) or {}).get("role")
    content = as_object(message.get("content")) or {}
    metadata = as_object(message.get("metadata")) or {}
    is_shown = not metadata.get("is_visually_hidden_from_conversation")
    is_said = (
        str(content.get("content_type")) in _TEXTS and message.get("recipient", "all") == "all"
    )
    has_words = any(_is_filled(one) for one in as_list(content.get("parts")) or ())
    is_message = is_shown and is_said and has_words
    return role if isinstance(role, str) and role in {USER, ASSISTANT} and is_message else None


def _is_filled(part: object) -> bool:
    return bool(part.strip()) if isinstance(part, str) else part is not None


def _sort(message: Row) -> str:
    """Name what is left out with a message that nobody says."""
    role = (as_object(message.get("author")) or {}).get("role")
    content = as_object(message.get("content")) or {}
    if role == "tool":
        return TOOL_RESULTS
    if str(content.get("content_type")) in _REASONING:
        return REASONING
    return TOOL_CALLS if message.get("recipient", "all") != "all" else CONTEXT


IMPORTER: Final = ChatGpt()
