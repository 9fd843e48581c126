"""Workers, and an embedder that fails as a test says."""

from collections.abc import Collection, Sequence
from typing import Any

from commonbrain.brain import Brain
from commonbrain.domain.errors import Unavailable
from commonbrain.flows.upkeep.table import JOBS
from commonbrain.flows.upkeep.worker import Listener, Worker
from commonbrain.testing.deterministic_embedder import WordHashEmbedder


class Fragile(WordHashEmbedder):
    """Compares words while it is up."""

    def __init__(self) -> None:
        super().__init__()
        self.is_down = False
        self.calls = 0

    def passages(self, texts: Sequence[str]) -> Any:  # noqa: ANN401 as the stand-in has it
        self.calls += 1
        if self.is_down:
            raise Unavailable("It is down.", code="embedder_down")
        return super().passages(texts)


def a_worker(
    brain: Brain, *, tell: Listener = lambda _what, _job: None, kinds: Collection[str] = tuple(JOBS)
) -> Worker:
    return Worker(house=brain.house, name="w", tell=tell, kinds=kinds)


def states(brain: Brain) -> list[str]:
    """Give the states of all jobs, the newest first."""
    return [str(one.state) for one in brain.jobs(limit=100).jobs]
