"""Conversations in JSON: a turn becomes a message, a session its thread.

Two formats are detected by their content, each as a JSON list or as JSON Lines:

- plain turns `{speaker|role, text|content, time?, session?, id?}`, loose or in the list `turns` or
  `messages` of an object;
- samples in the format of LoCoMo, `{sample_id, conversation: {speaker_a, speaker_b, session_1,
  session_1_date_time, ...}}`, of which only the conversation is read.

Of a list, one element is in memory at a time. If a file contains several conversations, they are
numbered: `chat`, `chat/2`, `chat/3`.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from commonbrain.model.kinds import Kind, MessageDetail
from commonbrain.model.memory import Draft, ThreadRef
from commonbrain.transfer.importer import (
    Importer,
    ImportItem,
    Unreadable,
    name_or_none,
    source_reference,
)
from commonbrain.transfer.importers.chats import ChatSession, parse_time
from commonbrain.transfer.importers.json_lines import as_list, as_object
from commonbrain_import.json_files import (
    Element,
    Oversized,
    read_elements,
)
from commonbrain_import.rows import Row, fitted, text_in

LISTS: Final = ("turns", "messages")
"""The keys under which an object holds the turns of one conversation."""


TEXT_FIELDS: Final = "%I:%M %p on %d %B, %Y"
"""How LoCoMo writes a time: `1:56 pm on 8 May, 2023`."""


def is_turn(value: object) -> bool:
    """Return whether a value has a field with the text of a turn."""
    fields = as_object(value)
    return fields is not None and ("text" in fields or "content" in fields)


def _turn_text(fields: Row) -> str:
    """Return the text of a turn; the caption of an image is marked as one."""
    text = _text(fields.get("text")) or _text(fields.get("content"))
    caption = _text(fields.get("blip_caption"))
    shared = f"[shared a picture: {caption}]" if caption else ""
    return "\n".join(filter(None, (text, shared)))


def parse_turn_time(time: object) -> datetime | None:
    """Parse a time in LoCoMo's notation, or any other that `parse_time` reads."""
    try:
        return datetime.strptime(str(time).strip(), TEXT_FIELDS).replace(tzinfo=UTC)
    except ValueError:
        return parse_time(time)


def _text(value: object) -> str:
    """Return the text of a field, or of its list of parts; parts that are not text are named."""
    if isinstance(value, str):
        return value.strip()
    parts = as_list(value)
    return "\n".join(filter(None, map(_part_text, parts))) if parts else ""


def _part_text(part: object) -> str:
    fields = as_object(part)
    if fields is None:
        return _text(part)
    sort = fields.get("type")
    return _text(fields.get("text")) or (f"[{sort}]" if isinstance(sort, str) else "")


@dataclass(slots=True, kw_only=True)
class Conversation:
    """Makes drafts of turns in order; their references begin with `name`."""

    name: str
    title: str
    project: str | None = None
    sessions: dict[str, ChatSession] = field(default_factory=dict[str, ChatSession])

    def open(self, key: str, *, at: datetime | None, time: object = None) -> ChatSession:
        """Begin a session; `time` is shown as in the source if it cannot be parsed."""
        spoken = f"session {key.removeprefix('session_')}" if key else ""
        day = f"{at.day} {at:%B} {at.year}" if at else _verbatim_time(time)
        subject = ", ".join(part for part in (self.title, spoken, day) if part)
        thread = ThreadRef(
            key=source_reference(self.name, key), subject=source_reference(subject, "")
        )
        self.sessions[key] = ChatSession(thread=thread, clock=at)
        return self.sessions[key]

    def add_turn(self, turn: Row, *, session: str | None = None) -> Draft:
        """Make a draft of a turn; a time that cannot be parsed is kept in the text, to be found."""
        text, time = _turn_text(turn), turn.get("time")
        key = session or text_in(turn, "session")
        at = parse_turn_time(time)
        sitting = self.sessions.get(key) or self.open(key, at=at)
        sitting.turn_count += 1
        numbered = ":".join(filter(None, (key, str(sitting.turn_count))))
        place = text_in(turn, "dia_id", "id") or numbered
        unread = _verbatim_time(time) if at is None else ""
        return Draft(
            kind=Kind.MESSAGE,
            body=f"{text}\n[said at: {unread}]" if unread and text else text,
            project=name_or_none(self.project),
            source_ref=source_reference(self.name, place),
            occurred_at=sitting.next_time(at),
            thread=sitting.thread,
            detail=MessageDetail(sender=name_or_none(text_in(turn, "speaker", "role"))),
        )


def _verbatim_time(time: object) -> str:
    return "" if time is None else str(time).strip()


