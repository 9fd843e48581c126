"""Leaving out one part of recall after the other: what each is worth.

Every part costs one more recall a question, so nothing is asked whose answer is known: a feature
that no candidate has adds nothing to any score, and without it the ranking is the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from commonbrain.client import Brain
from commonbrain.embeddings.interface import Embedder, EmbeddingSpace, Matrix
from commonbrain.model.query import Candidate, RecallTrace
from commonbrain.retrieval.plan import ABLATABLE_STAGES
from commonbrain.retrieval.retrieve import RETRIEVERS
from commonbrain.retrieval.score import FEATURE_WEIGHTS
from commonbrain.retrieval.write_behind import WriteBehindQueue
from commonbrain.services import Services

_ESSENTIAL: Final = frozenset({"recent", "fused"})
"""Without the one there is no browsing, without the other no relevance: nothing to learn."""
PARTS: Final = tuple(
    name
    for name in dict.fromkeys((*RETRIEVERS, *FEATURE_WEIGHTS, *ABLATABLE_STAGES))
    if name not in _ESSENTIAL and FEATURE_WEIGHTS.get(name) != 0
)
"""Every part of recall that can be left out: retrievers, features, stages."""
GROUPS: Final = tuple(
    "+".join(names)
    for names in (
        ("strength", "trust", "rating", "recency"),
        ("claims", "together", "newer_first"),
        ("contradicted", "needs_review"),
        ("linked", "links"),
        ("thread", "passages"),
        ("names", "speaker"),
        ("date", "dated", "time", "time_alone"),
        ("substance", "asking", "assistant"),
    )
)
"""Parts that serve one purpose, left out together: one may stand in for another."""
_FEATURES: Final = frozenset(FEATURE_WEIGHTS) - {*RETRIEVERS, *ABLATABLE_STAGES}
"""Those that do nothing but weigh."""


def parts_of(name: str) -> frozenset[str]:
    """Give the parts that a name of `PARTS` or `GROUPS` stands for."""
    return frozenset(name.split("+"))


class _CapturingQueue(WriteBehindQueue):
    """Keeps what the last recall considered, and writes no trace of it."""

    def __init__(self, services: Services) -> None:
        super().__init__(services.store, services.secret_scanner, clock=services.clock)
        self.considered: Sequence[Candidate] = ()

    def record(self, trace: RecallTrace) -> None:
        """Keep what was considered."""
        self.considered = trace.considered


@dataclass(frozen=True, slots=True)
class _CachingEmbedder:
    """Embeds a question once, however often it is asked."""

    embedder: Embedder
    cache: dict[str, Matrix] = field(default_factory=dict[str, Matrix])

    @property
    def space(self) -> EmbeddingSpace:
        return self.embedder.space

    def query(self, text: str) -> Matrix:
        if text not in self.cache:
            self.cache[text] = self.embedder.query(text)
        return self.cache[text]

    def passages(self, texts: Sequence[str]) -> list[Matrix]:
        return self.embedder.passages(texts)


@dataclass(frozen=True, slots=True)
class Ablation:
    """One question that is asked again and again, each time without another part."""

    brain: Brain
    """What is to be asked."""
    journal: _CapturingQueue

    @classmethod
    def of(cls, brain: Brain) -> "Ablation":
        """Take a brain aside, so that nothing of this is written."""
        journal = _CapturingQueue(brain.services)
        embedder = _CachingEmbedder(brain.services.embedder)
        services = replace(brain.services, journal=journal, embedder=embedder)
        return cls(Brain(services, brain.caller), journal)

    def idle(self) -> frozenset[str]:
        """Name the features that nothing of what was last considered has."""
        return frozenset(
            name
            for name in _FEATURES
            if not any(one.features.get(name) for one in self.journal.considered)
        )
