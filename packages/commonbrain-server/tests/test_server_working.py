"""The threads that calls are worked on in: how many, how long, and what is left behind."""

import asyncio
import gc
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event, Semaphore
from weakref import ref

import anyio
import httpx2
import pytest
from anyio.abc import TaskGroup
from commonbrain_server.http.app import BodyLimits

from commonbrain.api.thread_limiter import ThreadLimiter, enter_lane
from commonbrain.embeddings.interface import Matrix
from commonbrain.embeddings.local import MiniLmEmbedder
from commonbrain.model.errors import BusyError, LimitExceededError, UnavailableError
from commonbrain.model.scope import Caller
from commonbrain.testing.builders import WordHashEmbedder, a_brain
from tests.observability.reading import events
from tests.processes import TIMEOUT_S
from tests.serving import an_app, calling, listening


async def test_call_beyond_its_time_limit_raises_and_occupies_its_thread_until_it_ends() -> None:
    threads, go_on = ThreadLimiter(1, seconds_max=0.05), Event()
    done: list[str] = []
    try:
        with pytest.raises(UnavailableError, match="may still be done") as late:
            await threads.run(lambda: go_on.wait(TIMEOUT_S))
        assert late.value.code == "deadline"
        with pytest.raises(BusyError, match="not started") as early:
            await threads.run(lambda: done.append("second"))
        assert early.value.retry_after_s
    finally:
        go_on.set()
    # The second is never begun: whoever asked has gone by now.
    done.append(await threads.run(lambda: "third"))
    assert done == ["third"]


async def test_timeout_error_of_a_call_is_raised_unchanged() -> None:
    def fail() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        await ThreadLimiter(1, seconds_max=TIMEOUT_S).run(fail)


async def test_cancelled_call_without_a_time_limit_is_awaited() -> None:
    begun, go_on = Event(), Event()

    def work() -> str:
        begun.set()
        go_on.wait(TIMEOUT_S)
        return "done"

    seen: list[str] = []

    async def ask() -> None:
        seen.append(await ThreadLimiter(1).run(work))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await asyncio.to_thread(begun.wait, TIMEOUT_S)
        tasks.cancel_scope.cancel()
        go_on.set()
    assert seen == ["done"]


async def test_one_caller_cannot_take_all_threads() -> None:
    threads, go_on, order = ThreadLimiter(4, seconds_max=TIMEOUT_S), Event(), list[str]()

    async def call(lane: str, *, waits: bool) -> None:
        enter_lane(Caller(agent=lane))
        await threads.run(lambda: (go_on.wait(TIMEOUT_S) if waits else None, order.append(lane)))

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(partial(call, "greedy", waits=True))
        # Two of the four threads are left, though the other caller came first and 18 calls wait.
        await call("modest", waits=False)
        assert order == ["modest"]
        go_on.set()
    assert order[1:] == ["greedy"] * 20


async def test_caller_with_too_many_calls_is_rate_limited() -> None:
    threads, go_on, refused = ThreadLimiter(4, seconds_max=0.3), Event(), list[str]()
    enter_lane(Caller(agent="greedy"))
    try:
        async with anyio.create_task_group() as tasks:

            async def call() -> None:
                with suppress(UnavailableError, LimitExceededError):
                    await threads.run(
                        lambda: go_on.wait(TIMEOUT_S),
                        on_refusal=lambda error, _waited_s: refused.append(error.code),
                    )

            for _ in range(3):
                tasks.start_soon(call)
    finally:
        go_on.set()
    assert refused == ["rate_limited"]


async def test_cancelled_waiting_calls_are_garbage_collected() -> None:
    threads, go_on = ThreadLimiter(1, seconds_max=TIMEOUT_S), Event()
    begun = Event()
    held: list[ref[Event]] = []

    def work() -> None:
        begun.set()
        go_on.wait(TIMEOUT_S)

    def begin(tasks: TaskGroup) -> None:
        request = Event()
        held.append(ref(request))
        tasks.start_soon(threads.run, request.set)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(threads.run, work)
        await asyncio.to_thread(begun.wait, TIMEOUT_S)
        async with anyio.create_task_group() as group:
            for _ in range(3):
                begin(group)
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
        gc.collect()
        assert [one() for one in held] == [None] * 3
        go_on.set()


