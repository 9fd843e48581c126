"""What packaged embedders find, alone and with words, and what they cost."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean, median
from typing import Final

import numpy as np
import typer
from commonbrain_evals.retrieval.baselines import BASELINES, Scores, SearchResults, sources
from commonbrain_evals.retrieval.corpora import Question
from commonbrain_evals.retrieval.datasets import DATASETS, choose
from commonbrain_evals.retrieval.eval_store import EvalStore, open_eval_store
from commonbrain_evals.retrieval.metrics import Gold, measure

from benchmarks.corpus import drafts, questions
from benchmarks.packaged_embedders import Packaged, candidates
from benchmarks.timing import timed, timing
from commonbrain.embeddings.interface import Matrix
from commonbrain.model.query import Filter
from commonbrain.retrieval.plan import search_terms
from commonbrain.runtime.settings_loading import load_settings
from commonbrain.storage.interface import QueryScope

embedders = typer.Typer()
_BROUGHT: Final = 100
_TEXTS: Final = 100
_WORDS: Final = 60
_SYSTEMS: Final = ("vectors", "min-max")
_SHOWN: Final = ("nDCG@10", "R@10 all")


@dataclass(slots=True)
class _Measured:
    """What one embedder made of the data so far."""

    windows: int = 0
    cpu_s: float = 0.0
    rankings: dict[str, dict[str, Sequence[str]]] = field(
        default_factory=lambda: {system: {} for system in _SYSTEMS}
    )
    """By system and question."""


@embedders.command()
def embedder_quality(
    dataset: str,
    path: Path,
    *,
    questions: int | None = None,
    conversations: int | None = None,
    only: list[str] = typer.Option(default=[]),  # noqa: B008 Typer's way
    onnx: list[Path] = typer.Option(default=[]),  # noqa: B008
) -> None:
    """Rank a data set's evidence by the vectors of each embedder, alone and with full text."""
    read, files = DATASETS[dataset].read, DATASETS[dataset].files(path)
    every = {corpus.name: corpus.questions for corpus in read(files)}
    chosen = choose(every, questions=questions, conversations=conversations, seed=0).own
    gold = {one.id: one.gold for of in chosen.values() for one in of if one.gold}
    made = dict(_loaded(candidates(onnx, only)))
    results = {name: _Measured() for name in made}
    for corpus in read(files):
        if corpus.name in chosen:
            answerable = [one for one in chosen[corpus.name] if one.gold]
            with open_eval_store(corpus, settings=load_settings(), seed=0) as store:
                words = {one.id: _words(store, one.text) for one in answerable}
                for name, embedder in made.items():
                    _ask(store, embedder, answerable, words=words, result=results[name])
    print(f"| {len(gold)} questions of {dataset} | {' | '.join(_heads())} | windows | CPU s |")
    print("|---" * (len(_SYSTEMS) * len(_SHOWN) + 3) + "|")
    for name, measured in results.items():
        print(_row(name, measured, gold=gold))


def _loaded(
    makers: Mapping[str, Callable[[], Packaged]],
) -> Iterator[tuple[str, Packaged]]:
    for name, make in makers.items():
        try:
            yield name, make()
        except ImportError:
            print(f"{name} is not installed and left out")


def _words(store: EvalStore, text: str) -> Scores:
    brain = store.brain
    scope = QueryScope(caller=brain.caller, filter=Filter(), now=brain.services.clock.now())
    with brain.services.store.snapshot(brain.caller.tenant) as tx:
        matches = tx.index.lexical(search_terms(text), scope, limit=_BROUGHT)
    return {hit.id: hit.score for hit in matches}


def _ask(
    store: EvalStore,
    embedder: Packaged,
    asked_questions: Sequence[Question],
    *,
    words: Mapping[str, Scores],
    result: _Measured,
) -> None:
    """Embed a corpus and its questions, and rank by what is nearest."""
    started = time.process_time()
    texts = {id_: memory.text for id_, memory in store.memories.items()}
    made = embedder.passages(list(texts.values()))
    result.cpu_s += time.process_time() - started
    result.windows += sum(map(len, made))
    for question in asked_questions:
        vector = _nearest(list(texts), made, vector=embedder.query(question.text))
        lists = SearchResults(words=words[question.id], vector=vector, words_s=0.0, vector_s=0.0)
        for system in _SYSTEMS:
            ranked = sources(store, BASELINES[system].rank(lists))
            result.rankings[system][question.id] = ranked


def _nearest(ids: Sequence[int], made: Sequence[Matrix], *, vector: Matrix) -> Scores:
    """Return the memories whose best window is nearest."""
    starts = np.cumsum([0, *map(len, made[:-1])])
    best = np.maximum.reduceat(np.concatenate(made) @ vector, starts)
    order = np.argsort(-best, kind="stable")[:_BROUGHT]
    return {ids[place]: float(best[place]) for place in order}


def _heads() -> Iterator[str]:
    return (f"{system} {metric}" for system in _SYSTEMS for metric in _SHOWN)


def _row(name: str, measured: _Measured, *, gold: Gold) -> str:
    cells: list[str] = []
    for system in _SYSTEMS:
        values = measure(gold, measured.rankings[system]).values()
        cells += [f"{fmean(value[metric] for value in values):.1%}" for metric in _SHOWN]
    return f"| {name} | {' | '.join(cells)} | {measured.windows:,} | {measured.cpu_s:.1f} |"


@embedders.command()
def embedder_costs(
    *,
    only: list[str] = typer.Option(default=[]),  # noqa: B008 Typer's way
    onnx: list[Path] = typer.Option(default=[]),  # noqa: B008
) -> None:
    """Measure the processor time of each embedder, on one core."""
    print("| embedder | question p50 ms | texts a second (60 words) | loaded, MB | at work, MB |")
    print("|---" * 5 + "|")
    context = get_context("spawn")
    for name in candidates(onnx, only):
        with ProcessPoolExecutor(1, mp_context=context) as alone:
            print(alone.submit(_costs, name, onnx).result())


def _costs(name: str, onnx: Sequence[Path]) -> str:
    before = _resident_mb()
    try:
        embedder = candidates(onnx)[name]()
    except ImportError:
        return f"| {name} | not installed | | | |"
    embedder.query("Is anybody there?")
    loaded = _resident_mb()
    queries = timing(partial(embedder.query, one) for one in questions(_TEXTS, of=_TEXTS))
    words = " ".join(draft.body for draft in drafts(_TEXTS * _WORDS // 10)).split()
    texts = [" ".join(words[n * _WORDS : (n + 1) * _WORDS]) for n in range(_TEXTS)]
    rate = _TEXTS / timed(lambda: embedder.passages(texts)).process_ms * 1000
    held = f"{loaded - before:.0f} | {_resident_mb() - before:.0f}"
    question = median(lap.process_ms for lap in queries.laps)
    return f"| {name} | {question:.2f} | {rate:,.0f} | {held} |"


def _resident_mb() -> float:
    """Read the memory of this process from /proc, where there is one."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * 4096 / 1e6 if statm.exists() else float("nan")
