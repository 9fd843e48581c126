"""`brain serve` as people start it: processes on a port, told to stop, several on one store."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from commonbrain_server.http.server import proxies_of
from commonbrain_server.settings import ServerSettings, load_server_settings
from mcp.client.subscriptions import SubscriptionLost

from commonbrain.mcp.resources import INBOX_URI
from commonbrain.model.errors import InvalidInputError
from commonbrain.storage.sqlite.driver import driver
from tests.hooking import call_hook
from tests.in_process import run_brain
from tests.processes import TIMEOUT_S, clean_environment, command
from tests.serving import client_at, free_port, started

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")
DRAIN_S = ServerSettings.model_fields["drain_s"].default
KETTLE = {"text": "The kettle is in the blue cupboard.", "kind": "fact"}


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Keep every writer waiting."""
    other = driver().connect(str(path), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


def send(port: int, body: dict[str, Any]) -> socket.socket:
    """Ask to remember, and do not wait for the answer."""
    content = json.dumps(body).encode()
    head = (
        "POST /v1/remember HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(content)}\r\nConnection: close\r\n\r\n"
    )
    connection = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
    connection.sendall(head.encode() + content)
    return connection


def read_all(connection: socket.socket) -> bytes:
    with connection, connection.makefile("rb") as answer:
        return answer.read()


def is_listening(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S).close()
    except OSError:
        return False
    return True


@pytest.mark.requirement("CL-09", "DO-28")
@pytest.mark.parametrize("workers", ["1", "2"])
def test_stopping_server_closes_its_port_and_finishes_calls_in_progress(
    path: Path, workers: str
) -> None:
    port = free_port()
    with started(path, "--workers", workers, port=port) as server:
        url = f"http://127.0.0.1:{port}"
        assert httpx2.post(f"{url}/v1/remember", json=KETTLE).status_code == 200
        with locked(path):
            waiting = send(port, {"text": "Ann is off on Fridays.", "kind": "fact"})
            # The server reads in order: whatever is answered now was asked after it.
            assert httpx2.get(f"{url}/healthz").status_code == 200
            server.send_signal(signal.SIGTERM)
            while is_listening(port):
                continue
        answer = read_all(waiting)
        server.wait(TIMEOUT_S)
        complaints = server.stderr.read() if server.stderr else b""

    assert answer.startswith(b"HTTP/1.1 200")
    assert b'"status":"stored"' in answer
    assert b"Traceback" not in complaints


def test_stopping_server_does_not_wait_for_a_client_that_listens(path: Path) -> None:
    port = free_port()

    async def listen(server: subprocess.Popen[bytes]) -> None:
        async with (
            client_at(f"http://127.0.0.1:{port}", key="any") as client,
            client.listen(resource_subscriptions=[INBOX_URI]) as events,
        ):
            server.send_signal(signal.SIGTERM)
            with pytest.raises(SubscriptionLost):
                await anext(events)

    with started(path, port=port) as server:
        asyncio.run(listen(server))
        server.wait(DRAIN_S / 2)
        complaints = server.stderr.read() if server.stderr else b""

    assert b"Traceback" not in complaints


def test_two_workers_serve_the_same_store(path: Path) -> None:
    port = free_port()
    with started(path, "--workers", "2", port=port) as server:
        url = f"http://127.0.0.1:{port}"
        stored = httpx2.post(f"{url}/v1/remember", json=KETTLE).json()["items"][0]["id"]
        for _ in range(8):
            # Each of these dials anew, so that either worker may take it.
            assert httpx2.get(f"{url}/v1/memories/{stored}").status_code == 200
            request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
            accepted = {"Accept": "application/json, text/event-stream"}
            reply = httpx2.post(f"{url}/mcp", json=request, headers=accepted)
            assert reply.json()["result"]["tools"]
        server.send_signal(signal.SIGTERM)
        assert server.wait(TIMEOUT_S) == 0


def test_only_configured_proxies_are_trusted_and_a_wildcard_is_refused() -> None:
    settings = load_server_settings(proxies=["10.0.0.7", "fd00::/8"])

    assert proxies_of(load_server_settings()) == []
    assert proxies_of(settings) == ["10.0.0.7/32", "fd00::/8"]
    with pytest.raises(InvalidInputError):
        load_server_settings(proxies=["*"])


def test_server_without_keys_refuses_calls_forwarded_by_a_proxy(path: Path) -> None:
    port = free_port()
    with started(path, port=port):
        url = f"http://127.0.0.1:{port}/v1/recall"
        assert httpx2.post(url).status_code == 200
        relayed = httpx2.post(url, headers={"X-Forwarded-For": "10.1.2.3"})
    assert (relayed.status_code, relayed.json()["code"]) == (403, "address_denied")


@pytest.mark.requirement("ST-16")
@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--open", "--host", "0.0.0.0"), "no_access_control"),  # noqa: S104 it is refused
        (("--open", "--host", "::"), "no_access_control"),
        (("--open", "--workers", "0"), "COMMONBRAIN_SERVE_WORKERS"),
        (("--open", "--url", "memory"), "COMMONBRAIN_SERVE_URL"),
    ],
)
def test_server_with_unsafe_or_invalid_options_does_not_start(
    path: Path, options: tuple[str, ...], says: str
) -> None:
    done = run_brain("--store", str(path), "serve", *options)
    assert done.status == 2
    assert says in done.err
    assert "Serving" not in done.err


@pytest.mark.requirement("ST-25")
@pytest.mark.parametrize("workers", ["1", "2"])
def test_server_whose_port_is_taken_makes_and_logs_no_link(path: Path, workers: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            command(path, "serve", "--port", port, "--workers", workers),
            capture_output=True,
            check=False,
            env=clean_environment(),
            timeout=TIMEOUT_S,
        )

    assert done.returncode != 0
    assert b"in use" in done.stderr
    assert b"join#" not in done.stderr
    keys = run_brain("--store", str(path), "key", "list", "--json")
    assert json.loads(keys.out)["keys"] == []


def test_server_exits_with_an_error_if_its_store_cannot_be_opened(path: Path) -> None:
    path.write_bytes(b"This is no store." * 100)
    line = command(path, "serve", "--open", "--workers", "2")
    done = subprocess.run(
        line, capture_output=True, check=False, env=clean_environment(), timeout=TIMEOUT_S
    )
    assert done.returncode == 6
    assert b"Traceback" not in done.stderr


def test_hook_is_answered_by_the_running_server_of_a_sqlite_store(tmp_path: Path) -> None:
    store, port = tmp_path / "brain.db", free_port()
    with started(store, port=port, COMMONBRAIN_STATE=str(tmp_path / "state")):
        httpx2.post(f"http://127.0.0.1:{port}/v1/remember", json=KETTLE).raise_for_status()
        answered = call_hook(
            store,
            "claude-code",
            "user-prompt-submit",
            told={"session_id": "one", "prompt": "in which cupboard is the kettle?"},
            COMMONBRAIN_HOOK_PROMPT_TIMEOUT_S="50",
            # Only a hook that opens the store itself refuses this.
            COMMONBRAIN_MCP_PROFILE="nonsense",
        )
    assert f"> {KETTLE['text']}" in answered.context
