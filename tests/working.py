"""Workers, and an embedder that fails as a test says."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from commonbrain.client import Brain
from commonbrain.jobs.registry import JOBS
from commonbrain.jobs.worker import Listener, Worker
from commonbrain.model.atoms import Atom
from commonbrain.model.errors import UnavailableError
from commonbrain.model.kinds import Kind
from commonbrain.model.limits import ITEMS_PER_CALL_MAX
from commonbrain.model.memory import Draft
from commonbrain.testing.builders import WordHashEmbedder, a_brain


class Fragile(WordHashEmbedder):
    """Compares words while it is up."""

    def __init__(self) -> None:
        super().__init__()
        self.is_down = False
        self.calls = 0

    def passages(self, texts: Sequence[str]) -> Any:  # noqa: ANN401 as the stand-in has it
        self.calls += 1
        if self.is_down:
            raise UnavailableError("It is down.", code="embedder_down")
        return super().passages(texts)


class Breaking:
    """Has an unexpected fault."""

    name = "breaking"

    def atoms(self, text: str) -> Sequence[Atom]:
        raise LookupError(text)


def a_worker(
    brain: Brain,
    *,
    name: str = "w",
    on_event: Listener = lambda _what, _job: None,
    kinds: Collection[str] = tuple(JOBS),
) -> Worker:
    return Worker(services=brain.services, name=name, on_event=on_event, kinds=kinds)


def store_unembedded(path: Path, *, count: int) -> None:
    """Store events while the embedder is down, which leaves a job to embed them."""
    embedder = Fragile()
    embedder.is_down = True
    with a_brain(path, embedder=embedder) as brain:
        for start in range(0, count, ITEMS_PER_CALL_MAX):
            numbers = range(start, min(start + ITEMS_PER_CALL_MAX, count))
            reply = brain.remember([an_event(number) for number in numbers])
            assert {one.status for one in reply.items} == {"stored"}


def an_event(number: int) -> Draft:
    return Draft(body=f"Kettle{number} broke pot{number} because of x{number}.", kind=Kind.EVENT)


def states(brain: Brain) -> list[str]:
    """Give the states of all jobs, the newest first."""
    return [str(one.state) for one in brain.jobs(limit=100).jobs]
