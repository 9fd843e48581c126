"""The session of a request over HTTP: what names it, and the keys that the server gives."""

import json
import re
from collections.abc import Callable, Mapping
from hashlib import sha256
from secrets import token_hex
from typing import Any, Final, cast

from mcp_types import CLIENT_INFO_META_KEY
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import Message, Scope, Send

from commonbrain.model.limits import NAME_CHARS_MAX
from commonbrain.model.sessions import HTTP_PREFIX, printable_name

MCP_PATH: Final = "/mcp"
SESSION_HEADER: Final = "commonbrain-session"
MCP_SESSION_HEADER: Final = "mcp-session-id"
_HEADERS: Final = (SESSION_HEADER, MCP_SESSION_HEADER)
"""Headers that name a session; the first one present counts."""
_COOKIE: Final = "commonbrain-session"
"""Names the session of an MCP client whose protocol has none, if it keeps cookies."""
_VERSION_HEADER: Final = "mcp-protocol-version"
_STARTED: Final = "commonbrain.session"
"""The key in a request's scope under which a session is stored that it started."""
_TOKEN_BYTES: Final = 6
_NOT_PLAIN: Final = re.compile(r"[^a-z0-9.]+")
_UNKNOWN: Final = "client"
_CREDENTIAL_CHARS: Final = 4
_GIVEN: Final = re.compile(
    rf"{HTTP_PREFIX}([a-z0-9.-]+)(?:_[0-9a-f]{{{_CREDENTIAL_CHARS}}})?"
    rf"_[0-9a-f]{{{2 * _TOKEN_BYTES}}}"
)


def has_session_header(request: HTTPConnection) -> bool:
    """Return whether a header names the session."""
    return any(map(request.headers.get, _HEADERS))


def named_session(request: HTTPConnection) -> str | None:
    """Return the session that a header names, or over MCP a cookie."""
    named = next(filter(None, map(request.headers.get, _HEADERS)), None)
    if named is None and request.url.path == MCP_PATH:
        return request.cookies.get(_COOKIE) or None
    return named


def shared_key(client: str, *, credential: str | None = None) -> str:
    """Return the key of a client that never boots; its version, which updates change, is left out.

    A program that stores nothing between two calls does not start a session with each. Clients
    with separate credentials have separate keys.
    """
    words = (printable_name(client) or "").partition("/")[0].lower()
    plain = _NOT_PLAIN.sub("-", words)[: NAME_CHARS_MAX // 2].strip("-.")
    owner = f"_{sha256(credential.encode()).hexdigest()[:_CREDENTIAL_CHARS]}" if credential else ""
    return f"{HTTP_PREFIX}{plain or _UNKNOWN}{owner}"


def new_key(client: str, *, credential: str | None = None) -> str:
    """Make the key of a new session; it can be a header, a cookie or an argument."""
    return f"{shared_key(client, credential=credential)}_{token_hex(_TOKEN_BYTES)}"


def client_in_key(key: str | None) -> str | None:
    """Return the client's name in a key that the server gave."""
    given = _GIVEN.fullmatch(key or "")
    return given[1] if given else None


def set_started(scope: Scope, key: str) -> None:
    """Record that a request started a session, for its response."""
    scope[_STARTED] = key


def has_handshake(request: HTTPConnection) -> bool:
    """Return whether a message belongs to an MCP protocol with a handshake and sessions."""
    version = request.headers.get(_VERSION_HEADER)
    return version is None or version in HANDSHAKE_PROTOCOL_VERSIONS


def client_in_message(body: bytes) -> str | None:
    """Return the name of the client that an MCP message contains, if it does."""
    try:
        message: object = json.loads(body)
    except (ValueError, RecursionError):
        return None
    parameters = _object(_object(message).get("params"))
    in_envelope = _object(parameters.get("_meta")).get(CLIENT_INFO_META_KEY)
    name = _object(in_envelope or parameters.get("clientInfo")).get("name")
    return name if isinstance(name, str) else None


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def naming_session(send: Send, key: str) -> Send:
    """Add the header to a successful response by which an MCP client names its session."""

    def add(headers: MutableHeaders) -> None:
        headers[MCP_SESSION_HEADER] = key

    return _on_success(send, add)


def offering_cookie(send: Send, request: HTTPConnection, *, client: str, is_secure: bool) -> Send:
    """Add the cookie to a successful response by which a client can name its session.

    It names the session that the request started, if it did.
    """

    def add(headers: MutableHeaders) -> None:
        key = request.scope.get(_STARTED) or new_key(client)
        secure = "; Secure" if is_secure else ""
        cookie = f"{_COOKIE}={key}; Path={MCP_PATH}; HttpOnly; SameSite=Strict{secure}"
        headers.append("set-cookie", cookie)

    return _on_success(send, add)


_FAILED: Final = 400


def _on_success(send: Send, add: Callable[[MutableHeaders], None]) -> Send:
    async def send_with_session(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] < _FAILED:
            add(MutableHeaders(scope=message))
        await send(message)

    return send_with_session
