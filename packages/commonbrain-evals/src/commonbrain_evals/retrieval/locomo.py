"""LoCoMo: long conversations of two people, with questions whose evidence is named by turn.

Maharana et al., 2024, https://github.com/snap-research/locomo. One store a conversation, so that
the candidates of a question are the turns of its conversation.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from commonbrain_import.conversations import parse_turn_time

from commonbrain.transfer.importer import source_reference
from commonbrain.transfer.importers.json_lines import as_list, as_object
from commonbrain_evals.retrieval.corpora import Corpus, DataSet, Question, corpus_of, ended
from commonbrain_evals.retrieval.data_files import read_json_list, require_file
from commonbrain_evals.retrieval.study import TALKS

_EXPECTS: Final = "a JSON list of samples, each with sample_id, conversation and qa."
_CATEGORIES: Final[Mapping[int, str]] = {
    1: "multi-hop",
    2: "temporal",
    3: "open-domain",
    4: "single-hop",
    5: "adversarial",
}
_ADVERSARIAL: Final = 5
"""Asks one speaker what the other said: the turn that it names does not answer it."""
# Some evidence is written "D8:6; D9:17" or "D:11:26".
_TURN: Final = re.compile(r"D:?(\d+):(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    question: str
    category: int
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sample:
    sample_id: str
    conversation: dict[str, Any]
    qa: tuple[_Question, ...]


def _read(files: Sequence[Path]) -> Iterator[Corpus]:
    for path in files:
        for sample in read_json_list(_Sample, path):
            yield _corpus(sample)


def _corpus(sample: _Sample) -> Corpus:
    name, talk = sample.sample_id, sample.conversation
    times = [parse_turn_time(talk[key]) for key in talk if key.endswith("_date_time")]
    turns = (turn for turns_said in talk.values() for turn in as_list(turns_said) or ())
    known_turns = {str((as_object(turn) or {}).get("dia_id")) for turn in turns}
    record = {"sample_id": name, "conversation": talk}
    questions = [
        _question(number, question_fields, of=name, known_turns=known_turns)
        for number, question_fields in enumerate(sample.qa)
    ]
    # Answers are asked for on the day after the last sitting.
    return corpus_of(name, [record], questions=questions, ends_at=ended(times) + timedelta(days=1))


def _question(
    number: int, question_fields: _Question, *, of: str, known_turns: set[str]
) -> Question:
    evidence_ids = _TURN.findall(" ".join(question_fields.evidence))
    turns = {f"D{int(session)}:{int(turn)}" for session, turn in evidence_ids} & known_turns
    return Question(
        id=f"{of}/{number}",
        text=question_fields.question,
        category=_CATEGORIES.get(question_fields.category, str(question_fields.category)),
        gold={source_reference(of, turn): 1 for turn in sorted(turns)},
        is_answerable=question_fields.category != _ADVERSARIAL,
    )


LOCOMO: Final = DataSet(
    expects=_EXPECTS,
    files=lambda path: require_file(path, expects=_EXPECTS),
    read=_read,
    recipes=TALKS,
)
