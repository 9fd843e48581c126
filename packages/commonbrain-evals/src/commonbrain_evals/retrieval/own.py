"""Memories and questions of one's own: the plainest format, for what no public data asks.

`memories.jsonl` holds `{id, text, kind?, at?, by?, thread?, tags?}`, `questions.jsonl` holds
`{id, question, gold?, category?}` with the ids of the memories that answer; without any there is
no answer. One store for all.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import Kind, MessageDetail
from commonbrain.model.memory import Draft, ThreadRef
from commonbrain_evals.retrieval.corpora import Corpus, DataSet, Question
from commonbrain_evals.retrieval.reading import lines
from commonbrain_evals.retrieval.recipes import TALKS
from commonbrain_evals.retrieval.talks import ended

_EXPECTS: Final = "a folder with memories.jsonl and questions.jsonl."
_FILES: Final = ("memories.jsonl", "questions.jsonl")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Noted:
    id: str
    text: str
    kind: str | None = None
    at: datetime | None = None
    by: str | None = None
    thread: str | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    id: str
    question: str
    gold: tuple[str, ...] = ()
    category: str = "all"


def _files(path: Path) -> Sequence[Path]:
    found = [path / name for name in _FILES]
    missing = [one.name for one in found if not one.is_file()]
    if missing:
        raise InvalidInputError(f"{path} has no {', '.join(missing)}.", hint=f"Give {_EXPECTS}")
    return found


def _read(files: Sequence[Path]) -> Iterator[Corpus]:
    memories, asked = files
    noted = list(lines(_Noted, memories))
    known = {one.id for one in noted}
    yield Corpus(
        name=memories.parent.name,
        drafts=lambda: map(_draft, noted),
        questions=tuple(
            _question(one, known=known, file=asked.name) for one in lines(_Asked, asked)
        ),
        ends_at=ended(_utc(one.at) for one in noted) + timedelta(days=1),
    )


def _draft(noted: _Noted) -> Draft:
    is_message = noted.kind == Kind.MESSAGE
    return Draft(
        kind=noted.kind,
        body=noted.text,
        source_ref=noted.id,
        occurred_at=_utc(noted.at),
        tags=noted.tags,
        people=(noted.by,) if noted.by and not is_message else (),
        thread=ThreadRef(key=noted.thread, subject=noted.thread) if noted.thread else None,
        detail=MessageDetail(sender=noted.by) if is_message else None,
    )


def _question(asked: _Asked, *, known: set[str], file: str) -> Question:
    missing = sorted(set(asked.gold) - known)
    if missing:
        raise InvalidInputError(f"{file}, {asked.id[:40]}: there is no memory {missing[0][:40]!r}.")
    return Question(
        id=asked.id,
        text=asked.question,
        category=asked.category,
        gold=dict.fromkeys(asked.gold, 1),
        is_answerable=bool(asked.gold),
    )


def _utc(time: datetime | None) -> datetime | None:
    """Read a time without a zone as UTC."""
    return time and (time if time.tzinfo else time.replace(tzinfo=UTC))


OWN: Final = DataSet(expects=_EXPECTS, files=_files, read=_read, recipes=TALKS)
