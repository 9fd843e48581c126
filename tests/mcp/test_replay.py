"""What a bridge keeps of its client's messages, for the next server."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.mcp.replay import LineSplitter, ReplayBuffer


def line(**message: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode()


INITIALIZE = line(id=1, method="initialize", params={})
INITIALIZED = line(method="notifications/initialized")


def call(id_: object) -> bytes:
    return line(id=id_, method="tools/call", params={})


def answer(id_: object) -> bytes:
    return line(id=id_, result={})


def begun() -> ReplayBuffer:
    replay = ReplayBuffer()
    replay.take(INITIALIZE)
    replay.deliver(answer(1))
    replay.take(INITIALIZED)
    return replay


def test_messages_are_numbered_and_forwarded_unchanged() -> None:
    replay = ReplayBuffer()
    assert replay.take(INITIALIZE) == b"1 " + INITIALIZE + b"\n"
    assert replay.take(b"no JSON") == b"2 no JSON\n"
    assert replay.deliver(answer(1)) == answer(1) + b"\n"
    assert replay.unanswered == {}


def test_new_server_gets_the_handshake_and_the_client_no_second_answer() -> None:
    replay = begun()
    assert replay.resume() == (
        b"0 " + INITIALIZE + b"\n" + b"0 " + INITIALIZED + b"\n",
        b"",
    )
    assert replay.deliver(answer(1)) == b""
    assert replay.deliver(answer(1)) == answer(1) + b"\n"


def test_new_server_gets_unanswered_requests_of_the_last_server_marked() -> None:
    replay = ReplayBuffer()
    for id_ in (1, "1", 2, 3):
        replay.take(call(id_))
    replay.deliver(answer("1"))
    replay.take(line(method="notifications/cancelled", params={"requestId": 2}))
    assert replay.resume() == (b"1! " + call(1) + b"\n4! " + call(3) + b"\n", b"")


def test_new_server_gets_the_handshake_although_a_request_has_its_id() -> None:
    replay = begun()
    replay.take(call(1))
    frames, _ = replay.resume()
    assert frames.splitlines() == [b"0 " + INITIALIZE, b"0 " + INITIALIZED, b"3! " + call(1)]
    assert replay.deliver(answer(1)) == b""
    assert replay.deliver(answer(1)) == answer(1) + b"\n"


def test_new_server_gets_the_subscription_until_the_client_ends_it() -> None:
    replay = begun()
    subscribe = line(id=2, method="resources/subscribe", params={"uri": "inbox://unread"})
    replay.take(subscribe)
    replay.deliver(answer(2))
    frames, _ = replay.resume()
    assert frames.splitlines()[2:] == [b"0 " + subscribe]
    assert replay.deliver(answer(2)) == b""
    assert replay.unanswered == {}

    replay.take(line(id=3, method="resources/unsubscribe", params={"uri": "inbox://unread"}))
    replay.deliver(answer(3))
    assert replay.resume()[0].splitlines()[2:] == []


@pytest.mark.parametrize("method", ["resources/subscribe", "resources/unsubscribe"])
def test_refused_change_of_the_subscription_leaves_it_for_the_next_server(method: str) -> None:
    replay = begun()
    subscribe = line(id=2, method="resources/subscribe", params={"uri": "inbox://unread"})
    replay.take(subscribe)
    replay.deliver(answer(2))
    replay.take(line(id=3, method=method, params={"uri": "memory://1"}))
    replay.deliver(line(id=3, error={"code": -32602, "message": "not_found"}))
    frames, _ = replay.resume()
    assert frames.splitlines()[2:] == [b"0 " + subscribe]


def test_unanswered_handshake_is_sent_again_and_its_answer_delivered() -> None:
    replay = ReplayBuffer()
    replay.take(INITIALIZE)
    assert replay.resume() == (b"1! " + INITIALIZE + b"\n", b"")
    assert replay.deliver(answer(1)) == answer(1) + b"\n"


def test_call_that_ends_every_server_is_abandoned_with_an_error() -> None:
    replay = ReplayBuffer()
    replay.take(call(7))
    replay.resume()
    replay.resume()
    frames, errors = replay.resume()
    assert frames == b""
    assert json.loads(errors)["id"] == 7
    assert replay.resume() == (b"", b"")


def test_stream_is_sent_to_every_server() -> None:
    replay = ReplayBuffer()
    listen = line(id=7, method="subscriptions/listen", params={"notifications": {}})
    replay.take(listen)
    for _ in range(5):
        assert replay.resume() == (b"1! " + listen + b"\n", b"")


def test_session_notice_is_stored_for_the_next_server_and_not_sent_to_the_client() -> None:
    replay = ReplayBuffer()
    assert replay.deliver(b'{"session": "ses_1"}') == b""
    assert not replay.is_over
    assert replay.deliver(b'{"ended": true}') == b""
    assert (replay.session, replay.is_over) == ("ses_1", True)


@given(st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=5))
def test_lines_are_independent_of_how_the_data_is_split(data: bytes, cuts: list[int]) -> None:
    expected = [one for one in (data + b"\n").split(b"\n") if one.strip()]
    lines = LineSplitter()
    bounds = [0, *sorted(cuts), len(data) + 1]
    parts = [(data + b"\n")[low:high] for low, high in pairwise(bounds)]
    assert [one for part in parts for one in lines.feed(part)] == expected


def test_line_that_is_too_long_is_dropped_whole() -> None:
    lines = LineSplitter(bytes_max=3)
    assert lines.feed(b"12345") == []
    assert lines.feed(b"6") == []
    assert lines.feed(b"7\n123\n1234\n12\n") == [b"123", b"12"]
    assert lines.dropped == 2
