"""A memory stored without vectors has a job that embeds it, from the same transaction on."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest

from commonbrain.client import Brain
from commonbrain.model.errors import UnavailableError
from commonbrain.model.jobs import QueueMessage
from commonbrain.model.scope import Caller
from commonbrain.runtime.stores import LocalQueue
from commonbrain.storage.job_queue import EMBED
from commonbrain.testing.builders import FakeClock, a_brain
from tests.asking import FailingEmbedder, remember_one, stored
from tests.working import a_worker

LONG = "a " * 999
"""The longest handoff, in more windows than a shared server embeds before it answers."""
FACT = "The nightly build runs at three."


class BrokenQueue(LocalQueue):
    """Loses every message."""

    def put(self, ticket: QueueMessage) -> None:  # noqa: ARG002 as the queue has it
        raise UnavailableError("The queue does not answer.", code="queue_down")


@dataclass
class Started:
    """Counts what is started behind the reply, and does none of it, as a server that stops."""

    count: int = 0

    def __call__(self, _: Caller) -> None:
        self.count += 1


@pytest.fixture
def started() -> Started:
    return Started()


@pytest.fixture
def embedder() -> FailingEmbedder:
    return FailingEmbedder()


@pytest.fixture
def server(
    path: Path, clock: FakeClock, started: Started, embedder: FailingEmbedder
) -> Iterator[Brain]:
    """A brain of a shared server whose queue is down, and which stops after each reply."""
    with a_brain(path, clock=clock, embedder=embedder) as brain:
        services = replace(brain.services, embed_later=started, queue=BrokenQueue())
        yield Brain(services, replace(brain.caller, session="s1"))


def jobs(brain: Brain) -> list[str]:
    return [one.kind for one in brain.jobs(limit=100).jobs if one.kind == EMBED]


def remember(brain: Brain) -> None:
    assert remember_one(brain, LONG, kind="event").embedding_pending


def supersede(brain: Brain) -> None:
    old = stored(brain, FACT, kind="event")
    assert brain.revise.supersede(old, LONG, reason="moved").embedding_pending


def hand_over(brain: Brain) -> None:
    outcome = brain.session.handoff(LONG).outcome
    assert outcome is not None
    assert outcome.embedding_pending


def hand_over_again(brain: Brain) -> None:
    brain.session.handoff("The oven is built.")
    assert jobs(brain) == []
    hand_over(brain)


def end(brain: Brain) -> None:
    outcome = brain.session.end(LONG).outcome
    assert outcome is not None
    assert outcome.embedding_pending


def send(brain: Brain) -> None:
    assert brain.message.send("ben", LONG).embedding_pending


@pytest.mark.requirement("WP-52")
@pytest.mark.parametrize("write", [remember, supersede, hand_over, hand_over_again, end, send])
def test_embedding_job_of_a_long_text_is_stored_with_the_text(
    server: Brain, started: Started, write: Callable[[Brain], None]
) -> None:
    write(server)

    assert (jobs(server), started.count) == ([EMBED], 1)
    assert server.status().embedding_pending > 0
    a_worker(server, kinds=(EMBED,)).sweep()
    assert server.status().embedding_pending == 0


def test_embedding_job_of_a_marked_part_is_stored_with_the_part(
    server: Brain, embedder: FailingEmbedder
) -> None:
    text = "The team met at noon.\n@decision: The nightly build runs at three."
    first = remember_one(server, text, kind="event")
    [part] = first.derived
    assert part.id is not None
    server.forget(part.id, reason="an error")
    embedder.is_down = True

    again = remember_one(server, text, kind="event")

    assert (again.status, [one.status for one in again.derived]) == ("exists", ["stored"])
    assert (jobs(server), server.status().embedding_pending) == ([EMBED], 1)


def test_embedding_job_of_a_delegated_task_is_stored_while_the_embedder_is_down(
    server: Brain, embedder: FailingEmbedder
) -> None:
    embedder.is_down = True

    server.message.delegate("ben", FACT)

    assert (jobs(server), server.status().embedding_pending) == ([EMBED], 2)


def restore(brain: Brain, id_: str) -> None:
    brain.revise.restore(id_, reason="still true")


def undo(brain: Brain, _: str) -> None:
    count = brain.undo(reason="a mistake", agent="ann").count
    brain.undo(reason="a mistake", agent="ann", confirm=count)


@pytest.mark.parametrize("revive", [restore, undo])
def test_embedding_job_of_a_restored_memory_is_stored_while_the_embedder_is_down(
    server: Brain,
    embedder: FailingEmbedder,
    clock: FakeClock,
    revive: Callable[[Brain, str], None],
) -> None:
    id_ = stored(server.acting_as(agent="ben"), FACT, kind="fact")
    server.forget(id_, reason="an error")
    embedder.is_down = True

    revive(server, id_)

    assert (jobs(server), server.status().embedding_pending) == ([EMBED], 1)
    embedder.is_down = False
    clock.move(timedelta(minutes=1))
    a_worker(server, kinds=(EMBED,)).sweep()
    assert server.status().embedding_pending == 0


def test_restored_memory_with_vectors_has_no_embedding_job(server: Brain) -> None:
    id_ = stored(server, FACT, kind="fact")
    server.forget(id_, reason="an error")

    restore(server, id_)

    assert jobs(server) == []


def test_embedding_job_of_imported_memories_is_stored_while_the_embedder_is_down(
    server: Brain, embedder: FailingEmbedder, tmp_path: Path
) -> None:
    archive = tmp_path / "store.jsonl"
    with a_brain(tmp_path / "other.db") as other:
        stored(other, FACT, kind="fact")
        other.export(archive)
    embedder.is_down = True

    server.merge(archive)

    assert (jobs(server), server.status().embedding_pending) == ([EMBED], 1)
