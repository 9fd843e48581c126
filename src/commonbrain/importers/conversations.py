"""Conversations in JSON: a turn becomes a message, a session its thread.

Two shapes are told apart by what they hold, each as a JSON list or as JSON Lines:

- plain turns `{speaker|role, text|content, time?, session?, id?}`, loose or in the list `turns` or
  `messages` of an object;
- samples in the shape of LoCoMo, `{sample_id, conversation: {speaker_a, speaker_b, session_1,
  session_1_date_time, ...}}`, of which only the conversation is read.

Of a list, one element is in memory at a time. A file in which one conversation follows another
numbers them: `chat`, `chat/2`, `chat/3`.
"""

import re
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from commonbrain.domain.errors import Invalid
from commonbrain.domain.memory import Draft
from commonbrain.importers.json_stream import LISTS, NotJson, Oversized, Record, records
from commonbrain.importers.sessions import Conversation
from commonbrain.importers.turns import as_list, as_object, is_turn, moment, turn_of
from commonbrain.ports.importing import Piece, Unreadable

_SESSION: Final = re.compile(r"session_(\d{1,6})")
_SHAPES: Final = (
    "Give a list of turns with speaker and text, or of samples with sample_id and conversation."
)


@dataclass(frozen=True, slots=True)
class ConversationFile:
    """Reads conversations from one JSON file."""

    name: str = "conversations"

    def read(self, source: Path, project: str | None) -> Iterator[Piece]:
        """Give the turns in the order of the file.

        Raises:
            Invalid: the file is missing, empty, not JSON or of neither shape; before the first
                piece.

        """
        with _opened(source) as stream:
            bytes_total = max(source.stat().st_size, 1)
            for content in _contents(stream, source, project=project):
                yield Piece(content=content, progress=min(stream.tell() / bytes_total, 1.0))


def drafts_of(records: Iterable[Record], *, stem: str) -> Iterator[Draft | Unreadable]:
    """Give the turns of records as a file of this name that holds them would."""
    reader = _Reader(stem=stem, project=None, talks={})
    for number, record in enumerate(records, 1):
        yield from reader.take(record, number=number)


@contextmanager
def _opened(source: Path) -> Generator[BinaryIO, None, None]:
    try:
        stream = source.open("rb")
    except OSError as error:
        raise Invalid(
            f"{source} cannot be read: {error.strerror}.", hint="Name a JSON file."
        ) from error
    with stream:
        yield stream


def _contents(
    stream: BinaryIO, source: Path, *, project: str | None
) -> Iterator[Draft | Unreadable]:
    """Read record after record; what the first one is decides whether this is the format."""
    reader = _Reader(stem=source.stem, project=project, talks={})
    number = 0
    try:
        for number, record in enumerate(records(stream), 1):
            if number == 1 and not _is_known(record):
                raise Invalid(f"{source} does not hold conversations.", hint=_SHAPES)
            yield from reader.take(record, number=number)
    except NotJson as error:
        if not number:
            raise Invalid(f"{source} is not JSON: {error}.", hint=_SHAPES) from error
        yield Unreadable(
            where=f"{source.name}, after record {number}",
            reason=f"From here on it is not JSON ({error}); nothing after it was read.",
        )
    if not number:
        raise Invalid(f"{source} holds no conversation.", hint=_SHAPES)


def _is_known(record: Record) -> bool:
    fields = as_object(record.value)
    if fields is None:
        return False
    return is_turn(fields) or as_object(fields.get("conversation")) is not None or _turns(fields)


def _turns(fields: Mapping[str, object]) -> bool:
    return any(as_list(fields.get(key)) is not None for key in LISTS)


@dataclass(slots=True, kw_only=True)
class _Reader:
    """Turns records into drafts, and remembers the conversations that it is in the middle of."""

    stem: str
    project: str | None
    talks: dict[int, Conversation]
    """The plain conversations by number: the one that all loose turns share, or the current."""
    held: int = 0
    """How many conversations came whole, as elements of a list."""

    def take(self, record: Record, *, number: int) -> Iterator[Draft | Unreadable]:
        fields = as_object(record.value)
        talk = as_object(fields.get("conversation")) if fields else None
        if fields is None:
            yield Unreadable(where=f"{self.stem}#{number}", reason=_why_not(record.value))
        elif talk is not None:
            yield from self._sample(fields, talk, number=number)
        elif is_turn(fields):
            yield from self._plain(record.conversation).say(turn_of(fields))
        elif _turns(fields):
            self.held += 1
            for value in (each for key in LISTS for each in as_list(fields.get(key)) or ()):
                yield from _said(self._plain(self.held), value)
        else:
            yield Unreadable(where=f"{self.stem}#{number}", reason="It has no text or content.")

    def _plain(self, number: int) -> Conversation:
        """Give the conversation of a number; the one before it is over and let go."""
        if number not in self.talks:
            name = self.stem if number <= 1 else f"{self.stem}/{number}"
            self.talks.clear()
            self.talks[number] = Conversation(
                name=name, title=f"Conversation {name}", project=self.project
            )
        return self.talks[number]

    def _sample(
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
            conversation.open(session, at=moment(time), time=time)
            turns = as_list(talk[session])
            if turns is None:
                yield Unreadable(where=f"{name}#{session}", reason="It is not a list of turns.")
            for value in turns or ():
                yield from _said(conversation, value, session=session)


def _said(
    conversation: Conversation, value: object, *, session: str | None = None
) -> Iterator[Draft | Unreadable]:
    fields = as_object(value)
    if fields is None:
        where = f"{conversation.name}#{session or ''}"
        yield Unreadable(where=where, reason=_why_not(value))
    else:
        yield from conversation.say(turn_of(fields), session=session)


def _session_number(key: str) -> int:
    return int(key.removeprefix("session_"))


def _why_not(value: object) -> str:
    if isinstance(value, Oversized):
        return f"It has {value.values:,} values, too many to hold."
    return f"It is not a turn: {str(value)[:80]!r}."
