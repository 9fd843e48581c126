"""Conversations of public data sets, made into corpora by the importer for conversations."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from commonbrain_import.conversations import drafts_of

from commonbrain.model.memory import Draft
from commonbrain.transfer.importer import Unreadable
from commonbrain_evals.retrieval.corpora import Corpus, Question

UNDATED: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""When questions are asked about what says nothing of its time; any fixed moment would do."""


def ended(times: Iterable[datetime | None]) -> datetime:
    """Give the last of the times that could be read."""
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
