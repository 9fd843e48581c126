"""Messages of chats with an assistant, as the importers of transcripts and exports share them.

What a person and the assistant said becomes messages of one thread; what programs added (calls of
tools and their results, reasoning, context) is counted, so that the report lists what was left out.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from commonbrain.model.kinds import Kind, MessageDetail
from commonbrain.model.memory import Draft, ThreadRef
from commonbrain.transfer.importer import Content, Omitted, Piece
from commonbrain.transfer.importers.conversations import Session, parse_time, split_to_fit
from commonbrain.transfer.importers.markdown import name, source_reference

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


def title_of(text: str) -> str:
    """Return the first line of a text that has words, shortened at a word."""
    line = next((" ".join(line.split()) for line in text.splitlines() if line.strip()), "")
    if len(line) <= _TITLE_CHARS:
        return line
    return line[:_TITLE_CHARS].rsplit(" ", 1)[0] + " ..."


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
    _session: Session | None = None

    def say(
        self, text: str, *, sender: str, id_: str, time: object, author: str | None = None
    ) -> Iterator[Draft]:
        """Make a message, or its parts if it is too long for one memory."""
        if self._session is None:
            subject = self.title or title_of(text) or self.id
            thread = ThreadRef(
                key=source_reference(self.format, self.id), subject=source_reference(subject, "")
            )
            self._session = Session(thread=thread, clock=self.begun_at)
        yield from split_to_fit(
            Draft(
                kind=Kind.MESSAGE,
                body=text,
                project=name(self.project) if self.project else None,
                source_ref=source_reference(self.format, id_),
                occurred_at=self._session.next_time(parse_time(time)),
                thread=self._session.thread,
                author=name(author) if author else None,
                detail=MessageDetail(sender=sender),
            )
        )


@dataclass(slots=True)
class Tally:
    """Counts what is left out."""

    counts: Counter[str] = field(default_factory=Counter[str])

    def add(self, counts: Mapping[str, int]) -> None:
        """Count each thing so many times."""
        self.counts.update(counts)

    def one(self, what: str) -> None:
        """Count a thing once."""
        self.counts[what] += 1

    def pieces(self) -> Iterator[Piece]:
        """Return what was left out, in the order of its name, as the end of the source."""
        for what, count in sorted(self.counts.items()):
            if count:
                yield Piece(content=Omitted(what=what, count=count), progress=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a source of several files is read."""

    bytes_total: int
    bytes_before: int = 0

    def piece(self, content: Content, *, bytes_read: int) -> Piece:
        """Return a piece that ends after so many bytes of the present file."""
        share = (self.bytes_before + bytes_read) / max(self.bytes_total, 1)
        return Piece(content=content, progress=min(share, 1.0))
