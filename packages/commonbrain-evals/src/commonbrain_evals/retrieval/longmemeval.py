"""LongMemEval: questions that each bring their own history of chats with an assistant.

Wu et al., 2025, https://github.com/xiaowu0162/LongMemEval. One store a question; turns that hold
the evidence bear `has_answer`; an id that ends in `_abs` asks for what was never told.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from commonbrain.model.errors import InvalidInputError
from commonbrain.transfer.importer import source_reference
from commonbrain_evals.retrieval.corpora import Corpus, DataSet, Question, corpus_of
from commonbrain_evals.retrieval.data_files import read_json_list, require_file
from commonbrain_evals.retrieval.study import CHATS

_EXPECTS: Final = (
    "a JSON list of questions, each with question_id, question_type, question, question_date, "
    "haystack_session_ids, haystack_dates and haystack_sessions."
)
_DATES: Final = ("%Y/%m/%d (%a) %H:%M", "%Y/%m/%d %H:%M")
_ABSTENTION: Final = "_abs"


@dataclass(frozen=True, slots=True, kw_only=True)
class _ChatTurn:
    role: str
    content: str
    has_answer: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    question_id: str
    question_type: str
    question: str
    question_date: str
    haystack_session_ids: list[str]
    haystack_dates: list[str]
    haystack_sessions: list[list[_ChatTurn]]


def _read(files: Sequence[Path]) -> Iterator[Corpus]:
    for path in files:
        for record_read in read_json_list(_Record, path):
            yield _corpus(record_read)


def _corpus(record_read: _Record) -> Corpus:
    name = record_read.question_id
    sessions, dates = record_read.haystack_session_ids, record_read.haystack_dates
    if not len(sessions) == len(dates) == len(record_read.haystack_sessions):
        raise InvalidInputError(
            f"{name}: haystack sessions, their ids and their dates differ in number."
        )
    is_answerable = not name.endswith(_ABSTENTION)
    at = _time(record_read.question_date, where=name)
    dates_read = list(zip(sessions, dates, record_read.haystack_sessions, strict=True))
    gold = {
        source_reference(name, f"{session}:{number}"): 1
        for session, _, turns in dates_read
        for number, turn in enumerate(turns, 1)
        if turn.has_answer
    }
    records = [
        {
            "role": turn.role,
            "content": turn.content,
            "id": f"{session}:{number}",
            "session": session,
            "time": _time(date, where=f"{name}, {session}").isoformat(),
        }
        for session, date, turns in dates_read
        for number, turn in enumerate(turns, 1)
    ]
    question = Question(
        id=name,
        text=record_read.question,
        category=record_read.question_type if is_answerable else "abstention",
        gold=gold if is_answerable else {},
        is_answerable=is_answerable,
        asked_at=at,
    )
    return corpus_of(name, records, questions=[question], ends_at=at)


def _time(text: str, *, where: str) -> datetime:
    for form in _DATES:
        try:
            return datetime.strptime(text, form).replace(tzinfo=UTC)
        except ValueError:
            continue
    raise InvalidInputError(f"{where}: a date is not written like 2023/05/20 (Sat) 02:21.")


LONGMEMEVAL: Final = DataSet(
    expects=_EXPECTS,
    files=lambda path: require_file(path, expects=_EXPECTS),
    read=_read,
    recipes=CHATS,
)
