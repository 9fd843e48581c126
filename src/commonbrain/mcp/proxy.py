"""`brain mcp --url`: forwards one client's messages between stdio and a running server.

It starts in 0.1 s and uses a quarter of a brain's memory, because it imports only what it needs;
all imports here must be fast.
"""

import json
import os
import signal
import sys
from argparse import ArgumentParser
from base64 import b64encode
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Final, TextIO
from urllib.parse import SplitResult
from uuid import uuid4

from commonbrain.api.project_folder import LEFT_ON, find_folder_config, switched_off_error
from commonbrain.mcp.replay import child_object, describe_malformed, is_message
from commonbrain.model.errors import CommonbrainError
from commonbrain.model.limits import NAME_CHARS_MAX
from commonbrain.model.sessions import SESSION_VARIABLES
from commonbrain.runtime.pause import pause_in, paused_error
from commonbrain.runtime.remote import endpoint, expand_home, parse_object, post, read_key
from commonbrain.text.private_parts import without_private_values

REQUESTS_MAX: Final = 8
"""Concurrent messages; further ones wait."""
RESPONSE_TIMEOUT_S: Final = 660.0
"""Longer than the longest request timeout of a server."""
_RESPONSE_BYTES_MAX: Final = 256 * 1024 * 1024
"""Far above the largest answer of a server."""
_FAILED: Final = -32000
"""A server-defined error code of JSON-RPC."""
_INTERNAL: Final = -32603
_CLIENT_CHARS_MAX: Final = 128
_PROTOCOL: Final = "io.modelcontextprotocol/protocolVersion"
"""Where a message of the stateless protocol carries its version."""
_HEADER_FIELDS: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""Methods whose target is also a header, for intermediaries that do not read the body."""

JsonObject = Mapping[str, Any]


@dataclass(slots=True)
class StdioProxy:
    """Connects one client on stdio with one server at a URL."""

    url: SplitResult
    key: str | None
    session: str
    out: TextIO
    protocol: str | None = None
    """The protocol version of the handshake; None before it."""
    client: str = "commonbrain-bridge"
    """The client's name in the handshake; later messages do not contain it."""
    lock: Lock = field(default_factory=Lock)

    def forward_all(self, lines: Iterable[str]) -> None:
        """Forward every line; at the end, wait for the answers in progress."""
        with ThreadPoolExecutor(REQUESTS_MAX, "message") as threads:
            for line in filter(str.strip, lines):
                under_way = threads.submit(self.forward, line)
                if '"initialize"' in line:
                    # Later messages use the protocol version of its answer.
                    under_way.result()

    def forward(self, line: str) -> None:
        """Forward one message and write the answer, or an error if there is none."""
        message = parse_object(line)
        if not is_message(message):
            self._write(parse_object(describe_malformed(line.encode(errors="replace"))))
            return
        try:
            answer = _answer_here(message) or self._post(
                without_private_values(line.encode()), message
            )
        except CommonbrainError as error:
            answer = {"error": _error(_FAILED, f"{error.code}: {error}")}
        except Exception as error:  # noqa: BLE001 the client waits for an answer
            answer = {"error": _error(_INTERNAL, f"internal: {type(error).__name__}")}
        if "id" in message and "method" in message and answer:
            if message["method"] == "initialize":
                self._remember_handshake(message, answer)
            self._write({**answer, "jsonrpc": "2.0", "id": message["id"]})

    def _remember_handshake(self, request: JsonObject, answer: JsonObject) -> None:
        self.protocol = child_object(answer, "result").get("protocolVersion")
        client_info = child_object(child_object(request, "params"), "clientInfo")
        name = f"{client_info.get('name')}/{client_info.get('version')}"
        if client_info and name.isascii() and name.isprintable():
            self.client = name[:_CLIENT_CHARS_MAX]
        if session := _session_of(str(client_info.get("name"))):
            # Its hooks name the same one.
            self.session = session

    def _write(self, answer: JsonObject) -> None:
        with self.lock:
            self.out.write(json.dumps(answer, separators=(",", ":")) + "\n")
            self.out.flush()

    def _post(self, body: bytes, message: JsonObject) -> JsonObject:
        """Send a message and return the server's answer.

        Raises:
            UnavailableError: the server does not answer, or the answer is not from Commonbrain.

        """
        reply = post(
            self.url,
            body,
            headers=self._headers(message),
            timeout_s=RESPONSE_TIMEOUT_S,
            bytes_max=_RESPONSE_BYTES_MAX,
        )
        if reply.body and "jsonrpc" not in reply.body:
            raise reply.error()
        return reply.body

    def _headers(self, message: JsonObject) -> dict[str, str]:
        parameters = child_object(message, "params")
        method = str(message.get("method", ""))
        modern = child_object(parameters, "_meta").get(_PROTOCOL)
        param_name = parameters.get(_HEADER_FIELDS.get(method, ""))
        headers: dict[str, object] = {
            "Authorization": f"Bearer {self.key}" if self.key else None,
            "Commonbrain-Session": self.session,
            "MCP-Protocol-Version": modern or self.protocol,
            "Mcp-Method": method if modern else None,
            "Mcp-Name": param_name if modern else None,
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "User-Agent": self.client,
        }
        # Values that are not text are left out: the server reports them.
        return {
            name: _encode_header(value)
            for name, value in headers.items()
            if isinstance(value, str) and value
        }


