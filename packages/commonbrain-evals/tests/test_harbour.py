"""The guard: recall over a team's year must not get worse than it is.

The memories and questions in tests/data/harbour were written for this, before anything was
measured on them, and nothing is tuned on them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import mean
from typing import Final

import pytest
from commonbrain_evals.retrieval.corpora import Corpus
from commonbrain_evals.retrieval.datasets import DATASETS
from commonbrain_evals.retrieval.eval_store import open_eval_store
from commonbrain_evals.retrieval.metrics import DEPTH, measure

from commonbrain.config import Settings
from commonbrain.model.recall_result import ResultStatus

FOLDER = Path(__file__).parent / "data" / "harbour"
TODAY: Final = {"R@10 all": 0.943, "R@1 any": 0.727, "nDCG@10": 0.849}
"""What recall reaches on the questions that have an answer."""
TOLERANCE: Final = 0.03
"""Three questions of eighty-eight."""
LEAST: Final = 0.8
"""What every sort of question reaches at the least, but for those of `POOR`."""
POOR: Final = {"context": 0.7}
"""Answers that share nothing with the question; what was said before them does."""
ABSTAINED: Final = {"none": 10, "unsaid": 1}
"""Of the questions without an answer, those told to have none.

No text names the matter of the first sort; many are about the second, but not about the question.
"""
WRONGLY_ABSTAINED: Final = 3
ANSWERED: Final = frozenset(
    {"single", "multi", "changed", "time", "distracted", "context", "speaker"}
)


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    dataset = DATASETS["own"]
    [corpus] = dataset.read(dataset.files(FOLDER))
    return corpus


@pytest.fixture(scope="module")
def answers(corpus: Corpus) -> Iterator[Mapping[str, tuple[ResultStatus, list[str]]]]:
    with open_eval_store(corpus, settings=Settings(), seed=0) as store:
        assert store.stored == len(store.memories)
        assert store.refused == 0
        results = {
            question.id: store.brain.recall(
                question.text, max_items=DEPTH, max_tokens=8000, bump=False
            )
            for question in corpus.questions
        }
        yield {
            id_: (one.verdict, [str(item.source_ref) for item in one.items])
            for id_, one in results.items()
        }


def test_harbour_data_set_is_large_and_has_every_category(corpus: Corpus) -> None:
    sorts = Counter(question.category for question in corpus.questions)

    assert len(list(corpus.drafts())) >= 300
    assert len(corpus.questions) >= 60
    assert ABSTAINED.keys() | ANSWERED == set(sorts)
    assert min(sorts.values()) >= 7


@pytest.mark.requirement("EV-08")
def test_recall_of_harbour_does_not_regress(
    corpus: Corpus, answers: Mapping[str, tuple[ResultStatus, list[str]]]
) -> None:
    gold = {question.id: question.gold for question in corpus.questions if question.gold}
    measured = measure(gold, {id_: answers[id_][1] for id_ in gold})
    means = {name: mean(of[name] for of in measured.values()) for name in TODAY}
    by_sort: defaultdict[str, list[float]] = defaultdict(list)
    for question in corpus.questions:
        if question.gold:
            by_sort[question.category].append(measured[question.id]["R@10 all"])

    assert {name: of for name, of in means.items() if of < TODAY[name] - TOLERANCE} == {}
    reached = {sort: mean(of) for sort, of in by_sort.items()}
    assert {sort: of for sort, of in reached.items() if of < POOR.get(sort, LEAST)} == {}


def test_abstention_of_harbour_does_not_regress(
    corpus: Corpus, answers: Mapping[str, tuple[ResultStatus, list[str]]]
) -> None:
    silent = {id_ for id_, (status, _) in answers.items() if status is not ResultStatus.FOUND}
    rightly = Counter(
        question.category
        for question in corpus.questions
        if question.id in silent and not question.is_answerable
    )

    assert {sort: rightly[sort] for sort, of in ABSTAINED.items() if rightly[sort] < of} == {}
    assert len(silent) - rightly.total() <= WRONGLY_ABSTAINED
