"""Data sets as corpora: texts to remember, and questions with the sources of their answers."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from commonbrain_import.conversations import drafts_of

from commonbrain.client import Identity
from commonbrain.model.memory import Draft
from commonbrain.transfer.importer import Importer, ImportItem, Unreadable

if TYPE_CHECKING:
    from commonbrain_evals.retrieval.eval_store import NoteStore
    from commonbrain_evals.retrieval.study import Recipe


class Form(StrEnum):
    """How the turns of conversations come into the store."""

    MESSAGES = "messages"
    """Imported, each a message of its session's thread."""
    EVENTS = "events"
    """Given to `remember` as "Name: text" at its time, with the kind event."""
    NOTES = "notes"
    """Given to plain `remember` as "Name: text" at its time; the words decide the kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question; `gold` names the sources that answer it, with how much they matter."""

    id: str
    text: str
    category: str
    gold: Mapping[str, int] = field(default_factory=dict[str, int])
    """Relevance by `source_ref`, above 0. Empty: it has no rank to measure."""
    is_answerable: bool = True
    """Whether the corpus has its answer; otherwise the right answer is none."""
    asked_at: datetime | None = None
    """When it is asked; by default when its corpus ends."""
    asker: Identity = field(default_factory=Identity)
    """Who asks it, if it matters."""
    not_first: tuple[str, ...] = ()
    """Sources that do not answer it and look like it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus(Importer):
    """What one store holds while its questions are asked; it is read like any import."""

    name: str
    drafts: Callable[[], Iterator[Draft | Unreadable]]
    questions: tuple[Question, ...]
    ends_at: datetime
    """When everything in it has been said."""
    live: "Callable[[NoteStore], Mapping[str, int]] | None" = None
    """Fills a store in place of an import, where that cannot; gives the memory of each source."""
    begins_at: datetime | None = None
    """When it begins, if it is remembered step by step."""
    session_of: Mapping[str, str] = field(default_factory=dict[str, str])
    """The session of a source whose thread is only a part of one."""
    purpose: str = "Texts of an evaluation"

    def read(self, source: Path) -> Iterator[ImportItem]:
        """Yield what is to be remembered, as importers do; the source has been read before."""
        del source
        for draft in self.drafts():
            yield ImportItem(content=draft, progress=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """One format of public data: what a path must hold, and how it is read."""

    expects: str
    files: Callable[[Path], Sequence[Path]]
    """The files that a path leads to, in their order; raises Invalid where one is missing."""
    read: Callable[[Sequence[Path]], Iterator[Corpus]]
    """The corpora, one at a time; raises Invalid naming the file and the place that is wrong."""
    recipes: "Mapping[str, Recipe]"
    """The study's for such data, by the name of each."""
    shipped: Path | None = None
    """Where the data is that comes with the package."""


UNDATED: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""When questions are asked about what says nothing of its time; any fixed moment would do."""


def ended(times: Iterable[datetime | None]) -> datetime:
    """Return the last of the times that could be read."""
    return max((time for time in times if time is not None), default=UNDATED)


def corpus_of(
    name: str,
    values: Sequence[object],
    *,
    questions: Iterable[Question],
    ends_at: datetime,
    session_of: Mapping[str, str] | None = None,
) -> Corpus:
    """Make a corpus of a conversation in a shape that the importer reads."""

    def drafts() -> Iterator[Draft | Unreadable]:
        return drafts_of(values, stem=name)

    return Corpus(
        name=name,
        drafts=drafts,
        questions=tuple(questions),
        ends_at=ends_at,
        session_of=session_of or {},
    )
