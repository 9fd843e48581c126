"""A shared server embeds behind its replies: tenants take turns, and closing waits for little."""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from threading import Barrier, BrokenBarrierError, Event, Thread

import pytest
from commonbrain_server.background_embedding import BackgroundEmbedding
from commonbrain_server.tenants import tenants_of

from commonbrain.client import Brain
from commonbrain.embeddings.interface import Matrix
from commonbrain.model.errors import UnavailableError
from commonbrain.model.limits import EMBED_BATCH, ITEMS_PER_CALL_MAX, JOB_SLICE_S
from commonbrain.model.memory import Draft
from commonbrain.model.scope import Caller
from commonbrain.runtime.stores import LocalQueue
from commonbrain.testing.builders import FakeClock, WordHashEmbedder, a_brain
from commonbrain.threads import DetachedExecutor
from tests.processes import TIMEOUT_S, until


def _set() -> Event:
    event = Event()
    event.set()
    return event


@dataclass
class SlowEmbedder(WordHashEmbedder):
    """Takes most of a time slice for each batch, the first of which waits until it may go.

    It rejects texts about cheese.
    """

    clock: FakeClock
    is_down: bool = True
    may_go: Event = field(default_factory=Event)
    has_begun: Event = field(default_factory=Event)
    ship_may_go: Event = field(default_factory=_set)
    ship_has_begun: Event = field(default_factory=Event)
    texts: list[str] = field(default_factory=list[str])

    def passages(self, texts: Sequence[str]) -> list[Matrix]:
        if self.is_down:
            raise UnavailableError("It is down.", code="embedder_down")
        self.has_begun.set()
        self.may_go.wait(TIMEOUT_S)
        if any("cheese" in text for text in texts):
            raise UnavailableError("No cheese.", code="embedder_down")
        if any("ship" in text for text in texts):
            self.ship_has_begun.set()
            self.ship_may_go.wait(TIMEOUT_S)
        self.texts += texts
        self.clock.move(timedelta(seconds=JOB_SLICE_S * 0.75 * len(texts) / EMBED_BATCH))
        return super().passages(texts)


@pytest.fixture
def embedder(clock: FakeClock) -> SlowEmbedder:
    return SlowEmbedder(clock=clock)


@pytest.fixture
def brain(path: Path, clock: FakeClock, embedder: SlowEmbedder) -> Iterator[Brain]:
    with a_brain(path, clock=clock, embedder=embedder) as brain:
        yield brain


@pytest.fixture
def background(brain: Brain) -> BackgroundEmbedding:
    """One thread that embeds for all tenants."""
    return BackgroundEmbedding(brain.services, DetachedExecutor(1, name="embedding"))


def store_without_vectors(brain: Brain, *texts: str) -> None:
    """Store texts while the embedder is down."""
    drafts = [Draft(body=text, kind="event") for text in texts]
    for start in range(0, len(drafts), ITEMS_PER_CALL_MAX):
        reply = brain.remember(drafts[start : start + ITEMS_PER_CALL_MAX])
        assert {one.status for one in reply.items} == {"stored"}


def recover(embedder: SlowEmbedder, clock: FakeClock) -> None:
    """Let the embedder answer again, and the jobs be due."""
    embedder.is_down = False
    clock.move(timedelta(minutes=1))


def another_tenant(brain: Brain) -> Brain:
    tenants_of(brain).make("other")
    return Brain(brain.services, Caller(tenant="other", agent="zoe"))


def embedding_threads() -> list[Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "embedding"]


@pytest.mark.requirement("PF-15")
@pytest.mark.parametrize("oldest", ["Kettle ann is hot.", "Ann likes cheese."])
def test_texts_of_a_tenant_wait_for_at_most_one_time_slice_of_another_tenant(
    brain: Brain,
    background: BackgroundEmbedding,
    embedder: SlowEmbedder,
    clock: FakeClock,
    oldest: str,
) -> None:
    other, count = another_tenant(brain), 3 * EMBED_BATCH
    store_without_vectors(brain, oldest)
    clock.move(timedelta(seconds=1))
    store_without_vectors(brain, *(f"Kettle{n} broke pot{n}." for n in range(count)))
    store_without_vectors(other, "The ship lies at the quay.")
    recover(embedder, clock)

    background.start(brain.caller)
    embedder.has_begun.wait(TIMEOUT_S)
    background.start(other.caller)
    embedder.may_go.set()
    until(lambda: not embedding_threads())

    assert "The ship lies at the quay." in embedder.texts[:count]
    assert other.status().embedding_pending == 0
    # Neither does a text that the embedder rejects keep the others from their turn.
    assert brain.status().embedding_pending == ("cheese" in oldest)