async def test_waiting_callers_are_served_in_turn() -> None:
    threads, begun, go_on = ThreadLimiter(1, seconds_max=TIMEOUT_S), Event(), Event()
    order: list[str] = []

    def work(lane: str) -> None:
        begun.set()
        go_on.wait(TIMEOUT_S)
        order.append(lane)

    async def call(lane: str) -> None:
        enter_lane(Caller(agent=lane))
        await threads.run(partial(work, lane))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call, "first")
        await asyncio.to_thread(begun.wait, TIMEOUT_S)
        for lane in ("a", "a", "a", "b", "c"):
            tasks.start_soon(call, lane)
        await anyio.wait_all_tasks_blocked()
        go_on.set()
    assert order == ["first", "a", "b", "c", "a", "a"]


@dataclass
class SlowQueries(WordHashEmbedder):
    """Embeds questions about ships only when it may."""

    may_go: Event = field(default_factory=Event)
    waiting: Semaphore = field(default_factory=lambda: Semaphore(0))

    def query(self, text: str) -> Matrix:
        if "ship" in text:
            self.waiting.release()
            self.may_go.wait(TIMEOUT_S)
        return super().query(text)


def test_slow_calls_of_one_agent_leave_threads_to_others(path: Path) -> None:
    embedder = SlowQueries()
    brain = a_brain(path, embedder=embedder)
    app = an_app(brain, limits=BodyLimits(calls_at_once=4))

    def recall(key: str, query: str) -> int:
        headers = {"X-API-Key": key}
        body = {"query": query}
        return httpx2.post(f"{url}/v1/recall", json=body, headers=headers, timeout=60).status_code

    with listening(app) as url, ThreadPoolExecutor(6) as pool:
        slow = [pool.submit(recall, "key-of-ann", "ship") for _ in range(6)]
        try:
            assert all(embedder.waiting.acquire(timeout=TIMEOUT_S) for _ in range(2))
            assert recall("key-of-ben", "kettle") == 200
            assert httpx2.get(f"{url}/readyz", timeout=60).status_code == 200
            assert not embedder.waiting.acquire(blocking=False)
        finally:
            embedder.may_go.set()
        assert [one.result() for one in slow] == [200] * 6


@pytest.mark.requirement("DO-27")
def test_server_accepts_calls_only_when_its_model_is_loaded(path: Path) -> None:
    embedder = MiniLmEmbedder()
    assert not embedder.is_loaded
    with calling(an_app(a_brain(path, embedder=embedder))):
        assert embedder.is_loaded


def test_call_without_a_free_thread_is_refused_with_a_retry_time(path: Path) -> None:
    embedder = SlowQueries()
    brain = a_brain(path, embedder=embedder)
    app = an_app(brain, limits=BodyLimits(calls_at_once=1, request_s=3.0))

    def recall(key: str, query: str) -> httpx2.Response:
        headers = {"X-API-Key": key}
        return httpx2.post(f"{url}/v1/recall", json={"query": query}, headers=headers, timeout=60)

    with listening(app) as url, ThreadPoolExecutor(1) as pool:
        slow = pool.submit(recall, "key-of-ann", "ship")
        try:
            assert embedder.waiting.acquire(timeout=TIMEOUT_S)
            refused = recall("key-of-ben", "kettle")
        finally:
            embedder.may_go.set()
        slow.result()

        assert refused.status_code == 503
        assert refused.json()["code"] == "busy"
        assert int(refused.headers["Retry-After"]) > 0
        assert recall("key-of-ben", "kettle").status_code == 200
        # The operator sees it too.
        seen = [one for one in events(brain) if one.agent == "ben"]
        assert sorted(one.outcome for one in seen) == ["busy", "ok"]
        assert max(one.duration_ms for one in seen) >= 1000
