"""What recall missed, with its words: figures say how often it fails, only texts say why."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.escaping import inert_line
from commonbrain.model.memory import Draft
from commonbrain_evals.retrieval.baselines import RECALL
from commonbrain_evals.retrieval.corpora import Corpus, Question
from commonbrain_evals.retrieval.datasets import DATASETS
from commonbrain_evals.retrieval.record import Run, digest

_METRIC: Final = "R@10 all"
_INSTEAD: Final = 3
"""Shown of what came first instead."""
_CHARS: Final = 160
"""Shown of a text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """A question whose evidence was not all among the first ten."""

    question: Question
    ranks: Mapping[str, int | None]
    """Of each source of the answer; None where it was not among them."""
    instead: Sequence[str]
    """The sources that came first."""
    texts: Mapping[str, str]

    def render(self) -> str:
        """Write it for people."""
        lines = [f"{self.question.category} | {inert_line(self.question.text)}"]
        lines += [
            f"  evidence at {rank or 'none'}: {self._text(source)}"
            for source, rank in self.ranks.items()
        ]
        lines += [f"  {rank}: {self._text(source)}" for rank, source in enumerate(self.instead, 1)]
        return "\n".join(lines) + "\n"

    def _text(self, source: str) -> str:
        text = inert_line(self.texts.get(source, ""))
        return f"[{inert_line(source)}] {text[:_CHARS]}{'…' if len(text) > _CHARS else ''}"


def misses_of(run: Run, path: Path, *, count: int) -> Iterator[Miss]:
    """Yield the first misses of a run, in the order of the data.

    Raises:
        InvalidInputError: the data is not what the run was on.

    """
    dataset = DATASETS[run.setup.dataset]
    files = dataset.files(path)
    if digest(files) != run.setup.sha256:
        raise InvalidInputError(
            f"The run was on other data than {path}.", hint=f"Give the {run.setup.source} of it."
        )
    values = run.values.get(RECALL, {}).get(_METRIC, ())
    missed_ids = {id_ for id_, value in zip(run.categories, values, strict=True) if not value}
    for corpus in dataset.read(files):
        pending_questions = [
            question for question in corpus.questions if question.id in missed_ids
        ][:count]
        if pending_questions:
            texts = _texts(corpus)
            yield from (_miss(run, question, texts=texts) for question in pending_questions)
            count -= len(pending_questions)
        if not count:
            return


def _texts(corpus: Corpus) -> Mapping[str, str]:
    return {
        draft.source_ref: draft.body
        for draft in corpus.drafts()
        if isinstance(draft, Draft) and draft.source_ref
    }


def _miss(run: Run, question: Question, *, texts: Mapping[str, str]) -> Miss:
    ranking = run.found[question.id]
    places = {source: rank for rank, source in enumerate(ranking, 1)}
    return Miss(
        question=question,
        ranks={source: places.get(source) for source in question.gold},
        instead=[source for source in ranking if source not in question.gold][:_INSTEAD],
        texts=texts,
    )
