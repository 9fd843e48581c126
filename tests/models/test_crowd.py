"""Who waits for an endpoint that hangs: a few, and nobody behind them."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from commonbrain.embeddings.endpoint import RetryPolicy, WaiterGroup
from commonbrain.model.errors import UnavailableError
from tests.models.server import Answer, ModelServer
from tests.processes import PATIENCE_S


def test_who_comes_when_all_that_wait_hear_nothing_does_not_join_them() -> None:
    crowd = WaiterGroup(2, silence_s=0, longest_s=PATIENCE_S)
    with crowd.joined(is_trial=False) as first, crowd.joined(is_trial=False) as second:
        assert first
        assert second
        with crowd.joined(is_trial=False) as third:
            assert not third
    with crowd.joined(is_trial=False) as later:
        assert later


def test_many_may_wait_for_what_answers() -> None:
    crowd = WaiterGroup(1, silence_s=PATIENCE_S, longest_s=PATIENCE_S)
    with crowd.joined(is_trial=False):
        crowd.heard(after_s=0)
        with crowd.joined(is_trial=False) as second:
            assert second


def test_what_rested_is_tried_by_one_alone() -> None:
    crowd = WaiterGroup(2, silence_s=PATIENCE_S, longest_s=PATIENCE_S)
    with crowd.joined(is_trial=True) as first, crowd.joined(is_trial=True) as second:
        assert first
        assert not second


def test_what_took_long_to_answer_is_waited_for_as_long_by_more() -> None:
    crowd = WaiterGroup(1, silence_s=0, longest_s=PATIENCE_S)
    crowd.heard(after_s=PATIENCE_S)
    crowd.heard(after_s=0)
    with crowd.joined(is_trial=False), crowd.joined(is_trial=False) as second:
        assert second


def test_nobody_is_waited_for_longer_than_a_request_may_take() -> None:
    crowd = WaiterGroup(1, silence_s=0, longest_s=0)
    crowd.heard(after_s=PATIENCE_S)
    with crowd.joined(is_trial=False), crowd.joined(is_trial=False) as second:
        assert not second


def test_slow_answers_of_long_ago_are_forgotten() -> None:
    crowd = WaiterGroup(1, silence_s=0, longest_s=PATIENCE_S)
    crowd.heard(after_s=PATIENCE_S)
    for _ in range(16):
        crowd.heard(after_s=0)
    with crowd.joined(is_trial=False), crowd.joined(is_trial=False) as second:
        assert not second


@pytest.mark.requirement("WP-48")
def test_a_slow_endpoint_that_answers_is_not_taken_for_one_that_hangs(server: ModelServer) -> None:
    server.script += [Answer(is_late=True), Answer(hangs=True)]
    retry_policy = RetryPolicy(pause_s=0, failures_max=1, silence_s=0)
    embedder = server.embedder("openai", retry_policy=retry_policy, timeout_s=PATIENCE_S, retries=0)
    embedder.query("first")
    with ThreadPoolExecutor(1) as pool:
        hanging = pool.submit(embedder.query, "second")
        until_asked(server, 2)
        assert embedder.query("third").any()
        server.closing.set()
        with pytest.raises(UnavailableError):
            hanging.result(PATIENCE_S)


def until_asked(server: ModelServer, times: int) -> None:
    asked = Retrying(
        retry=retry_if_result(lambda seen: not seen),
        wait=wait_fixed(0.005),
        stop=stop_after_delay(PATIENCE_S),
    )
    asked(lambda: len(server.asked) >= times)


@pytest.mark.requirement("WP-48")
def test_an_endpoint_that_hangs_takes_one_caller_and_the_next_is_told_at_once(
    server: ModelServer,
) -> None:
    server.script.append(Answer(hangs=True))
    retry_policy = RetryPolicy(pause_s=0, failures_max=1, silence_s=0)
    embedder = server.embedder("openai", retry_policy=retry_policy, timeout_s=PATIENCE_S, retries=0)
    with ThreadPoolExecutor(1) as pool:
        hanging = pool.submit(embedder.query, "first")
        until_asked(server, 1)
        with pytest.raises(UnavailableError, match="does not answer those who wait") as told:
            embedder.query("second")
        server.closing.set()
        with pytest.raises(UnavailableError):
            hanging.result(PATIENCE_S)
    assert (told.value.code, len(server.asked)) == ("embedder_down", 1)