_SESSION: Final = re.compile(r"session_(\d{1,6})")
_SHAPES: Final = (
    "Give a list of turns with speaker and text, or of samples with sample_id and conversation."
)


class ConversationFile(Importer):
    """Reads conversations from one JSON file."""

    name = "conversations"
    purpose = "Conversations in JSON: turns with speaker and text"

    def read(self, source: Path) -> Iterator[ImportItem]:
        """Yield the turns in the order of the file.

        Raises:
            InvalidInputError: the file is missing, empty, not JSON or of neither format; raised
                before the first piece.

        """
        reader = _Reader(stem=source.stem)
        yield from read_elements(
            source,
            reader.take,
            hint=_SHAPES,
            what="file of conversations",
            shows_format=_is_conversation,
            lists=LISTS,
        )


def drafts_of(values: Iterable[object], *, stem: str) -> Iterator[Draft | Unreadable]:
    """Yield the turns of JSON values as if a file of this name contained them."""
    reader = _Reader(stem=stem)
    for value in values:
        turns = reader.take(Element(key="", value=value, is_in_list=True))
        yield from (one for one in fitted(turns) if isinstance(one, Draft | Unreadable))


def _is_conversation(element: Element) -> bool:
    fields = as_object(element.value)
    if fields is None:
        return False
    return is_turn(fields) or as_object(fields.get("conversation")) is not None or _turns(fields)


def _turns(fields: Row) -> bool:
    return any(as_list(fields.get(key)) is not None for key in LISTS)


@dataclass(slots=True, kw_only=True)
class _Reader:
    """Converts records to drafts, and keeps the state of open conversations."""

    stem: str
    talks: dict[int, Conversation] = field(default_factory=dict[int, Conversation])
    """Plain conversations by number: the one that all loose turns share, or the current one."""
    record_count: int = 0
    conversation_count: int = 0
    """The number of conversations that were elements of a list."""

    def take(self, element: Element) -> Iterator[Draft | Unreadable]:
        self.record_count += 1
        where = f"{self.stem}#{self.record_count}"
        fields = as_object(element.value)
        talk = as_object(fields.get("conversation")) if fields else None
        if fields is None:
            yield Unreadable(where=where, reason=_describe_rejection(element.value))
        elif talk is not None:
            yield from self._read_sample(fields, talk)
        elif is_turn(fields):
            yield self._plain_conversation(element.owner).add_turn(fields)
        elif _turns(fields):
            self.conversation_count += 1
            for value in (each for key in LISTS for each in as_list(fields.get(key)) or ()):
                yield _add_turn(self._plain_conversation(self.conversation_count), value)
        else:
            yield Unreadable(where=where, reason="It has no text or content.")

    def _plain_conversation(self, number: int) -> Conversation:
        """Return the conversation of a number; the previous one is complete and released."""
        if number not in self.talks:
            name = self.stem if number <= 1 else f"{self.stem}/{number}"
            self.talks.clear()
            self.talks[number] = Conversation(name=name, title=f"Conversation {name}")
        return self.talks[number]

    def _read_sample(self, fields: Row, talk: Row) -> Iterator[Draft | Unreadable]:
        sample_id = fields.get("sample_id")
        name = str(sample_id) if sample_id not in (None, "") else f"{self.stem}/{self.record_count}"
        speakers = [
            talk[key] for key in ("speaker_a", "speaker_b") if isinstance(talk.get(key), str)
        ]
        among = f" of {' and '.join(map(str, speakers))}" if speakers else f" {name}"
        conversation = Conversation(name=name, title=f"Conversation{among}", project=name)
        sessions = sorted(filter(_SESSION.fullmatch, talk), key=_session_number)
        if not sessions:
            yield Unreadable(where=name, reason="Its conversation has no session_1, session_2, ...")
        for session in sessions:
            time = talk.get(f"{session}_date_time")
            conversation.open(session, at=parse_turn_time(time), time=time)
            turns = as_list(talk[session])
            if turns is None:
                yield Unreadable(where=f"{name}#{session}", reason="It is not a list of turns.")
            for value in turns or ():
                yield _add_turn(conversation, value, session=session)


def _add_turn(
    conversation: Conversation, value: object, *, session: str | None = None
) -> Draft | Unreadable:
    fields = as_object(value)
    if fields is None:
        where = f"{conversation.name}#{session or ''}"
        return Unreadable(where=where, reason=_describe_rejection(value))
    return conversation.add_turn(fields, session=session)


def _session_number(key: str) -> int:
    return int(key.removeprefix("session_"))


def _describe_rejection(value: object) -> str:
    if isinstance(value, Oversized):
        return f"It has {value.values:,} values, too many to hold."
    return f"It is not a turn: {str(value)[:80]!r}."


IMPORTER: Final = ConversationFile()
