"""Exports of Claude.ai: each chat a thread; memories and projects become notes.

`conversations.json` is a list of chats `{uuid, name, created_at, chat_messages}`; a message is
`{uuid, sender, created_at, text, content, attachments, files}`, where `content` has the blocks of
the API and `text` all of their text. `memories.json` holds `{conversations_memory,
project_memories: {<uuid of the project>: text}}` in Markdown, `projects.json` or
`projects/<uuid>.json` the projects `{uuid, name, description, prompt_template, docs: [{filename,
content}]}`. Anthropic does not publish the format; this follows readers of it in public
repositories, such as https://github.com/socketteer/Claude-Conversation-Exporter.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from commonbrain.model.memory import Draft
from commonbrain.transfer.importer import (
    Content,
    Importer,
    ImportItem,
    Unreadable,
    name_or_none,
    source_reference,
)
from commonbrain.transfer.importers.chats import (
    ASSISTANT,
    ATTACHMENTS,
    REASONING,
    TOOL_CALLS,
    TOOL_RESULTS,
    USER,
    Chat,
    Tally,
    parse_time,
)
from commonbrain.transfer.importers.json_lines import as_list, as_object
from commonbrain.transfer.importers.markdown import drafts_of_text, links_outside
from commonbrain_import.exports import ExportFile, chats_in, chats_of, members, pieces
from commonbrain_import.rows import Row, text_in

_FORMAT: Final = "claude-ai"
_SENDERS: Final = {"human": USER, "assistant": ASSISTANT}
_BLOCKS: Final = {
    "thinking": REASONING,
    "redacted_thinking": REASONING,
    "tool_use": TOOL_CALLS,
    "tool_result": TOOL_RESULTS,
}
_CONFIDENCE: Final = 0.7
"""Of what the service or the user noted: as notes in Markdown."""
_NOTES: Final = (".md", ".markdown", ".txt")


class ClaudeAi(Importer):
    """Reads the ZIP archive of an export, its folder, or conversations.json alone."""

    name = _FORMAT
    purpose = "Export of Claude.ai: ZIP archive, folder or conversations.json"
    reads_zip = True
    places = ("Downloads/data-*-batch-*.zip",)

    def read(self, source: Path) -> Iterator[ImportItem]:
        """Yield memories and projects, then the messages chat by chat.

        Raises:
            InvalidInputError: the source is no export of Claude.ai; raised before the first piece.

        """
        tally = Tally()
        reader = _Reader(tally=tally)
        with members(source) as files:
            chats = chats_of(files, source, has="chat_messages", service="Claude.ai")
            yield from links_outside(source, "*.json")
            projects = [one for one in files if _is_named(one, "projects")]
            reader.name_projects(projects)
            memories = [one for one in files if _is_named(one, "memories")]
            read = [
                *((one, reader.read_memory) for one in memories),
                *((one, reader.read_project) for one in projects),
                *((one, reader.read_chat) for one in chats),
            ]
            yield from pieces(read, tally=tally)


def _is_named(member: ExportFile, what: str) -> bool:
    """Return whether it is `what.json`, or below a folder `what`."""
    *folders, file = member.name.split("/")
    return file == f"{what}.json" or what in folders[-1:]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """Makes messages of chats, and notes of memories and projects."""

    tally: Tally
    projects: dict[str, str] = field(default_factory=dict[str, str])
    """Names of the projects by their ids."""

    def name_projects(self, files: list[ExportFile]) -> None:
        for file in files:
            for fields, _ in chats_in(file):
                if not isinstance(fields, Unreadable):
                    self.projects[str(fields.get("uuid"))] = text_in(fields, "name")

    def read_memory(self, fields: Row) -> Iterator[Content]:
        yield from self._notes(text_in(fields, "conversations_memory"), "memory", project=None)
        memories = as_object(fields.get("project_memories")) or {}
        for id_ in memories:
            project, text = self.projects.get(id_) or id_, text_in(memories, id_)
            yield from self._notes(text, f"memory/{id_}", project=project)

    def read_project(self, fields: Row) -> Iterator[Content]:
        id_, project = str(fields.get("uuid")), text_in(fields, "name")
        time = fields.get("updated_at") or fields.get("created_at")
        for part in ("description", "prompt_template"):
            text, place = text_in(fields, part), f"project/{id_}/{part}"
            yield from self._notes(text, place, project=project, time=time)
        for doc in map(as_object, as_list(fields.get("docs")) or ()):
            file = text_in(doc, "filename") if doc else ""
            if doc is None or not file.lower().endswith(_NOTES):
                self.tally[ATTACHMENTS] += 1
                continue
            place = f"project/{id_}/{doc.get('uuid') or file}"
            time = doc.get("created_at")
            yield from self._notes(text_in(doc, "content"), place, project=project, time=time)

    def _notes(
        self, text: str, place: str, *, project: str | None, time: object = None
    ) -> Iterator[Content]:
        context_fields = Draft(
            body="",
            project=name_or_none(project),
            confidence=_CONFIDENCE,
            source_ref=source_reference(_FORMAT, place),
            occurred_at=parse_time(time),
        )
        yield from drafts_of_text(text, context_fields)

    def read_chat(self, fields: Row) -> Iterator[Content]:
        id_, messages = text_in(fields, "uuid"), as_list(fields.get("chat_messages"))
        if not id_ or messages is None:
            yield Unreadable(where=f"chat {id_}".strip(), reason="It has no id or no messages.")
            return
        owner = as_object(fields.get("project")) or {}
        chat = Chat(
            format=_FORMAT,
            id=id_,
            title=text_in(fields, "name"),
            project=text_in(owner, "name") or None,
            begun_at=parse_time(fields.get("created_at")),
        )
        for number, message in enumerate(map(as_object, messages), 1):
            place = f"{id_}:{number}"
            sender = _SENDERS.get(text_in(message, "sender")) if message else None
            if message is None or sender is None:
                yield Unreadable(where=f"chat {place}", reason="It is not a message of anybody.")
                continue
            text = self._message_text(message)
            if text:
                own = text_in(message, "uuid") or place
                time = message.get("created_at")
                yield from chat.say(text, sender=sender, id_=own, time=time)

    def _message_text(self, message: Row) -> str:
        """Return the text of a message and count its other parts.

        `text` replaces blocks that cannot be shown by a note, so the blocks come first.
        """
        for part in ("attachments", "files"):
            self.tally[ATTACHMENTS] += len(as_list(message.get(part)) or ())
        texts: list[str] = []
        for block in map(as_object, as_list(message.get("content")) or ()):
            sort = text_in(block, "type") if block else ""
            if block is not None and sort == "text":
                texts.append(text_in(block, "text"))
            else:
                self.tally[_BLOCKS.get(sort, ATTACHMENTS)] += 1
        return "\n".join(filter(None, texts)) or text_in(message, "text")


IMPORTER: Final = ClaudeAi()
