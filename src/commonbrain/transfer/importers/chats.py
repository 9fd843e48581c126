"""Messages of chats with an assistant, as the importers of transcripts and exports share them.

What a person and the assistant said becomes messages of one thread; what programs added (calls of
tools and their results, reasoning, context) is counted, so that the report lists what was left out.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import Kind, MessageDetail
from commonbrain.model.limits import TEXT_BYTES_MAX
from commonbrain.model.memory import Draft, ThreadRef
from commonbrain.model.timestamps import from_millis, parse_instant
from commonbrain.text.classification import own_lines
from commonbrain.transfer.importer import (
    ImportItem,
    OmittedContent,
    name_or_none,
    source_reference,
)
from commonbrain.transfer.importers.sections import split_text

USER: Final = "user"
"""The sender of what a person wrote: the sources seldom name them."""
ASSISTANT: Final = "assistant"
"""The sender of what the assistant wrote; the model is the author."""
TOOL_CALLS: Final = "tool calls"
TOOL_RESULTS: Final = "tool results"
REASONING: Final = "reasoning of the model"
CONTEXT: Final = "context added by the program"
ATTACHMENTS: Final = "images and attached files"
_TITLE_CHARS: Final = 100
"""Of a thread that is named by its first words: one line of a list."""

_MILLIS_FROM: Final = 100_000_000_000
"""A larger count is in milliseconds: in seconds it would be after the year 5138."""


def title_of(text: str) -> str:
    """Return the first line of a text that has words, shortened at a word."""
    line = next((" ".join(line.split()) for line in text.splitlines() if line.strip()), "")
    if len(line) <= _TITLE_CHARS:
        return line
    return line[:_TITLE_CHARS].rsplit(" ", 1)[0] + " ..."


def parse_time(time: object) -> datetime | None:
    """Parse ISO 8601, or seconds or milliseconds since 1970.

    A time without a zone is in UTC; None if there is no time or it cannot be parsed.
    """
    try:
        if isinstance(time, str):
            return parse_instant(time)
        if isinstance(time, int | float | Decimal) and not isinstance(time, bool):
            number = float(time)
            return from_millis(round(number if abs(number) >= _MILLIS_FROM else number * 1000))
    except (InvalidInputError, ValueError, OverflowError):
        return None
    return None


_BETWEEN_TURNS: Final = timedelta(seconds=1)
"""The delay between turns without a time of their own, which preserves their order."""


@dataclass(slots=True, kw_only=True)
class ChatSession:
    """A session: its thread, the number of turns so far, and the time of the next one."""

    thread: ThreadRef
    clock: datetime | None
    turn_count: int = 0

    def next_time(self, at: datetime | None) -> datetime | None:
        """Return the time of a turn that states `at`, and compute the next one."""
        now = at or self.clock
        try:
            self.clock = now + _BETWEEN_TURNS if now else None
        except OverflowError:
            self.clock = now
        return now


def split_to_fit(draft: Draft) -> Iterator[Draft]:
    """Return a draft, or its parts if it is too long for one memory."""
    if len(draft.body.encode("utf-8", "replace")) <= TEXT_BYTES_MAX:
        yield draft
        return
    own = own_lines(draft.body)
    for number, part in enumerate(split_text(draft.body), 1):
        yield replace(draft, body=part, part=number, own_lines=own)


@dataclass(slots=True, kw_only=True)
class Chat:
    """Makes messages of one chat; references begin with the name of its format."""

    format: str
    id: str
    title: str = ""
    """Empty: the first message gives it."""
    project: str | None = None
    begun_at: datetime | None = None
    """The time of a first message without one."""
    _session: ChatSession | None = None

    def say(
        self, text: str, *, sender: str, id_: str, time: object, author: str | None = None
    ) -> Iterator[Draft]:
        """Make a message, or its parts if it is too long for one memory."""
        if self._session is None:
            subject = self.title or title_of(text) or self.id
            thread = ThreadRef(
                key=source_reference(self.format, self.id), subject=source_reference(subject, "")
            )
            self._session = ChatSession(thread=thread, clock=self.begun_at)
        yield from split_to_fit(
            Draft(
                kind=Kind.MESSAGE,
                body=text,
                project=name_or_none(self.project),
                source_ref=source_reference(self.format, id_),
                occurred_at=self._session.next_time(parse_time(time)),
                thread=self._session.thread,
                author=name_or_none(author),
                detail=MessageDetail(sender=sender),
            )
        )


class Tally(Counter[str]):
    """Counts what is left out."""

    def pieces(self) -> Iterator[ImportItem]:
        """Return what was left out, in the order of its name, as the end of the source."""
        for what, count in sorted(self.items()):
            if count:
                yield ImportItem(content=OmittedContent(what=what, count=count), progress=1.0)
