"""What a bridge remembers of its client's messages, for the next server."""

import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from commonbrain.api.operation import Profile
from commonbrain.config import Settings
from commonbrain.mcp.bridge import FALSE_WORDS, PROFILES
from commonbrain.mcp.conversation import Conversation, Lines
from commonbrain.runtime.callers import CommandLine, parse_command_line


def line(**message: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode()


INITIALIZE = line(id=1, method="initialize", params={})
INITIALIZED = line(method="notifications/initialized")


def call(id_: object) -> bytes:
    return line(id=id_, method="tools/call", params={})


def answer(id_: object) -> bytes:
    return line(id=id_, result={})


def begun() -> Conversation:
    conversation = Conversation()
    conversation.take(INITIALIZE)
    conversation.deliver(answer(1))
    conversation.take(INITIALIZED)
    return conversation


def test_messages_are_numbered_and_forwarded_unchanged() -> None:
    conversation = Conversation()
    assert conversation.take(INITIALIZE) == b"1 " + INITIALIZE + b"\n"
    assert conversation.take(b"no JSON") == b"2 no JSON\n"
    assert conversation.deliver(answer(1)) == answer(1) + b"\n"
    assert conversation.unanswered == {}


def test_a_new_server_gets_the_handshake_and_the_client_no_second_answer() -> None:
    conversation = begun()
    assert conversation.resume() == (
        b"0 " + INITIALIZE + b"\n" + b"0 " + INITIALIZED + b"\n",
        b"",
    )
    assert conversation.deliver(answer(1)) == b""
    assert conversation.deliver(answer(1)) == answer(1) + b"\n"


def test_a_new_server_gets_marked_what_the_last_one_did_not_answer() -> None:
    conversation = Conversation()
    for id_ in (1, "1", 2, 3):
        conversation.take(call(id_))
    conversation.deliver(answer("1"))
    conversation.take(line(method="notifications/cancelled", params={"requestId": 2}))
    assert conversation.resume() == (b"1! " + call(1) + b"\n4! " + call(3) + b"\n", b"")


def test_an_unanswered_handshake_is_sent_again_and_its_answer_delivered() -> None:
    conversation = Conversation()
    conversation.take(INITIALIZE)
    assert conversation.resume() == (b"1! " + INITIALIZE + b"\n", b"")
    assert conversation.deliver(answer(1)) == answer(1) + b"\n"


def test_a_call_that_ends_every_server_is_given_up() -> None:
    conversation = Conversation()
    conversation.take(call(7))
    conversation.resume()
    conversation.resume()
    frames, errors = conversation.resume()
    assert frames == b""
    assert json.loads(errors)["id"] == 7
    assert conversation.resume() == (b"", b"")


def test_the_session_is_for_the_next_server_and_not_for_the_client() -> None:
    conversation = Conversation()
    assert conversation.deliver(b'{"session": "ses_1"}') == b""
    assert not conversation.is_over
    assert conversation.deliver(b'{"ended": true}') == b""
    assert (conversation.session, conversation.is_over) == ("ses_1", True)


@given(st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=5))
def test_lines_are_the_same_however_they_arrive(data: bytes, cuts: list[int]) -> None:
    whole = [one for one in (data + b"\n").split(b"\n") if one.strip()]
    lines = Lines()
    bounds = [0, *sorted(cuts), len(data) + 1]
    parts = [(data + b"\n")[low:high] for low, high in pairwise(bounds)]
    assert [one for part in parts for one in lines.feed(part)] == whole


def test_a_line_that_is_too_long_is_dropped_whole() -> None:
    lines = Lines(bytes_max=3)
    assert lines.feed(b"12345") == []
    assert lines.feed(b"6") == []
    assert lines.feed(b"7\n123\n1234\n12\n") == [b"123", b"12"]
    assert lines.dropped == 2


def test_options_before_a_command_are_parsed() -> None:
    names = CommandLine(store="b.db", agent="ann", session="s", words=("mcp",))
    words = ["--store", "b.db", "--agent=ann", "mcp"]
    environment = {"COMMONBRAIN_SESSION": "s", "COMMONBRAIN_AGENT": "x"}
    assert parse_command_line(words, environment) == names
    for other in (["--store", "mcp"], ["--x", "mcp"], ["--store"], []):
        assert parse_command_line(other, {}) is None
    with_option = parse_command_line(["recall", "--agent", "x", "--", "mcp"], {})
    assert with_option == CommandLine(words=("recall", "--agent", "x", "--", "mcp"))


def test_settings_are_read_as_the_settings_read_them() -> None:
    assert {"", *Profile} == PROFILES
    assert [word for word in FALSE_WORDS if Settings(mcp_shared=word).mcp_shared] == []  # type: ignore[arg-type]
