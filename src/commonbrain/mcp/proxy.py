"""`brain mcp --url`: forwards one client's messages from stdin to a running server, and back.

It starts in a tenth of a second and takes a quarter of the memory of an embedded store, because it
loads only what it needs; everything imported here must load fast.
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
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from threading import Lock
from typing import Any, Final, TextIO, cast
from urllib.parse import SplitResult, urlsplit
from uuid import uuid4

from commonbrain.model.errors import CommonbrainError, InvalidInputError, UnavailableError

REQUESTS_MAX: Final = 8
"""Concurrent messages; further ones wait."""
RESPONSE_TIMEOUT_S: Final = 660.0
"""Longer than the longest timeout that a server can be set to."""
_FAILED: Final = -32000
"""JSON-RPC leaves this range to implementations."""
_MALFORMED: Final = -32700
_INTERNAL: Final = -32603
_CLIENT_CHARS_MAX: Final = 128
_PROTOCOL: Final = "io.modelcontextprotocol/protocolVersion"
"""The field with the protocol version of a message without a session."""
_HEADER_FIELDS: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""Methods whose target is repeated in a header, so that intermediaries need not parse the body."""

JsonObject = Mapping[str, Any]


@dataclass(slots=True)
class StdioProxy:
    """One client on stdin and stdout, and one server at a URL."""

    url: SplitResult
    key: str | None
    session: str
    out: TextIO
    protocol: str | None = None
    """The version agreed in the handshake, if there was one."""
    client: str = "commonbrain-bridge"
    """The client's name from the handshake, which later messages do not repeat."""
    lock: Lock = field(default_factory=Lock)

    def forward_all(self, lines: Iterable[str]) -> None:
        """Forward lines until there are no more; then wait for pending answers."""
        with ThreadPoolExecutor(REQUESTS_MAX, "message") as threads:
            for line in filter(str.strip, lines):
                under_way = threads.submit(self.forward, line)
                if '"initialize"' in line:
                    # Later messages use the version that is agreed here.
                    under_way.result()

    def forward(self, line: str) -> None:
        """Forward one message, and write the answer, or an error if there is none."""
        message = _parse_object(line)
        if not message:
            wrong = _error(_MALFORMED, "This is not one message of JSON-RPC.")
            self._write({"jsonrpc": "2.0", "id": None, "error": wrong})
            return
        try:
            answer = self._post(line.encode(), message)
        except CommonbrainError as error:
            answer = {"error": _error(_FAILED, f"{error.code}: {error}")}
        except Exception as error:  # noqa: BLE001 who asked waits for an answer, whatever happened
            answer = {"error": _error(_INTERNAL, f"internal: {type(error).__name__}")}
        if "id" in message and "method" in message and answer:
            if message["method"] == "initialize":
                self._remember_handshake(message, answer)
            self._write({**answer, "jsonrpc": "2.0", "id": message["id"]})

    def _remember_handshake(self, request: JsonObject, answer: JsonObject) -> None:
        self.protocol = _child_object(answer, "result").get("protocolVersion")
        client_info = _child_object(_child_object(request, "params"), "clientInfo")
        name = f"{client_info.get('name')}/{client_info.get('version')}"
        if client_info and name.isascii() and name.isprintable():
            self.client = name[:_CLIENT_CHARS_MAX]

    def _write(self, answer: JsonObject) -> None:
        with self.lock:
            self.out.write(json.dumps(answer, separators=(",", ":")) + "\n")
            self.out.flush()

    def _post(self, body: bytes, message: JsonObject) -> JsonObject:
        """Send a message and return the server's answer.

        Raises:
            UnavailableError: it does not answer, or its answer is not MCP.

        """
        kind = HTTPSConnection if self.url.scheme == "https" else HTTPConnection
        # A connection for each message: a kept one may close while it is used, and then nobody
        # knows whether the message was processed.
        connection = kind(self.url.hostname or "", self.url.port, timeout=RESPONSE_TIMEOUT_S)
        try:
            connection.request("POST", self.url.path or "/mcp", body, self._headers(message))
            return _parse_response(connection.getresponse())
        except (OSError, HTTPException) as error:
            raise UnavailableError(
                f"The memory at {self.url.netloc} does not answer ({type(error).__name__}).",
                code="server_down",
                hint="Start it with brain serve; the next call finds it again.",
            ) from error
        finally:
            connection.close()

    def _headers(self, message: JsonObject) -> dict[str, str]:
        parameters = _child_object(message, "params")
        method = str(message.get("method", ""))
        modern = _child_object(parameters, "_meta").get(_PROTOCOL)
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
        # A value that is not text is left out; the server reports what is wrong.
        return {
            name: _encode_header(value)
            for name, value in headers.items()
            if isinstance(value, str) and value
        }


