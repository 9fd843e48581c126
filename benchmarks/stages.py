"""What one size of store is asked, whole and in its parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from statistics import median
from typing import Final

from benchmarks.corpus import drafts, questions
from benchmarks.lower_bounds import time_recall_floor
from benchmarks.timing import Timing, timing
from commonbrain.client import Brain
from commonbrain.model.query import RecallTrace
from commonbrain.retrieval.write_behind import WriteBehindQueue
from commonbrain.runtime.models import make_embedder
from commonbrain.runtime.settings_loading import load_settings
from commonbrain.services import Services

RUNS: Final = 200
_PROJECT: Final = "project-3"
_PART: Final = "  "
"""Before the name of a part of recall."""


@dataclass(slots=True)
class _Heard:
    traces: list[RecallTrace] = field(default_factory=list[RecallTrace])


class _Overheard(WriteBehindQueue):
    """A journal whose traces can be looked at as well."""

    def __init__(self, services: Services, heard: _Heard) -> None:
        super().__init__(services.store, services.secret_scanner, clock=services.clock)
        self._heard = heard

    def record(self, trace: RecallTrace) -> None:
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
        """Return the median of each stage of the recalls since the last call, in ms."""
        stages = [trace.stages_ms for trace in self.heard.traces]
        self.heard.traces.clear()
        return {stage: median(one[stage] for one in stages) for stage in stages[0]}


def measure(watched: Watched, size: int) -> dict[str, Timing]:
    """Time recall and remember, and print the stages of the recalls."""
    brain, queries = watched.brain, questions(RUNS, of=size)
    brain.recall(queries[0])
    watched.heard.traces.clear()
    times = {"recall": timing(partial(brain.recall, question) for question in queries)}
    line = "  ".join(f"{stage} {ms:.2f}" for stage, ms in watched.stages().items())
    print(f"stages of recall, p50 ms: {line}")
    floor = time_recall_floor(brain, queries)
    times |= {f"{_PART}{name}": part for name, part in floor.items()}
    times["recall in one project"] = timing(
        partial(brain.recall, question, project=_PROJECT) for question in queries
    )
    times["recall by common words"] = timing(
        partial(brain.recall, question) for question in common_words(queries)
    )
    fresh = islice(drafts(size + RUNS, seed=size), size, None)
    times["remember, durable"] = timing(partial(brain.remember, draft) for draft in fresh)
    brain.services.journal.flush()
    return times


def ratio_lines(times: Mapping[str, Timing]) -> list[str]:
    """Compare recall with its parts, which it cannot save, and its slow calls with the usual."""
    recall = times["recall"]
    parts_ms = sum(part.process_p50_ms for name, part in times.items() if name.startswith(_PART))
    return [
        "recall / (embedding + full text + vectors), process p50: "
        f"{recall.process_p50_ms / parts_ms:.2f}",
        f"recall, process p95 / p50: {recall.process_p95_ms / recall.process_p50_ms:.2f}",
    ]


def print_growth(growth: Mapping[int, Mapping[str, Timing]]) -> None:
    """Print how many times as long each takes in a store so much larger."""
    smallest, *larger = growth
    for size in larger:
        print(f"\nfrom {smallest:,} to {size:,} memories, times the p50:")
        for name, timing_ in growth[size].items():
            print(f"{name:<34} {timing_.p50_ms / growth[smallest][name].p50_ms:8.1f}")


def common_words(queries: list[str]) -> list[str]:
    """Return questions of the words that most of the questions have."""
    counts: dict[str, int] = {}
    for word in " ".join(queries).split():
        counts[word] = counts.get(word, 0) + 1
    commonest = sorted(counts, key=lambda word: -counts[word])[:20]
    return [" ".join(commonest[n % 20 : n % 20 + 4]) for n in range(20)]
