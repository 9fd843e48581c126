"""Memories and questions of one's own: the plainest format, for what no public data asks.

`memories.jsonl` holds `{id, text, kind?, at?, by?, thread?, tags?}`, `questions.jsonl` holds
`{id, question, gold?, category?}` with the ids of the memories that answer; without any there is
no answer. One store for all.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import Kind, MessageDetail
from commonbrain.model.memory import Draft, ThreadRef
from commonbrain_evals.retrieval.corpora import Corpus, DataSet, Question, ended
from commonbrain_evals.retrieval.data_files import UtcTime, named_files_in, read_json_lines
from commonbrain_evals.retrieval.study import TALKS

_EXPECTS: Final = "a folder with memories.jsonl and questions.jsonl."
_FILES: Final = ("memories.jsonl", "questions.jsonl")


@dataclass(frozen=True, slots=True, kw_only=True)
class _OwnMemory:
    id: str
    text: str
    kind: str | None = None
    at: UtcTime | None = None
    by: str | None = None
    thread: str | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _OwnQuestion:
    id: str
    question: str
    gold: tuple[str, ...] = ()
    category: str = "all"


def _read(files: Sequence[Path]) -> Iterator[Corpus]:
    memories, own_question = files
    own_memory = list(read_json_lines(_OwnMemory, memories))
    memory_ids = {one.id for one in own_memory}
    yield Corpus(
        name=memories.parent.name,
        drafts=lambda: map(_draft, own_memory),
        questions=tuple(
            _question(one, memory_ids=memory_ids, file=own_question.name)
            for one in read_json_lines(_OwnQuestion, own_question)
        ),
        ends_at=ended(one.at for one in own_memory) + timedelta(days=1),
    )


def _draft(own_memory: _OwnMemory) -> Draft:
    is_message = own_memory.kind == Kind.MESSAGE
    return Draft(
        kind=own_memory.kind,
        body=own_memory.text,
        source_ref=own_memory.id,
        occurred_at=own_memory.at,
        tags=own_memory.tags,
        people=(own_memory.by,) if own_memory.by and not is_message else (),
        thread=ThreadRef(key=own_memory.thread, subject=own_memory.thread)
        if own_memory.thread
        else None,
        detail=MessageDetail(sender=own_memory.by) if is_message else None,
    )


def _question(own_question: _OwnQuestion, *, memory_ids: set[str], file: str) -> Question:
    missing = sorted(set(own_question.gold) - memory_ids)
    if missing:
        raise InvalidInputError(
            f"{file}, {own_question.id[:40]}: there is no memory {missing[0][:40]!r}."
        )
    return Question(
        id=own_question.id,
        text=own_question.question,
        category=own_question.category,
        gold=dict.fromkeys(own_question.gold, 1),
        is_answerable=bool(own_question.gold),
    )


OWN: Final = DataSet(
    expects=_EXPECTS,
    files=lambda path: named_files_in(path, _FILES, expects=_EXPECTS),
    read=_read,
    recipes=TALKS,
)