_LISTEN: Final = "subscriptions/listen"
"""A request whose answer is a stream, which ends with the subscription."""
_NOT_FOUND: Final = -32601
READ_TOOLS: Final = frozenset(
    {"audit", "boot", "get", "list", "recall", "recalls", "review", "skill", "status", "trace"}
)
"""Tools that store nothing, which a pause leaves on."""


def _answer_here(message: JsonObject) -> JsonObject | None:
    """Return the reply to a message that is not forwarded.

    That is a call of a tool that the user paused, or a folder switched off, on this machine: the
    server has neither the user's state nor the folder. Streams are not forwarded either.
    """
    if message.get("method") == _LISTEN:
        return {"error": _error(_NOT_FOUND, "This connection has no subscriptions.")}
    if message.get("method") != "tools/call":
        return None
    tool = child_object(message, "params").get("name")
    pause = None if tool in READ_TOOLS else pause_in(os.environ)
    file = None if tool in LEFT_ON else find_folder_config(Path.cwd()).memory_off_by
    if pause:
        error = paused_error(pause)
    elif file:
        error = switched_off_error(file)
    else:
        return None
    text = {"type": "text", "text": f"{error.code}: {error}"}
    return {"result": {"content": [text], "isError": True}}


def run_proxy(url: str, *, key_file: Path | None = None) -> None:
    """Connect a client on stdin and stdout to a running server until it disconnects.

    Raises:
        InvalidInputError: the URL or the key is not valid.

    """
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, _leave)
    session = os.environ.get("COMMONBRAIN_SESSION") or f"bridge_{uuid4().hex[:16]}"
    key = read_key(key_file and expand_home(key_file))
    bridge = StdioProxy(url=endpoint(url), key=key, session=session, out=sys.stdout)
    bridge.forward_all(sys.stdin)


def run_proxy_command(words: list[str]) -> None:
    """Run the proxy from command line arguments; an error is one line on stderr."""
    parser = ArgumentParser("brain mcp")
    parser.add_argument("--url", required=True)
    parser.add_argument("--key-file", type=Path)
    options = parser.parse_args(words)
    try:
        run_proxy(options.url, key_file=options.key_file)
    except CommonbrainError as error:
        print(f"{error.code}: {error}", file=sys.stderr)  # noqa: T201 the output of the command
        sys.exit(2)


def _session_of(client: str) -> str | None:
    """Return the client's own session, which it passes to what it starts, if it is usable."""
    session = os.environ.get(SESSION_VARIABLES.get(client, ""), "")
    is_usable = session.isascii() and session.isprintable() and len(session) <= NAME_CHARS_MAX
    return session if is_usable and not os.environ.get("COMMONBRAIN_SESSION") else None


def _leave(_signal: int, _frame: object) -> None:
    """Exit at once: the server finishes the requests it has received."""
    os._exit(0)


def _encode_header(value: str) -> str:
    """Encode a text for an MCP header: as it is, or in base64 if it contains other characters."""
    is_plain = value.isascii() and value.isprintable() and value == value.strip()
    if is_plain and not value.startswith("=?base64?"):
        return value
    return f"=?base64?{b64encode(value.encode()).decode()}?="


def _error(code: int, message: str) -> JsonObject:
    return {"code": code, "message": message}
