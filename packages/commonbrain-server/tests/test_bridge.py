"""The bridge from stdio to a running server: small, in both eras, and honest when it is gone."""

import asyncio
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp_types.version import LATEST_MODERN_VERSION

from commonbrain.mcp.proxy import StdioProxy, run_proxy
from commonbrain.model.errors import InvalidInputError
from tests.malformed import MALFORMED
from tests.processes import TIMEOUT_S, clean_environment
from tests.serving import Era, free_port

KETTLE = "The kettle is in the blue cupboard."
HEAVY = ("numpy", "onnxruntime", "pydantic", "sqlalchemy", "mcp", "typer", "httpx2", "asyncio")


def bridged(url: str, era: Era, **environment: str) -> Client:
    words = ["-m", "commonbrain", "mcp", "--url", url]
    env = clean_environment(**environment)
    parameters = StdioServerParameters(command=sys.executable, args=words, env=env)
    return Client(parameters, mode=era, read_timeout_seconds=TIMEOUT_S)


def carried(bridge: StdioProxy, *lines: str) -> list[dict[str, Any]]:
    """Let a bridge carry some lines; return its output."""
    output = bridge.out = io.StringIO()
    bridge.forward_all(lines)
    return [json.loads(line) for line in output.getvalue().splitlines()]


def a_bridge(url: str, *, key: str | None = "key-of-ann") -> StdioProxy:
    parts = urlsplit(f"{url}/mcp")
    return StdioProxy(url=parts, key=key, session="s1", out=io.StringIO())


def listing(number: int = 1) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/list", "params": {}})


@pytest.mark.requirement("DO-13")
async def test_client_acts_through_the_bridge_as_the_agent_of_its_key(url: str, era: Era) -> None:
    async with bridged(url, era, COMMONBRAIN_KEY="key-of-ann") as client:
        stored = await client.call_tool("remember", {"text": KETTLE, "kind": "fact"})
        assert stored.structured_content
        [item] = stored.structured_content["items"]
        shown = await client.read_resource(f"memory://{item['id']}")
        assert KETTLE in str(shown.contents)
        memory = await client.call_tool("get", {"id": item["id"]})
        assert memory.structured_content
        assert memory.structured_content["agent"] == "ann"
        assert memory.structured_content["session"].startswith("bridge_")


def test_bridge_imports_no_large_packages(url: str, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("key-of-ann\n")
    program = "import sys; from commonbrain.__main__ import main; main(); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program, "mcp", f"--url={url}", "--key-file", str(key)],
        input=listing().encode(),
        capture_output=True,
        check=True,
        env=clean_environment(),
        timeout=TIMEOUT_S,
    )
    answer, modules = done.stdout.decode().splitlines()
    assert json.loads(answer)["result"]["tools"]
    assert not {name.partition(".")[0] for name in modules.split()} & set(HEAVY)


async def test_missing_server_is_reported_and_used_once_it_answers(url: str) -> None:
    bridge = a_bridge(f"http://127.0.0.1:{free_port()}")
    [failure] = await asyncio.to_thread(carried, bridge, listing(7))
    assert failure["id"] == 7
    assert failure["error"]["message"].startswith("server_down: ")
    assert "brain serve" in failure["error"]["message"]
    bridge.url = urlsplit(f"{url}/mcp")
    [reply] = await asyncio.to_thread(carried, bridge, listing(8))
    assert reply["result"]["tools"]


MODERN = {
    "io.modelcontextprotocol/protocolVersion": LATEST_MODERN_VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
}


def test_resource_with_a_name_outside_ascii_is_read(url: str, subtests: pytest.Subtests) -> None:
    given = {"_meta": MODERN, "uri": "boot://проект"}
    read = {"jsonrpc": "2.0", "id": 2, "method": "resources/read", "params": given}
    for ascii_only in (True, False):
        with subtests.test(ascii_only=ascii_only):
            [reply] = carried(a_bridge(url), json.dumps(read, ensure_ascii=ascii_only))
            assert reply["result"]["contents"]


def test_request_whose_answer_is_a_stream_is_refused_at_once(url: str) -> None:
    given = {"_meta": MODERN, "notifications": {"resourcesListChanged": True}}
    listen = {"jsonrpc": "2.0", "id": 2, "method": "subscriptions/listen", "params": given}
    [reply] = carried(a_bridge(url), json.dumps(listen))
    assert (reply["id"], reply["error"]["code"]) == (2, -32601)


def test_call_with_an_invalid_tool_name_is_answered_with_an_error(
    url: str, subtests: pytest.Subtests
) -> None:
    names: list[object] = [["x"], 7, None, {"a": 1}, "\ud800", " "]
    for name in names:
        given = {"_meta": MODERN, "name": name, "arguments": {}}
        call = {"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": given}
        with subtests.test(name=ascii(name)):
            [reply] = carried(a_bridge(url), json.dumps(call))
            assert reply["id"] == 4
            assert reply["error"]["code"]


def test_every_malformed_message_is_answered(url: str, subtests: pytest.Subtests) -> None:
    for line, id_ in MALFORMED:
        with subtests.test(line=line[:80]):
            [reply] = carried(a_bridge(url), line.decode())
            assert reply["id"] == id_
            assert reply["error"]["code"] < 0


def test_refusal_by_the_server_is_returned_as_the_error_of_the_call(url: str) -> None:
    [reply] = carried(a_bridge(url, key="key-of-stranger"), listing())
    assert reply["error"]["message"].startswith("invalid_credential: ")


def test_line_that_is_not_a_message_is_answered_with_an_error(
    url: str, subtests: pytest.Subtests
) -> None:
    for line in ("{", "[]", "7", '{"jsonrpc": "2.0", "params": [1]'):
        with subtests.test(line=line):
            first, second = carried(a_bridge(url), line, listing())
            assert {first["id"], second["id"]} == {None, 1}
            assert "error" in (first if first["id"] is None else second)


def test_notification_is_not_answered(url: str) -> None:
    notification = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert carried(a_bridge(url), notification) == []


def test_unusable_url_is_refused_without_its_password_in_the_error(
    subtests: pytest.Subtests,
) -> None:
    for url in ("ftp://x", "http://", "x", "http://[", "http://ann:secret@x", "http://x:0"):
        with (
            subtests.test(url=url),
            pytest.raises(InvalidInputError, match="cannot be used") as refused,
        ):
            run_proxy(url)
        assert "secret" not in str(refused.value)


def test_missing_key_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="cannot be read"):
        run_proxy("http://127.0.0.1:1", key_file=tmp_path / "none")
