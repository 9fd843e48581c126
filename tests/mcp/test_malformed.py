"""Messages that cannot be read: each gets an answer, and the connection stays."""

from pathlib import Path

import pytest

from tests.malformed import CALL, MALFORMED
from tests.stdio_servers import served

WRONG = (
    (CALL % (b"20", b'{"trust_min":NaN}'), "trust_min: Input should be a finite number"),
    (CALL % (b"21", b'{"trust_min":1e999}'), "trust_min: Input should be a finite number"),
    (CALL % (b"22", b'{"query":%s}' % (b"[" * 100 + b"]" * 100)), "nested more than"),
)


@pytest.mark.parametrize("shared", ["1", "0"])
def test_every_malformed_message_is_answered_by_a_shared_server_and_by_one_alone(
    tmp_path: Path, shared: str
) -> None:
    with served(tmp_path / "m.db", COMMONBRAIN_MCP_SHARED=shared) as server:
        server.shake_hands()
        for line, id_ in MALFORMED:
            answer = server.answer_to(line)
            assert (answer["error"]["code"], answer["id"]) == (-32700, id_), line[:80]
        for line, advice in WRONG:
            answer = server.answer_to(line)
            assert advice in answer["result"]["content"][0]["text"]
        twice = CALL % (b"30", b'{"query":"kettle"}')
        for line in (twice + b"\n" + twice, b""):
            assert server.answer_to(line)["id"] == 30
        code, rest, complaints = server.leave()

    assert (code, rest) == (0, b"")
    assert b"Traceback" not in complaints
