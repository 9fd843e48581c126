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
from commonbrain.testing.builders import a_brain
from tests.processes import PATIENCE_S, clean_environment
from tests.server.serving import Era, an_app, free_port, listening

KETTLE = "The kettle is in the blue cupboard."
HEAVY = ("numpy", "onnxruntime", "pydantic", "sqlalchemy", "mcp", "typer", "httpx2", "asyncio")


def bridged(url: str, era: Era, **environment: str) -> Client:
    words = ["-m", "commonbrain", "mcp", "--url", url]
    env = clean_environment(**environment)
    parameters = StdioServerParameters(command=sys.executable, args=words, env=env)
    return Client(parameters, mode=era, read_timeout_seconds=PATIENCE_S)


def asked(bridge: StdioProxy, *lines: str) -> list[dict[str, Any]]:
    """Let a bridge carry some lines; give what it says."""
    said = bridge.out = io.StringIO()
    bridge.forward_all(lines)
    return [json.loads(line) for line in said.getvalue().splitlines()]


def a_bridge(url: str, *, key: str | None = "key-of-ann") -> StdioProxy:
    parts = urlsplit(f"{url}/mcp")
    return StdioProxy(url=parts, key=key, session="s1", out=io.StringIO())


def listing(number: int = 1) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/list", "params": {}})


@pytest.mark.requirement("DO-13")
async def test_a_client_works_over_the_bridge_as_the_key_s_agent(url: str, era: Era) -> None:
    async with bridged(url, era, COMMONBRAIN_KEY="key-of-ann") as client:
        stored = await client.call_tool("remember", {"text": KETTLE, "kind": "fact"})
        assert stored.structured_content
        [item] = stored.structured_content["items"]
        shown = await client.read_resource(f"memory://{item['id']}")
        assert KETTLE in str(shown.contents)
        told = await client.call_tool("get", {"id": item["id"]})
        assert told.structured_content
        assert told.structured_content["agent"] == "ann"
        assert told.structured_content["session"].startswith("bridge_")


def test_a_bridge_loads_nothing_heavy(url: str, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("key-of-ann\n")
    told = "import sys; from commonbrain.__main__ import main; main(); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", told, "mcp", f"--url={url}", "--key-file", str(key)],
        input=listing().encode(),
        capture_output=True,
        check=True,
        env=clean_environment(),
        timeout=PATIENCE_S,
    )
    answer, modules = done.stdout.decode().splitlines()
    assert json.loads(answer)["result"]["tools"]
    assert not {name.partition(".")[0] for name in modules.split()} & set(HEAVY)


async def test_a_server_that_is_gone_is_told_and_found_again_when_it_is_back(path: Path) -> None:
    brain = a_brain(path)
    nowhere = a_bridge(f"http://127.0.0.1:{free_port()}")
    [told] = await asyncio.to_thread(asked, nowhere, listing(7))
    assert told["id"] == 7
    assert told["error"]["message"].startswith("server_down: ")
    assert "brain serve" in told["error"]["message"]
    with listening(an_app(brain)) as url:
        nowhere.url = urlsplit(f"{url}/mcp")
        [found] = await asyncio.to_thread(asked, nowhere, listing(8))
    assert found["result"]["tools"]


MODERN = {
    "io.modelcontextprotocol/protocolVersion": LATEST_MODERN_VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
}


@pytest.mark.parametrize("ascii_only", [True, False])
def test_what_fits_no_header_reaches_the_server_all_the_same(url: str, *, ascii_only: bool) -> None:
    given = {"_meta": MODERN, "uri": "boot://проект"}
    read = {"jsonrpc": "2.0", "id": 2, "method": "resources/read", "params": given}
    [told] = asked(a_bridge(url), json.dumps(read, ensure_ascii=ascii_only))
    assert told["result"]["contents"]


@pytest.mark.parametrize("name", [["x"], 7, None, {"a": 1}, "\ud800", " "])
def test_a_name_that_is_none_is_answered_with_an_error(url: str, name: object) -> None:
    given = {"_meta": MODERN, "name": name, "arguments": {}}
    call = {"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": given}
    [told] = asked(a_bridge(url), json.dumps(call))
    assert told["id"] == 4
    assert told["error"]["code"]


def test_what_a_server_refuses_is_an_error_of_the_call(url: str) -> None:
    [told] = asked(a_bridge(url, key="key-of-nobody"), listing())
    assert told["error"]["message"].startswith("invalid_credential: ")


@pytest.mark.parametrize("line", ["{", "[]", "7", '{"jsonrpc": "2.0", "params": [1]'])
def test_what_is_no_message_is_said_to_be_none(url: str, line: str) -> None:
    first, second = asked(a_bridge(url), line, listing())
    assert {first["id"], second["id"]} == {None, 1}
    assert "error" in (first if first["id"] is None else second)


def test_a_notification_is_carried_and_not_answered(url: str) -> None:
    told = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert asked(a_bridge(url), told) == []


@pytest.mark.parametrize(
    "url", ["ftp://x", "http://", "x", "http://[", "http://ann:secret@x", "http://x:0"]
)
def test_a_url_that_cannot_be_used_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(InvalidInputError, match="cannot be used") as refused:
        run_proxy(url)
    assert "secret" not in str(refused.value)


def test_a_key_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="cannot be read"):
        run_proxy("http://127.0.0.1:1", key_file=tmp_path / "none")
