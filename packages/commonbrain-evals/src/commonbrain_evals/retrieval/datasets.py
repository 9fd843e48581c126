"""Every data set by its name, and the sample of its questions that is asked.

To add a data set, add a file and a row.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from commonbrain.model.errors import InvalidInputError
from commonbrain_evals.retrieval.beam import BEAM
from commonbrain_evals.retrieval.beir import BEIR
from commonbrain_evals.retrieval.corpora import DataSet, Question
from commonbrain_evals.retrieval.locomo import LOCOMO
from commonbrain_evals.retrieval.longmemeval import LONGMEMEVAL
from commonbrain_evals.retrieval.own import OWN
from commonbrain_evals.retrieval.workdays import WORKDAYS

DATASETS: Final[Mapping[str, DataSet]] = {
    "locomo": LOCOMO,
    "beam": BEAM,
    "beir": BEIR,
    "longmemeval": LONGMEMEVAL,
    "own": OWN,
    "workdays": WORKDAYS,
}


def get_dataset(name: str) -> DataSet:
    """Return the data set with a name.

    Raises:
        InvalidInputError: there is none.

    """
    if name not in DATASETS:
        raise InvalidInputError(
            f"There is no data set {name[:40]!r}.", hint=f"Choose of {', '.join(DATASETS)}."
        )
    return DATASETS[name]


def shipped_path(name: str) -> Path:
    """Return where the data of a set is that ships with the package.

    Raises:
        InvalidInputError: it does not ship.

    """
    dataset = DATASETS.get(name)
    if dataset is None or dataset.shipped is None:
        raise InvalidInputError(
            f"The data of {name[:40]!r} is not in the package.", hint="Give its path."
        )
    return dataset.shipped


SampledT = TypeVar("SampledT")

_FOREIGN_MAX = 20
"""Questions about other corpora that each corpus is asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What is asked of each corpus, by its name."""

    own: Mapping[str, Sequence[Question]]
    foreign: Mapping[str, Sequence[Question]]
    """Questions about another corpus, whose answer is not there."""
    skipped: int
    """Questions that have an answer and name no evidence."""


def choose(
    every: Mapping[str, Sequence[Question]],
    *,
    questions: int | None,
    conversations: int | None,
    seed: int,
) -> Sample:
    """Choose corpora, and of theirs questions, up to these counts.

    Raises:
        InvalidInputError: there is no question that can be measured.

    """
    random_source = random.Random(seed)  # noqa: S311 it is meant to be foreseen
    names = _draw(list(every), conversations, random_source=random_source)
    usable = {
        name: [question for question in every[name] if question.gold or not question.is_answerable]
        for name in names
    }
    skipped = sum(len(every[name]) - len(usable[name]) for name in names)
    chosen = {
        one.id
        for one in _draw(
            [q for of in usable.values() for q in of], questions, random_source=random_source
        )
    }
    own = {name: [q for q in of if q.id in chosen] for name, of in usable.items()}
    own = {name: of for name, of in own.items() if of}
    if not own:
        raise InvalidInputError(
            "There is no question that names its evidence.", hint="Give other data."
        )
    foreign = {
        name: _foreign(every, name, count=len(of), random_source=random_source)
        for name, of in own.items()
    }
    return Sample(own=own, foreign=foreign, skipped=skipped)


def _draw(
    candidates: list[SampledT], count: int | None, *, random_source: random.Random
) -> list[SampledT]:
    """Draw so many, in the order given."""
    if count is None or count >= len(candidates):
        return candidates
    places = sorted(random_source.sample(range(len(candidates)), count))
    return [candidates[place] for place in places]


def _foreign(
    every: Mapping[str, Sequence[Question]], name: str, *, count: int, random_source: random.Random
) -> Sequence[Question]:
    pool = [q for other, of in every.items() if other != name for q in of if q.is_answerable]
    return _draw(pool, min(count, _FOREIGN_MAX), random_source=random_source)
