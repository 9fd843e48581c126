"""A server at a URL: its address, the key for it, and a request to it.

Hooks and the proxy use it, so imports must be fast.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import SplitResult, urlsplit

from commonbrain.model.errors import CommonbrainError, InvalidInputError, UnavailableError
from commonbrain.model.values import dataclass

KEY_VARIABLE: Final = "COMMONBRAIN_KEY"
"""The environment variable with the key, if there is no key file."""
_DOWN: Final = "server_down"
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
    bytes_max: int | None = None,
) -> HttpReply:
    """Send a JSON object and return the answer; redirects are not followed.

    Raises:
        UnavailableError: nothing answers within `timeout_s` at each step, or what answers is not
            Commonbrain: no JSON object, or one of more than `bytes_max` bytes.

    """
    # A hook that has nothing to ask does without it.
    from http.client import HTTPConnection, HTTPException, HTTPSConnection  # noqa: PLC0415

    kind = HTTPSConnection if url.scheme == "https" else HTTPConnection
    # One connection per message: a reused one can close during a request, and then it is unknown
    # whether the request was executed.
    connection = kind(url.hostname or "", url.port, timeout=timeout_s)
    try:
        connection.request("POST", url.path, body, dict(headers))
        response = connection.getresponse()
        read = response.read() if bytes_max is None else response.read(bytes_max + 1)
    except (OSError, HTTPException) as error:
        raise UnavailableError(
            f"The memory at {url.netloc} does not answer ({type(error).__name__}).",
            code=_DOWN,
            hint="Start it with brain serve, then call again.",
        ) from error
    finally:
        connection.close()
    is_whole = bytes_max is None or len(read) <= bytes_max
    answer = parse_object(read if is_whole else b"")
    if read and not answer:
        raise _foreign_error(response.status)
    return HttpReply(status=response.status, body=answer)


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
    if not is_usable or parts.username or parts.query:
        raise InvalidInputError(
            "The URL cannot be used.", hint="Give one such as http://127.0.0.1:8377."
        )
    path = parts.path.rstrip("/")
    return parts._replace(path=path if path.endswith("/mcp") else f"{path}/mcp")


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
