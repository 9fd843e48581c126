"""BEAM: long chats with an assistant, with probing questions of ten abilities.

Tavakoli et al., 2025, https://github.com/mohammadtavakoli78/BEAM. One store a chat; the messages
of one exchange are a thread.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, cast

from commonbrain.model.errors import InvalidInputError
from commonbrain.transfer.importer import source_reference
from commonbrain_evals.retrieval.corpora import Corpus, DataSet, Question, corpus_of, ended
from commonbrain_evals.retrieval.data_files import files_in, read_json
from commonbrain_evals.retrieval.study import CHATS

_EXPECTS: Final = (
    "one chat, or a folder of chats, each a JSON object with chat and probing_questions."
)
_MARK: Final = re.compile(r"\s*->->\s*[\d,\s]*\Z")
"""What the makers of the data left at the end of a message."""
_DATE: Final = "%B-%d-%Y"
_ABSTENTION: Final = "abstention"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Message:
    role: str
    id: int
    content: str
    time_anchor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _TurnBatch:
    turns: list[list[_Message]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chat:
    chat: list[_TurnBatch]
    probing_questions: dict[str, list[dict[str, Any]]]


def _read(files: Sequence[Path]) -> Iterator[Corpus]:
    for path in files:
        yield _corpus(read_json(_Chat, path), name=path.stem, file=path.name)


def _corpus(chat: _Chat, *, name: str, file: str) -> Corpus:
    turns = list(_turns(chat, file=file))
    questions = [
        _question(question_fields, name=name, ability=ability, number=number)
        for ability, those in chat.probing_questions.items()
        for number, question_fields in enumerate(those)
    ]
    last = ended(turn["time"] for turn in turns)
    return corpus_of(
        name,
        # Times go through JSON's own types, as in any file that the importer reads.
        [
            {
                "turns": [
                    {**turn, "time": turn["time"] and turn["time"].isoformat()} for turn in turns
                ]
            }
        ],
        questions=questions,
        ends_at=last + timedelta(days=1),
        # A thread is one exchange; people sit down for a batch of them.
        session_of={
            source_reference(name, str(turn["id"])): str(turn["session"]).partition(".")[0]
            for turn in turns
        },
    )


def _turns(chat: _Chat, *, file: str) -> Iterator[dict[str, Any]]:
    """Yield the messages; only the first of a batch tells the day, and the rest follow it."""
    day: datetime | None = None
    for number, batch in enumerate(chat.chat):
        for exchange, messages in enumerate(batch.turns):
            for message in messages:
                anchor = message.time_anchor
                if anchor:
                    day = _day(anchor, where=f"{file}, message {message.id}")
                yield {
                    "role": message.role,
                    "id": message.id,
                    "content": _MARK.sub("", message.content),
                    "session": f"{number + 1}.{exchange + 1}",
                    "time": day,
                }
                # Later messages of the same day differ by seconds.
                day = day and day + timedelta(seconds=1)


def _day(anchor: str, *, where: str) -> datetime:
    try:
        return datetime.strptime(anchor, _DATE).replace(tzinfo=UTC)
    except ValueError:
        raise InvalidInputError(f"{where}: time_anchor is no date like March-15-2024.") from None


def _question(
    question_fields: Mapping[str, Any], *, name: str, ability: str, number: int
) -> Question:
    text = question_fields.get("question")
    if not isinstance(text, str):
        raise InvalidInputError(f"{name}: {ability}.{number}.question is missing or no text.")
    return Question(
        id=f"{name}/{ability}/{number}",
        text=text,
        category=ability,
        gold={
            source_reference(name, str(id_)): 1
            for id_ in _numbers(question_fields.get("source_chat_ids"))
        },
        is_answerable=ability != _ABSTENTION,
    )


def _numbers(value: object) -> Iterator[int]:
    """Yield the ids at any depth: some questions group them."""
    if isinstance(value, int):
        yield value
    elif isinstance(value, list | dict):
        ids_found = cast("Mapping[str, object] | Sequence[object]", value)
        for one in ids_found.values() if isinstance(ids_found, Mapping) else ids_found:
            yield from _numbers(one)


BEAM: Final = DataSet(
    expects=_EXPECTS,
    files=lambda path: files_in(path, "*.json", expects=_EXPECTS),
    read=_read,
    recipes=CHATS,
)
