"""What one size of store is asked, whole and in its parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from statistics import median
from typing import Final

from benchmarks.corpus import drafts, questions
from benchmarks.timing import Timing, timing
from commonbrain.client import Brain
from commonbrain.model.query import Filter, Trace
from commonbrain.retrieval.query_plan import search_terms
from commonbrain.retrieval.write_behind import WriteBehindQueue
from commonbrain.runtime.bootstrap import make_embedder
from commonbrain.runtime.settings_loading import load_settings
from commonbrain.services import Services
from commonbrain.storage.interface import QueryScope

RUNS: Final = 200
_PROJECT: Final = "project-3"
_EMBEDDING: Final = "  embedding alone"
_FULL_TEXT: Final = "  full text alone"
_VECTORS: Final = "  vectors alone"
_PARTS: Final = (_EMBEDDING, _FULL_TEXT, _VECTORS)


@dataclass(slots=True)
class _Heard:
    traces: list[Trace] = field(default_factory=list[Trace])


class _Overheard(WriteBehindQueue):
    """A journal whose traces can be looked at as well."""

    def __init__(self, services: Services, heard: _Heard) -> None:
        super().__init__(services.store, services.screen, clock=services.clock)
        self._heard = heard

    def record(self, trace: Trace) -> None:
        """Keep it here too."""
        self._heard.traces.append(trace)
        super().record(trace)


@dataclass(frozen=True, slots=True)
class Watched:
    """A brain, and what its recalls say of themselves."""

    brain: Brain
    heard: _Heard

    @classmethod
    def of(cls, brain: Brain) -> Watched:
        """Look over the shoulder of a brain."""
        heard = _Heard()
        # Every question is embedded, however often it is asked.
        services = replace(
            brain.services,
            journal=_Overheard(brain.services, heard),
            embedder=make_embedder(load_settings()),
        )
        return cls(Brain(services, brain.caller), heard)

    def stages(self) -> Mapping[str, float]:
        """Give the median of each stage of the recalls since the last look, in ms."""
        told = [trace.stages_ms for trace in self.heard.traces]
        self.heard.traces.clear()
        return {stage: median(one[stage] for one in told) for stage in told[0]}


def measure(watched: Watched, size: int) -> dict[str, Timing]:
    """Time recall and remember, and print the stages of the recalls."""
    brain, asked = watched.brain, questions(RUNS, of=size)
    brain.recall(asked[0])
    watched.heard.traces.clear()
    times = {"recall": timing(partial(brain.recall, question) for question in asked)}
    told = "  ".join(f"{stage} {ms:.2f}" for stage, ms in watched.stages().items())
    print(f"stages of recall, p50 ms: {told}")
    times |= _parts(brain, asked)
    times["recall in one project"] = timing(
        partial(brain.recall, question, project=_PROJECT) for question in asked
    )
    times["recall by common words"] = timing(
        partial(brain.recall, question) for question in common_words(asked)
    )
    fresh = islice(drafts(size + RUNS, seed=size), size, None)
    times["remember, durable"] = timing(partial(brain.remember, draft) for draft in fresh)
    brain.services.journal.flush()
    return times


def ratio_lines(times: Mapping[str, Timing]) -> list[str]:
    """Compare recall with its parts, which it cannot save, and its slow calls with the usual."""
    recall = times["recall"]
    parts_ms = sum(times[name].process_p50_ms for name in _PARTS)
    return [
        "recall / (embedding + full text + vectors), process p50: "
        f"{recall.process_p50_ms / parts_ms:.2f}",
        f"recall, process p95 / p50: {recall.process_p95_ms / recall.process_p50_ms:.2f}",
    ]


def tell_growth(growth: Mapping[int, Mapping[str, Timing]]) -> None:
    """Print how many times as long each takes in a store so much larger."""
    smallest, *larger = growth
    for size in larger:
        print(f"\nfrom {smallest:,} to {size:,} memories, times the p50:")
        for name, timing_ in growth[size].items():
            print(f"{name:<34} {timing_.p50_ms / growth[smallest][name].p50_ms:8.1f}")


def _parts(brain: Brain, asked: list[str]) -> dict[str, Timing]:
    """Time what recall asks of the embedder and the index, each alone."""
    embedder, store = brain.services.embedder, brain.services.store
    look = QueryScope(caller=brain.caller, filter=Filter(), now=brain.services.clock.now())
    vectors = [embedder.query(question) for question in asked]
    with store.snapshot(brain.caller.tenant) as tx:
        words = [search_terms(question) for question in asked]
        return {
            _EMBEDDING: timing(partial(embedder.query, one) for one in asked),
            _FULL_TEXT: timing(partial(tx.index.lexical, terms, look, limit=40) for terms in words),
            _VECTORS: timing(
                partial(tx.index.nearest, vector, look, limit=60) for vector in vectors
            ),
        }


def common_words(asked: list[str]) -> list[str]:
    """Give questions of the words that most of the questions have."""
    counts: dict[str, int] = {}
    for word in " ".join(asked).split():
        counts[word] = counts.get(word, 0) + 1
    commonest = sorted(counts, key=lambda word: -counts[word])[:20]
    return [" ".join(commonest[n % 20 : n % 20 + 4]) for n in range(20)]