def run_proxy(url: str, *, key_file: Path | None = None) -> None:
    """Serve one client over stdin and stdout from a running server until it disconnects.

    Raises:
        InvalidInputError: the URL or the key cannot be used.

    """
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, _leave)
    session = os.environ.get("COMMONBRAIN_SESSION") or f"bridge_{uuid4().hex[:16]}"
    key = read_key(key_file and expand_home(key_file))
    bridge = StdioProxy(url=endpoint(url), key=key, session=session, out=sys.stdout)
    bridge.forward_all(sys.stdin)


def run_proxy_command(words: list[str]) -> None:
    """Run the proxy for a command line, or give the reason in a line on stderr."""
    parser = ArgumentParser("brain mcp")
    parser.add_argument("--url", required=True)
    parser.add_argument("--key-file", type=Path)
    options = parser.parse_args(words)
    try:
        run_proxy(options.url, key_file=options.key_file)
    except CommonbrainError as error:
        print(f"{error.code}: {error}", file=sys.stderr)  # noqa: T201 it is what was asked for
        sys.exit(2)


def _leave(_signal: int, _frame: object) -> None:
    """Exit at once; the server finishes what was sent."""
    os._exit(0)


def endpoint(url: str) -> SplitResult:
    """Return the URL of MCP on a server.

    Raises:
        InvalidInputError: the URL cannot be used, or contains what may be a secret.

    """
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable, parts = False, urlsplit("")
    if not is_usable or parts.username or parts.query:
        raise InvalidInputError(
            "The URL cannot be used.", hint="Give one such as http://127.0.0.1:8377."
        )
    path = parts.path.rstrip("/")
    return parts._replace(path=path if path.endswith("/mcp") else f"{path}/mcp")


def expand_home(file: Path) -> Path:
    """Expand `~` in a path; no shell expands it in `--key-file=~/x`."""
    # A home directory of an unknown user stays as it is; such a file does not exist.
    return Path(os.path.expanduser(file))  # noqa: PTH111


def read_key(file: Path | None) -> str | None:
    """Read the key from a file or the environment; never from the command line.

    Raises:
        InvalidInputError: the file cannot be read, or its content is not a key.

    """
    try:
        text = file.read_text("utf-8") if file else os.environ.get("COMMONBRAIN_KEY", "")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(
            f"{file} cannot be read.", hint="Give a file with the key in it."
        ) from error
    return validate_key(text)


def validate_key(text: str) -> str | None:
    """Return a key without its line end; None if the text is empty.

    Raises:
        InvalidInputError: it is not a key; the message does not repeat it.

    """
    key = text.strip()
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise InvalidInputError("The key holds what no key does.", hint="Give the key alone.")
    return key or None


def _parse_response(response: HTTPResponse) -> JsonObject:
    body = response.read()
    if not body:
        return {}
    reply = _parse_object(body)
    if not reply:
        raise UnavailableError(
            f"What answers there is no memory (HTTP {response.status}).",
            code="server_down",
            hint="Check the URL.",
        )
    if "jsonrpc" in reply:
        return reply
    raise UnavailableError(
        str(reply.get("detail", f"HTTP {response.status}.")),
        code=str(reply.get("code", "server_down")),
        hint=str(reply.get("hint", "")),
    )


def _parse_object(text: str | bytes) -> JsonObject:
    """Parse a JSON object; return an empty one if it is not an object."""
    try:
        read: object = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return cast("JsonObject", read) if isinstance(read, dict) else {}


def _child_object(message: JsonObject, name: str) -> JsonObject:
    """Return a nested object; an empty one if it is not an object."""
    part: object = message.get(name)
    return cast("JsonObject", part) if isinstance(part, dict) else {}


def _encode_header(value: str) -> str:
    """Encode a header value as MCP does: as it is, or in base64 if it must be."""
    is_plain = value.isascii() and value.isprintable() and value == value.strip()
    if is_plain and not value.startswith("=?base64?"):
        return value
    return f"=?base64?{b64encode(value.encode()).decode()}?="


def _error(code: int, message: str) -> JsonObject:
    return {"code": code, "message": message}
