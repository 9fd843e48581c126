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
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Final

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import Kind, MessageDetail
from commonbrain.model.memory import Draft, ThreadRef
from commonbrain.transfer.importer import Found, Piece, Unreadable
from commonbrain.transfer.importers.chats import Session, parse_time, split_to_fit
from commonbrain.transfer.importers.json_lines import as_list, as_object
from commonbrain.transfer.importers.markdown import name, source_reference
from commonbrain_import.json_files import (
    BoundedJson,
    Events,
    NotJson,
    Oversized,
    build_value,
    open_json,
    parser_message,
    skip_byte_order_mark,
)

LISTS: Final = ("turns", "messages")
"""The keys under which an object holds the turns of one conversation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One element, and the number of the object that contains its list; 0 without one."""

    value: object
    conversation: int = 0


def records(stream: BinaryIO) -> Iterator[Record]:
    """Yield the elements of a list, of an object's list of turns, or of JSON Lines, in order.

    Raises:
        NotJson: the rest of the bytes is not JSON; everything before was yielded.

    """
    skip_byte_order_mark(stream)
    tokenizer: Any = import_module("ijson")  # It brings no types, and is not needed to start.
    # With `use_float` an integer past 64 bits would end the file; without it, reals are Decimal.
    events: Events = tokenizer.basic_parse(BoundedJson(stream), multiple_values=True)
    held = 0
    try:
        for event, value in events:
            if event == "start_array":
                yield from map(_loose, _elements(events))
            elif event == "start_map":
                held += 1
                yield from _object(events, number=held)
            else:
                yield _loose(value)
    except (tokenizer.JSONError, ValueError) as error:
        raise NotJson(parser_message(error)) from error


def _loose(value: object) -> Record:
    return Record(value=value)


def _elements(events: Events) -> Iterator[object]:
    """Yield the elements of the list that has just begun."""
    for event, value in events:
        if event == "end_array":
            return
        yield build_value(event, value, events=events)


def _object(events: Events, *, number: int) -> Iterator[Record]:
    """Yield the turns in an object one by one, or else the object itself."""
    rest: dict[str, object] = {}
    is_container = False
    for event, key in events:
        if event == "end_map":
            break
        event_of_value, value = next(events)
        if key in LISTS and event_of_value == "start_array":
            is_container = True
            yield from (Record(value=each, conversation=number) for each in _elements(events))
        else:
            rest[key] = build_value(event_of_value, value, events=events)
    if not is_container:
        yield Record(value=rest)


TEXT_FIELDS: Final = "%I:%M %p on %d %B, %Y"
"""How LoCoMo writes a time: `1:56 pm on 8 May, 2023`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One message of a speaker; `time` is as in the source."""

    text: str
    speaker: str | None = None
    id: str | None = None
    session: str | None = None
    time: object = None


def is_turn(value: object) -> bool:
    """Return whether a value has a field with the text of a turn."""
    fields = as_object(value)
    return fields is not None and ("text" in fields or "content" in fields)


def read_turn(fields: Mapping[str, object]) -> Turn:
    """Parse a turn; the caption of an image is marked as one."""
    caption_text = _text(fields.get("text")) or _text(fields.get("content"))
    caption = _text(fields.get("blip_caption"))
    shared = f"[shared a picture: {caption}]" if caption else ""
    return Turn(
        text="\n".join(line for line in (caption_text, shared) if line),
        speaker=_first_word(fields, "speaker", "role"),
        id=_first_word(fields, "dia_id", "id"),
        session=_first_word(fields, "session"),
        time=fields.get("time"),
    )


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


def _first_word(fields: Mapping[str, object], *names: str) -> str | None:
    """Return the first of these fields that is a string or a number, as a string."""
    values = (fields.get(name) for name in names)
    words = (str(value).strip() for value in values if isinstance(value, str | int | Decimal))
    return next((word for word in words if word), None)


@dataclass(slots=True, kw_only=True)
class Conversation:
    """Makes drafts of turns in order; their references begin with `name`."""

    name: str
    title: str
    project: str | None
    sessions: dict[str, Session] = field(default_factory=dict[str, Session])

    def open(self, key: str, *, at: datetime | None, time: object = None) -> Session:
        """Begin a session; `time` is shown as in the source if it cannot be parsed."""
        spoken = f"session {key.removeprefix('session_')}" if key else ""
        day = f"{at.day} {at:%B} {at.year}" if at else _verbatim_time(time)
        subject = ", ".join(part for part in (self.title, spoken, day) if part)
        thread = ThreadRef(
            key=source_reference(self.name, key), subject=source_reference(subject, "")
        )
        self.sessions[key] = Session(thread=thread, clock=at)
        return self.sessions[key]

    def add_turn(self, turn: Turn, *, session: str | None = None) -> Iterator[Draft | Unreadable]:
        """Make a draft of a turn, or return why there is none.

        A turn that is too long for one memory is split between its lines, with the same time and
        place. A time that cannot be parsed is kept in the text, where search finds it.
        """
        key = session or turn.session or ""
        at = parse_turn_time(turn.time)
        sitting = self.sessions.get(key) or self.open(key, at=at)
        sitting.turn_count += 1
        place = turn.id or ":".join(part for part in (key, str(sitting.turn_count)) if part)
        where = source_reference(self.name, place)
        occurred_at = sitting.next_time(at)
        unread = _verbatim_time(turn.time) if at is None else ""
        body = f"{turn.text}\n[said at: {unread}]" if unread and turn.text else turn.text
        if not body:
            yield Unreadable(where=where, reason="The turn has no text.")
            return
        draft = Draft(
            kind=Kind.MESSAGE,
            body=body,
            project=name(self.project) if self.project else None,
            source_ref=where,
            occurred_at=occurred_at,
            thread=sitting.thread,
            detail=MessageDetail(sender=name(turn.speaker) if turn.speaker else None),
        )
        yield from split_to_fit(draft)


