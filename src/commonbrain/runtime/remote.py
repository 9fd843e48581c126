"""A server at a URL: its address, the key for it, and a request to it.

Hooks and the proxy use it, so imports must be fast.
"""

import json
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any, Final, cast
from urllib.parse import SplitResult, urlsplit

from commonbrain.model.errors import CommonbrainError, InvalidInputError, UnavailableError
from commonbrain.model.values import dataclass

KEY_VARIABLE: Final = "COMMONBRAIN_KEY"
"""The environment variable with the key, if there is no key file."""
_DOWN: Final = "server_down"
_INFORMATIONAL: Final = 199
"""The last status of a response that precedes another one."""
_PART_BYTES: Final = 65_536
_LEAST_S: Final = 0.01
_TEXT_CHARS_MAX: Final = 1000
"""Of each text of an error that a server describes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpReply:
    """The status of a response, and the JSON object in its body; empty without a body."""

    status: int
    body: Mapping[str, Any]

    def error(self) -> CommonbrainError:
        """Return the error that a refusal describes as Problem Details, if it is one."""
        if "detail" not in self.body:
            return _foreign_error(self.status)
        detail, code, hint = (
            str(self.body.get(name, ""))[:_TEXT_CHARS_MAX] for name in ("detail", "code", "hint")
        )
        return UnavailableError(detail, code=code or _DOWN, hint=hint)


def _foreign_error(status: int) -> UnavailableError:
    return UnavailableError(
        f"The server there is not Commonbrain (HTTP {status}).", code=_DOWN, hint="Check the URL."
    )


def post(
    url: SplitResult,
    body: bytes,
    *,
    headers: Mapping[str, str],
    timeout_s: float,
    bytes_max: int,
) -> HttpReply:
    """Send a JSON object and return the answer; redirects are not followed.

    The standard library's client takes a quarter of the time of a hook to import.

    Raises:
        UnavailableError: nothing answers in time, or what answers is not Commonbrain: no JSON
            object, or a response of more than `bytes_max` bytes.

    """
    until = monotonic() + timeout_s
    try:
        with _connect(url, timeout_s=timeout_s) as connection:
            connection.sendall(_head(url, headers, length=len(body)) + body)
            status, content = _Response(connection, until=until, bytes_max=bytes_max).read()
    except (OSError, ValueError) as error:
        raise UnavailableError(
            f"The memory at {url.netloc} does not answer ({type(error).__name__}).",
            code=_DOWN,
            hint="Start it with brain serve, then call again.",
        ) from error
    answer = parse_object(content)
    if content and not answer:
        raise _foreign_error(status)
    return HttpReply(status=status, body=answer)


def _connect(url: SplitResult, *, timeout_s: float) -> socket.socket:
    # One connection per message: a reused one can close during a request, and then it is unknown
    # whether the request was executed.
    host, is_encrypted = url.hostname or "", url.scheme == "https"
    port = url.port or (443 if is_encrypted else 80)
    # Python would load a codec for a name that is text.
    name: Any = host.encode() if host.isascii() else host
    connection = socket.create_connection((name, port), timeout_s)
    if not is_encrypted:
        return connection
    # Only HTTPS needs it.
    from ssl import create_default_context  # noqa: PLC0415

    try:
        return create_default_context().wrap_socket(connection, server_hostname=host)
    except (OSError, ValueError):
        connection.close()
        raise


def _head(url: SplitResult, headers: Mapping[str, str], *, length: int) -> bytes:
    host = url.netloc if url.netloc.isascii() else url.netloc.encode("idna").decode()
    fields = {"Host": host, "Content-Length": str(length), "Connection": "close", **headers}
    lines = [f"POST {url.path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    if not all(line.isascii() and line.isprintable() for line in lines):
        raise ValueError("A header has other characters.")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


class _Response:
    """The response on a connection (RFC 9112), which is read until a deadline."""

    def __init__(self, connection: socket.socket, *, until: float, bytes_max: int) -> None:
        self._connection = connection
        self._until = until
        self._left = bytes_max
        self._read = b""

    def read(self) -> tuple[int, bytes]:
        """Return the status and the content.

        Raises:
            OSError: it does not arrive in time, or not whole.
            ValueError: it is no response of HTTP, or too long.

        """
        status = _INFORMATIONAL
        fields: dict[str, str] = {}
        while status <= _INFORMATIONAL:
            version, code, *_ = self._line().split(" ", 2)
            if not version.startswith("HTTP/1."):
                raise ValueError(version[:20])
            status, fields = int(code), {}
            while line := self._line():
                name, _, value = line.partition(":")
                fields[name.strip().lower()] = value.strip()
        if "chunked" in fields.get("transfer-encoding", "").lower():
            return status, b"".join(iter(self._chunk, b""))
        length = fields.get("content-length")
        return status, self._rest() if length is None else self._exactly(int(length))

    def _chunk(self) -> bytes:
        chunk = self._exactly(int(self._line().partition(";")[0], 16))
        self._line()
        return chunk

    def _line(self) -> str:
        while b"\n" not in self._read:
            self._receive()
        line, _, self._read = self._read.partition(b"\n")
        return line.decode("latin-1").removesuffix("\r")

    def _exactly(self, length: int) -> bytes:
        if not 0 <= length <= self._left + len(self._read):
            raise ValueError("The response is too long.")
        parts = [self._read]
        missing = length - len(self._read)
        while missing > 0:
            self._read = b""
            self._receive()
            parts.append(self._read)
            missing -= len(self._read)
        content = b"".join(parts)
        self._read = content[length:]
        return content[:length]

    def _rest(self) -> bytes:
        parts: list[bytes] = []
        with suppress(ConnectionResetError):
            while True:
                parts.append(self._read)
                self._read = b""
                self._receive()
        return b"".join(parts)

    def _receive(self) -> None:
        self._connection.settimeout(max(_LEAST_S, self._until - monotonic()))
        part = self._connection.recv(_PART_BYTES)
        self._left -= len(part)
        if not part:
            raise ConnectionResetError
        if self._left < 0:
            raise ValueError("The response is too long.")
        self._read += part


def parse_object(text: str | bytes) -> Mapping[str, Any]:
    """Parse a JSON object; an empty one if the text is something else."""
    try:
        read: object = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return cast("Mapping[str, Any]", read) if isinstance(read, dict) else {}


def endpoint(url: str) -> SplitResult:
    """Return the MCP endpoint of a server.

    Raises:
        InvalidInputError: the URL is not valid, or may contain a secret.

    """
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable, parts = False, urlsplit("")
    if not is_usable or parts.username or parts.query or parts.fragment:
        raise InvalidInputError(
            "The URL cannot be used.", hint="Give one such as http://127.0.0.1:8377."
        )
    path = parts.path.rstrip("/")
    return parts._replace(path=path if path.endswith("/mcp") else f"{path}/mcp")


_JOIN: Final = "/join"
_JOIN_S: Final = 30
_KEY_BYTES_MAX: Final = 10_000


def split_invitation(url: str) -> tuple[str, str | None]:
    """Split the link of an invitation, `URL/join#INVITATION`; another URL is returned whole."""
    at, _, invitation = url.partition("#")
    if not at.endswith(_JOIN) or not invitation:
        return url, None
    return at.removesuffix(_JOIN), validate_key(invitation)


def exchange_invitation(url: str, invitation: str) -> str:
    """Exchange an invitation to the server at `url` for a key of one's own; it works once.

    Raises:
        InvalidInputError: the URL is not valid.
        UnavailableError: nothing answers; or the server refuses it, as used, over or revoked.

    """
    at = endpoint(url)
    path = at.path.removesuffix("/mcp") + "/v1/join"
    reply = post(
        at._replace(path=path),
        b"",
        headers={"Authorization": f"Bearer {invitation}", "Accept": "application/json"},
        timeout_s=_JOIN_S,
        bytes_max=_KEY_BYTES_MAX,
    )
    key = validate_key(str(reply.body.get("key", "")))
    if key is None:
        raise reply.error()
    return key


def expand_home(file: Path) -> Path:
    """Expand `~` in a path, since shells do not expand it in `--key-file=~/x`."""
    # An unknown user's home stays as it is; no such file exists.
    return Path(os.path.expanduser(file))  # noqa: PTH111


def read_key(file: Path | None) -> str | None:
    """Read the key from a file, or from the environment; never from the command line.

    Raises:
        InvalidInputError: the file cannot be read, or the key is not valid.

    """
    try:
        text = file.read_text("utf-8") if file else os.environ.get(KEY_VARIABLE, "")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(
            f"{file} cannot be read.", hint="Give a file with the key in it."
        ) from error
    return validate_key(text)


def validate_key(text: str) -> str | None:
    """Return a key without its line end; None for an empty text.

    Raises:
        InvalidInputError: the key is not valid; the message does not repeat it.

    """
    key = text.strip()
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise InvalidInputError("The key contains invalid characters.", hint="Give the key alone.")
    return key or None
