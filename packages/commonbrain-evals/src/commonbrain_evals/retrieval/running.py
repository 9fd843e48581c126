"""Running an evaluation: every chosen corpus in a fresh store, every chosen question asked."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

from commonbrain.config import Settings
from commonbrain.model.errors import InvalidInputError
from commonbrain.retrieval.query_plan import RetrievalOverrides
from commonbrain.runtime.bootstrap import make_embedder
from commonbrain.storage.maintenance import Progress, ignore_progress
from commonbrain_evals.retrieval.ablating import PARTS
from commonbrain_evals.retrieval.asking import Asker
from commonbrain_evals.retrieval.corpora import Corpus, DataSet
from commonbrain_evals.retrieval.datasets import DATASETS
from commonbrain_evals.retrieval.extra import needed
from commonbrain_evals.retrieval.recipes import Recipe
from commonbrain_evals.retrieval.record import Run, Setup, Times
from commonbrain_evals.retrieval.sampling import Sample, choose
from commonbrain_evals.retrieval.shapes import Shapes, shapes
from commonbrain_evals.retrieval.stand import Stand, standing
from commonbrain_evals.retrieval.summing import Harvest, latencies, summed
from commonbrain_evals.retrieval.surroundings import commit, digest, machine

_BEARING = (
    "embedder",
    "embedder_model",
    "duplicate_at",
    "similar_at",
    "relevant_at",
    "answers_at",
    "secrets",
)
"""The settings that decide what is found."""

_FILLED: Final = 0.25
_SEEN: Final = 0.25
"""About the shares of a corpus's time that filling its store and the study's shapes take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is to be run, and how much of it."""

    dataset: str
    path: Path
    seed: int = 0
    questions: int | None = None
    conversations: int | None = None
    without: tuple[str, ...] = ()
    """Parts of recall to leave out throughout."""
    ablates: bool = False
    """Whether each part is left out once, to see what it is worth."""


def run(wish: Wish, *, settings: Settings, on_progress: Progress = ignore_progress) -> Run:
    """Run one evaluation in stores of its own; the user's store is not opened.

    Raises:
        InvalidInputError: there is no such data set or part, the data is missing or malformed, or a
            library of the extra is.

    """
    dataset = _dataset(wish)
    for library in ("pytrec_eval", "scipy.stats"):
        needed(library)
    files = dataset.files(wish.path)
    started, begun = datetime.now(UTC), time.perf_counter()
    sample = choose(
        {corpus.name: corpus.questions for corpus in dataset.read(files)},
        questions=wish.questions,
        conversations=wish.conversations,
        seed=wish.seed,
    )
    field = _Field(
        wish=wish,
        sample=sample,
        recipes=dataset.recipes,
        settings=settings,
        on_progress=on_progress,
    )
    harvest = _gather(field, dataset, files=files)
    told = summed(harvest, seed=wish.seed, parts=_ablated(wish))
    return Run(
        version=version("commonbrain"),
        commit=commit(),
        setup=_setup(wish, files, settings=settings),
        machine=machine(),
        times=Times(
            started_at=started.isoformat(timespec="seconds"),
            took_s=round(time.perf_counter() - begun, 1),
            memories_per_s=round(harvest.memories / max(harvest.seconds, 1e-6), 1),
            latency_ms=latencies(harvest.answers),
        ),
        corpora=len(sample.own),
        memories=harvest.memories,
        refused=harvest.refused,
        skipped=sample.skipped,
        history_tokens=told.history_tokens,
        systems=told.systems,
        sessions=told.sessions,
        budgets=told.budgets,
        abstention=told.abstention,
        ablation=told.ablation,
        categories=told.categories,
        values=told.values,
        found=told.found,
    )


def _dataset(wish: Wish) -> DataSet:
    dataset = DATASETS.get(wish.dataset)
    if dataset is None:
        raise InvalidInputError(
            f"There is no data set {wish.dataset[:40]!r}.", hint=f"Choose of {', '.join(DATASETS)}."
        )
    unknown = [name for name in wish.without if name not in PARTS]
    if unknown:
        raise InvalidInputError(
            f"Recall has no part {unknown[0][:40]!r}.", hint=f"Choose of {', '.join(PARTS)}."
        )
    return dataset


def _ablated(wish: Wish) -> tuple[str, ...]:
    return tuple(part for part in PARTS if part not in wish.without) if wish.ablates else ()


def _setup(wish: Wish, files: Sequence[Path], *, settings: Settings) -> Setup:
    return Setup(
        dataset=wish.dataset,
        source=wish.path.name,
        sha256=digest(files),
        seed=wish.seed,
        questions=wish.questions,
        conversations=wish.conversations,
        without=wish.without,
        space=make_embedder(settings).space.name,
        settings={name: getattr(settings, name) for name in _BEARING},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    """What stays the same from corpus to corpus."""

    wish: Wish
    sample: Sample
    recipes: Mapping[str, Recipe]
    settings: Settings
    on_progress: Progress


def _gather(field: _Field, dataset: DataSet, *, files: Sequence[Path]) -> Harvest:
    """Ask every corpus in its turn."""
    harvest = Harvest()
    chosen = field.sample.own
    for corpus in dataset.read(files):
        if corpus.name in chosen:
            _visit(field, corpus, harvest=harvest)
    return harvest


def _visit(field: _Field, corpus: Corpus, *, harvest: Harvest) -> None:
    """Fill a store with one corpus and ask everything that is to be asked of it."""
    wish, own = field.wish, field.sample.own[corpus.name]
    done, every = len(harvest.answers), sum(map(len, field.sample.own.values()))

    def move(share: float) -> None:
        field.on_progress((done + share * len(own)) / every)

    with standing(corpus, settings=field.settings, seed=wish.seed) as stand:
        harvest.take(stand)
        move(_FILLED)
        asker = Asker(
            stand=stand,
            overrides=RetrievalOverrides(without=frozenset(wish.without)),
            shapes=_shapes(field, stand, on_progress=lambda share: move(_FILLED + _SEEN * share)),
            recipes=field.recipes,
            history_tokens=stand.history_tokens(),
            ablated=_ablated(wish),
        )
        # What is loaded by the first question is not part of the latency of any.
        asker.abstains(own[0])
        for number, question in enumerate(own, 1):
            harvest.answers.append(asker.ask(question))
            move(_FILLED + _SEEN + (1 - _FILLED - _SEEN) * number / len(own))
        harvest.foreign += [asker.abstains(one) for one in field.sample.foreign[corpus.name]]


def _shapes(field: _Field, stand: Stand, *, on_progress: Progress) -> Shapes:
    """Index and embed once what the recipes look at, before anything is timed."""
    has_context = any(recipe.has_context for recipe in field.recipes.values())
    return shapes(
        stand.memories,
        stand.services.embedder,
        has_context=has_context,
        on_progress=on_progress,
    )
