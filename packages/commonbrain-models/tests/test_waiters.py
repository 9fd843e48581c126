"""Callers that wait for an endpoint that hangs: a few, and no more."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from commonbrain_models.endpoint import RetryPolicy, WaiterGroup
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from commonbrain.model.errors import UnavailableError
from tests.model_server import Answer, ModelServer
from tests.processes import TIMEOUT_S


def test_caller_beyond_the_limit_does_not_wait_for_an_endpoint_that_does_not_reply() -> None:
    waiters = WaiterGroup(2, silence_s=0, longest_s=TIMEOUT_S)
    with waiters.joined(is_trial=False) as first, waiters.joined(is_trial=False) as second:
        assert first
        assert second
        with waiters.joined(is_trial=False) as third:
            assert not third
    with waiters.joined(is_trial=False) as later:
        assert later


def test_many_callers_may_wait_for_a_responding_endpoint() -> None:
    waiters = WaiterGroup(1, silence_s=TIMEOUT_S, longest_s=TIMEOUT_S)
    with waiters.joined(is_trial=False):
        waiters.heard(after_s=0)
        with waiters.joined(is_trial=False) as second:
            assert second


def test_rested_endpoint_is_tried_by_one_caller_at_a_time() -> None:
    waiters = WaiterGroup(2, silence_s=TIMEOUT_S, longest_s=TIMEOUT_S)
    with waiters.joined(is_trial=True) as first, waiters.joined(is_trial=True) as second:
        assert first
        assert not second


def test_more_callers_may_wait_for_an_endpoint_that_is_known_to_be_slow() -> None:
    waiters = WaiterGroup(1, silence_s=0, longest_s=TIMEOUT_S)
    waiters.heard(after_s=TIMEOUT_S)
    waiters.heard(after_s=0)
    with waiters.joined(is_trial=False), waiters.joined(is_trial=False) as second:
        assert second


def test_wait_never_exceeds_the_timeout_of_a_request() -> None:
    waiters = WaiterGroup(1, silence_s=0, longest_s=0)
    waiters.heard(after_s=TIMEOUT_S)
    with waiters.joined(is_trial=False), waiters.joined(is_trial=False) as second:
        assert not second


def test_slow_answers_of_long_ago_are_forgotten() -> None:
    waiters = WaiterGroup(1, silence_s=0, longest_s=TIMEOUT_S)
    waiters.heard(after_s=TIMEOUT_S)
    for _ in range(16):
        waiters.heard(after_s=0)
    with waiters.joined(is_trial=False), waiters.joined(is_trial=False) as second:
        assert not second


@pytest.mark.requirement("WP-48")
def test_slow_responding_endpoint_does_not_count_as_hanging(server: ModelServer) -> None:
    server.script += [Answer(is_late=True), Answer(hangs=True)]
    retry_policy = RetryPolicy(pause_s=0, failures_max=1, silence_s=0)
    embedder = server.embedder("openai", retry_policy=retry_policy, timeout_s=TIMEOUT_S, retries=0)
    embedder.query("first")
    with ThreadPoolExecutor(1) as pool:
        hanging = pool.submit(embedder.query, "second")
        until_asked(server, 2)
        assert embedder.query("third").any()
        server.closing.set()
        with pytest.raises(UnavailableError):
            hanging.result(TIMEOUT_S)


def until_asked(server: ModelServer, times: int) -> None:
    retrying = Retrying(
        retry=retry_if_result(lambda seen: not seen),
        wait=wait_fixed(0.005),
        stop=stop_after_delay(TIMEOUT_S),
    )
    retrying(lambda: len(server.requests) >= times)


@pytest.mark.requirement("WP-48")
def test_hanging_endpoint_occupies_one_caller_and_refuses_the_next(
    server: ModelServer,
) -> None:
    server.script.append(Answer(hangs=True))
    retry_policy = RetryPolicy(pause_s=0, failures_max=1, silence_s=0)
    embedder = server.embedder("openai", retry_policy=retry_policy, timeout_s=TIMEOUT_S, retries=0)
    with ThreadPoolExecutor(1) as pool:
        hanging = pool.submit(embedder.query, "first")
        until_asked(server, 1)
        with pytest.raises(UnavailableError, match="does not answer those who wait") as refused:
            embedder.query("second")
        server.closing.set()
        with pytest.raises(UnavailableError):
            hanging.result(TIMEOUT_S)
    assert (refused.value.code, len(server.requests)) == ("embedder_down", 1)