def test_tenant_of_a_text_stored_before_the_next_run_stays_registered_for_embedding(
    brain: Brain, background: BackgroundEmbedding, embedder: SlowEmbedder, clock: FakeClock
) -> None:
    other = another_tenant(brain)
    store_without_vectors(brain, "Ann likes cheese.")
    store_without_vectors(other, "The ship lies at the quay.")
    recover(embedder, clock)
    background.start(brain.caller)
    embedder.has_begun.wait(TIMEOUT_S)
    background.start(other.caller)
    embedder.ship_may_go.clear()
    embedder.may_go.set()
    # The tenant's next run waits behind that of the other tenant.
    assert embedder.ship_has_begun.wait(TIMEOUT_S)
    embedder.is_down = True
    store_without_vectors(brain, "Kettle one is hot.")
    embedder.is_down = False
    # As after a long text, which is embedded behind the reply.
    brain.services.unembedded.pop(brain.caller.tenant)
    background.start(brain.caller)
    embedder.ship_may_go.set()
    until(lambda: not embedding_threads())

    # The job is due later, since the embedder rejected a text; the next write starts it.
    assert brain.caller.tenant in brain.services.unembedded


def test_tenant_of_a_text_stored_during_a_failing_run_stays_registered_for_embedding(
    brain: Brain, embedder: SlowEmbedder, clock: FakeClock
) -> None:
    background = BackgroundEmbedding(brain.services, DetachedExecutor(2, name="embedding"))
    store_without_vectors(brain, "Ann likes cheese.")
    recover(embedder, clock)
    background.start(brain.caller)
    assert embedder.has_begun.wait(TIMEOUT_S)
    embedder.is_down = True
    store_without_vectors(brain, "Kettle one is hot.")
    embedder.is_down = False
    brain.services.unembedded.pop(brain.caller.tenant)
    # Another thread finds that the job runs already, and leaves the text to it.
    background.start(brain.caller)
    until(lambda: len(embedding_threads()) == 1)
    embedder.may_go.set()
    until(lambda: not embedding_threads())

    assert brain.caller.tenant in brain.services.unembedded


def test_embedding_job_running_at_shutdown_does_not_use_the_closed_store(
    path: Path,
    brain: Brain,
    background: BackgroundEmbedding,
    embedder: SlowEmbedder,
    clock: FakeClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    other = another_tenant(brain)
    store_without_vectors(brain, "Kettle one is hot.")
    store_without_vectors(other, "The ship lies at the quay.")
    recover(embedder, clock)
    background.start(brain.caller)
    embedder.has_begun.wait(TIMEOUT_S)
    background.start(other.caller)

    def close() -> None:
        background.close()
        brain.close()

    with caplog.at_level(logging.WARNING):
        at_once(close, close)
        background.start(other.caller)
        embedder.may_go.set()
        until(lambda: not embedding_threads())
        close()

    assert embedder.texts == ["Kettle one is hot."]
    assert caplog.records == []
    with a_brain(path) as again:
        assert again.status().embedding_pending == 1
        assert again.doctor().is_sound


class MeetingQueue(LocalQueue):
    """Notices if two threads close it at once."""

    def __init__(self) -> None:
        super().__init__()
        self.barrier = Barrier(2)
        self.have_met = False

    def close(self) -> None:
        try:
            self.barrier.wait(0.2)
            self.have_met = True
        except BrokenBarrierError:
            super().close()


def test_threads_that_close_concurrently_wait_for_each_other(path: Path) -> None:
    queue = MeetingQueue()
    opened = a_brain(path)
    brain = Brain(replace(opened.services, queue=queue), opened.caller)

    at_once(brain.close, brain.acting_as(agent="ben").close)

    assert not queue.have_met
    with pytest.raises(UnavailableError, match="was closed"):
        brain.status()


def at_once(*calls: Callable[[], None]) -> None:
    """Run calls in threads of their own, and wait for them."""
    threads = [Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)