def _verbatim_time(time: object) -> str:
    return "" if time is None else str(time).strip()


_SESSION: Final = re.compile(r"session_(\d{1,6})")
_SHAPES: Final = (
    "Give a list of turns with speaker and text, or of samples with sample_id and conversation."
)


@dataclass(frozen=True, slots=True)
class ConversationFile:
    """Reads conversations from one JSON file."""

    name: str = "conversations"
    purpose: str = "Conversations in JSON: turns with speaker and text"
    has_relations: bool = False

    def find(self, home: Path) -> Iterator[Found]:  # noqa: ARG002 they have no usual place
        """Return nothing: such files have no usual place."""
        return iter(())

    def read(self, source: Path, project: str | None) -> Iterator[Piece]:
        """Yield the turns in the order of the file.

        Raises:
            InvalidInputError: the file is missing, empty, not JSON or of neither format; raised
                before the first piece.

        """
        with open_json(source, hint="Name a JSON file.") as stream:
            bytes_total = max(source.stat().st_size, 1)
            for content in _read_contents(stream, source, project=project):
                yield Piece(content=content, progress=min(stream.tell() / bytes_total, 1.0))


def drafts_of(records: Iterable[Record], *, stem: str) -> Iterator[Draft | Unreadable]:
    """Yield the turns of records as if a file of this name contained them."""
    reader = _Reader(stem=stem, project=None, talks={})
    for number, record in enumerate(records, 1):
        yield from reader.take(record, number=number)


def _read_contents(
    stream: BinaryIO, source: Path, *, project: str | None
) -> Iterator[Draft | Unreadable]:
    """Read record by record; the first one decides whether this is the format."""
    reader = _Reader(stem=source.stem, project=project, talks={})
    number = 0
    try:
        for number, record in enumerate(records(stream), 1):
            if number == 1 and not _is_conversation_record(record):
                raise InvalidInputError(f"{source} does not hold conversations.", hint=_SHAPES)
            yield from reader.take(record, number=number)
    except NotJson as error:
        if not number:
            raise InvalidInputError(f"{source} is not JSON: {error}.", hint=_SHAPES) from error
        yield Unreadable(
            where=f"{source.name}, after record {number}",
            reason=f"From here on it is not JSON ({error}); nothing after it was read.",
        )
    if not number:
        raise InvalidInputError(f"{source} holds no conversation.", hint=_SHAPES)


def _is_conversation_record(record: Record) -> bool:
    fields = as_object(record.value)
    if fields is None:
        return False
    return is_turn(fields) or as_object(fields.get("conversation")) is not None or _turns(fields)


def _turns(fields: Mapping[str, object]) -> bool:
    return any(as_list(fields.get(key)) is not None for key in LISTS)


@dataclass(slots=True, kw_only=True)
class _Reader:
    """Converts records to drafts, and keeps the state of open conversations."""

    stem: str
    project: str | None
    talks: dict[int, Conversation]
    """Plain conversations by number: the one that all loose turns share, or the current one."""
    conversation_number: int = 0
    """The number of conversations that were elements of a list."""

    def take(self, record: Record, *, number: int) -> Iterator[Draft | Unreadable]:
        fields = as_object(record.value)
        talk = as_object(fields.get("conversation")) if fields else None
        if fields is None:
            yield Unreadable(
                where=f"{self.stem}#{number}", reason=_describe_rejection(record.value)
            )
        elif talk is not None:
            yield from self._read_sample(fields, talk, number=number)
        elif is_turn(fields):
            yield from self._plain_conversation(record.conversation).add_turn(read_turn(fields))
        elif _turns(fields):
            self.conversation_number += 1
            for value in (each for key in LISTS for each in as_list(fields.get(key)) or ()):
                yield from _add_turn(self._plain_conversation(self.conversation_number), value)
        else:
            yield Unreadable(where=f"{self.stem}#{number}", reason="It has no text or content.")

    def _plain_conversation(self, number: int) -> Conversation:
        """Return the conversation of a number; the previous one is complete and released."""
        if number not in self.talks:
            name = self.stem if number <= 1 else f"{self.stem}/{number}"
            self.talks.clear()
            self.talks[number] = Conversation(
                name=name, title=f"Conversation {name}", project=self.project
            )
        return self.talks[number]

    def _read_sample(
        self, fields: Mapping[str, object], talk: Mapping[str, object], *, number: int
    ) -> Iterator[Draft | Unreadable]:
        sample_id = fields.get("sample_id")
        name = str(sample_id) if sample_id not in {None, ""} else f"{self.stem}/{number}"
        speakers = [
            talk[key] for key in ("speaker_a", "speaker_b") if isinstance(talk.get(key), str)
        ]
        among = f" of {' and '.join(map(str, speakers))}" if speakers else f" {name}"
        conversation = Conversation(
            name=name, title=f"Conversation{among}", project=self.project or name
        )
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
                yield from _add_turn(conversation, value, session=session)


def _add_turn(
    conversation: Conversation, value: object, *, session: str | None = None
) -> Iterator[Draft | Unreadable]:
    fields = as_object(value)
    if fields is None:
        where = f"{conversation.name}#{session or ''}"
        yield Unreadable(where=where, reason=_describe_rejection(value))
    else:
        yield from conversation.add_turn(read_turn(fields), session=session)


def _session_number(key: str) -> int:
    return int(key.removeprefix("session_"))


def _describe_rejection(value: object) -> str:
    if isinstance(value, Oversized):
        return f"It has {value.values:,} values, too many to hold."
    return f"It is not a turn: {str(value)[:80]!r}."


IMPORTER: Final = ConversationFile()
