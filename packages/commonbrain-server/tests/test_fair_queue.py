"""Tenants take turns at a local model, and a tenant with too much work must wait."""

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from time import monotonic

import pytest
from commonbrain_server.fair_queue import FairQueue, Lane, QueuedEmbedder
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.clock import UNTIL
from commonbrain.model.errors import BusyError, UnavailableError
from commonbrain.model.limits import CALL_WINDOWS_MAX
from commonbrain.testing.builders import WordHashEmbedder
from tests.processes import TIMEOUT_S, until

ACME, BETA, CORP = (Lane(tenant=name) for name in ("acme", "beta", "corp"))
TURN = 4
"""Windows in one turn at a model that embeds one at a time."""
Submit = Callable[[Lane, str, int], Future[None]]


@contextmanager
def occupied(queue: FairQueue, done: list[str]) -> Generator[Submit]:
    """Queue calls behind one that uses the model until the block ends."""
    begun, may_end = Event(), Event()

    def occupy(_: Sequence[int]) -> None:
        begun.set()
        may_end.wait(TIMEOUT_S)

    with ThreadPoolExecutor(16) as pool:
        first = pool.submit(queue.run, Lane(tenant="first"), [0], work=occupy)
        begun.wait(TIMEOUT_S)
        submitted: list[Future[None]] = []

        def submit(lane: Lane, name: str, size: int) -> Future[None]:
            def call() -> None:
                queue.run(lane, range(size), work=lambda _: done.append(name))

            submitted.append(pool.submit(call))
            until(lambda: queue.waiting == sum(not one.done() for one in submitted))
            return submitted[-1]

        try:
            yield submit
        finally:
            may_end.set()
        first.result(TIMEOUT_S)


@pytest.mark.requirement("PF-15")
def test_tenant_with_much_work_delays_another_by_one_turn() -> None:
    queue, done = FairQueue(1), list[str]()
    with occupied(queue, done) as submit:
        submit(ACME, "a", 3 * TURN)
        submit(BETA, "b", 1)
        submit(CORP, "c", 2 * TURN)
    assert done == ["a", "b", "c", "a", "c", "a"]


@pytest.mark.requirement("PF-15")
def test_calls_of_a_tenant_are_served_in_order() -> None:
    queue, done = FairQueue(1), list[str]()
    with occupied(queue, done) as submit:
        submit(ACME, "first", 2 * TURN)
        submit(ACME, "second", 2 * TURN)
        submit(BETA, "b", 2 * TURN)
    assert done == ["first", "b", "first", "b", "second", "second"]


def test_background_work_of_a_tenant_takes_turns_with_its_calls() -> None:
    queue, done = FairQueue(1), list[str]()
    background = Lane(tenant="acme", is_background=True)
    with occupied(queue, done) as submit:
        submit(background, "job", 2 * TURN)
        submit(ACME, "call", TURN)
    assert done == ["job", "call", "job"]


@pytest.mark.requirement("PF-15")
def test_full_queue_refuses_a_call_with_a_retry_time() -> None:
    queue, done = FairQueue(1), list[str]()
    with occupied(queue, done) as submit:
        submit(ACME, "a", CALL_WINDOWS_MAX - 1)
        refused = submit(ACME, "too much", 2)
        others = submit(BETA, "b", 2)
        error = refused.exception(TIMEOUT_S)
    assert isinstance(error, BusyError)
    assert (error.code, error.retry_after_s) == ("busy", 5)
    assert others.exception(TIMEOUT_S) is None
    assert done.count("b") == 1
    # Room comes back.
    assert queue.run(ACME, range(2), work=len) == [2]


def test_single_call_may_exceed_the_limit_of_the_queue() -> None:
    sizes = FairQueue(25).run(ACME, range(CALL_WINDOWS_MAX + 1), work=len)

    assert sizes == [100, 100, 57]


def test_call_after_its_deadline_is_not_started() -> None:
    queue, done = FairQueue(1), list[str]()
    token = UNTIL.set(monotonic())
    try:
        with pytest.raises(UnavailableError) as late:
            queue.run(ACME, [1], work=lambda _: done.append("done"))
    finally:
        UNTIL.reset(token)
    assert (late.value.code, done) == ("deadline", [])


def test_call_that_waits_beyond_its_deadline_leaves_the_queue() -> None:
    queue, done = FairQueue(1), list[str]()

    def wait_briefly() -> None:
        UNTIL.set(monotonic() + 0.05)
        queue.run(ACME, [1], work=lambda _: done.append("late"))

    with occupied(queue, done) as submit:
        submit(BETA, "b", 1)
        with ThreadPoolExecutor(1) as pool:
            late = pool.submit(wait_briefly)
            with pytest.raises(BusyError):
                late.result(TIMEOUT_S)
        assert queue.waiting == 1
    assert done == ["b"]


def test_turn_is_released_after_an_error_of_the_model() -> None:
    queue = FairQueue(1)

    def fail(_: Sequence[int]) -> None:
        raise UnavailableError("It is down.", code="embedder_down")

    with pytest.raises(UnavailableError, match="It is down"):
        queue.run(ACME, [1], work=fail)
    assert queue.run(ACME, [1], work=len) == [1]


@given(st.lists(st.text("ab ", max_size=400), max_size=5), st.integers(1, 5))
def test_queued_embedder_returns_the_same_vectors_as_its_embedder(
    texts: list[str], size: int
) -> None:
    embedder = WordHashEmbedder()
    queued = QueuedEmbedder(embedder=embedder, queue=FairQueue(size), lane=ACME)

    for there, alone in zip(queued.passages(texts), embedder.passages(texts), strict=True):
        assert (there == alone).all()


@pytest.mark.requirement("PF-15")
def test_query_is_embedded_without_waiting_for_texts() -> None:
    queue = FairQueue(1)
    queued = QueuedEmbedder(embedder=WordHashEmbedder(), queue=queue, lane=ACME)
    with occupied(queue, []) as submit:
        submit(ACME, "a", 9)
        assert queued.query("Where does Ann live?").any()
