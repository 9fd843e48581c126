"""LoCoMo's conversations as plain texts, and its questions with the turns that answer them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from commonbrain_evals.retrieval.eval_store import turns_of
from commonbrain_evals.retrieval.locomo import LOCOMO


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question, and the references of the turns that together answer it."""

    text: str
    evidence: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """What one store holds while its questions are asked."""

    texts: tuple[tuple[str, str], ...]
    """Each turn's reference and what was said, as "Name: text"."""
    questions: tuple[Question, ...]
    sample: Any
    """The same turns as the data set has them, with sessions and times."""


def read_conversations(path: Path, *, memories: int | None = None) -> list[Conversation]:
    """Read the file; of more turns than `memories`, the first conversations, at least one."""
    samples = {sample["sample_id"]: sample for sample in json.loads(path.read_text("utf-8"))}
    chosen: list[Conversation] = []
    for corpus in LOCOMO.read([path]):
        questions = (
            Question(text=question.text, evidence=frozenset(question.gold))
            for question in corpus.questions
            if question.gold
        )
        conversation = Conversation(
            texts=tuple((turn.source, turn.note) for turn in turns_of(corpus)),
            questions=tuple(questions),
            sample={**samples[corpus.name], "qa": []},
        )
        if chosen and memories is not None and _turns([*chosen, conversation]) > memories:
            break
        chosen.append(conversation)
    return chosen


def _turns(conversations: Sequence[Conversation]) -> int:
    return sum(len(conversation.texts) for conversation in conversations)
