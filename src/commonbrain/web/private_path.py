"""Serves the page below a path that other programs of the machine do not know."""

import re
import secrets
from dataclasses import KW_ONLY, dataclass
from http import HTTPStatus
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from commonbrain.web.request_guard import HEADERS

_SECRET_BYTES: Final = 16
_ADDRESS: Final = re.compile(
    rb' (?:href|src|action|formaction|hx-get|hx-post|data-graph)="(?=/)|content="0; url=(?=/)'
)
"""What precedes an address of the page. No text of a memory has it: its quotes are escaped."""
_LOCATION: Final = re.compile(rb"^(?:https?://[^/]*)?(?=/)")
_ELSEWHERE: Final = PlainTextResponse(
    "This page has a private address. Run brain ui, which opens it.\n",
    HTTPStatus.NOT_FOUND,
    headers=HEADERS,
)


def new_private_path() -> str:
    """Return a path that cannot be guessed."""
    return f"/{secrets.token_urlsafe(_SECRET_BYTES)}"


@dataclass(frozen=True, slots=True)
class PrivatePath:
    """Serves an application below a path, of which it need not know, as a proxy does.

    Browsers send a cookie to every port of its host, so another program of this machine, on a port
    of its own, would get the session. They send it to its path only, which that program would have
    to know. A name below `.localhost` would do less: Safari may not resolve it, and browsers try
    the IPv6 loopback address as well, on whose port any user can listen.
    """

    app: ASGIApp
    _: KW_ONLY
    path: str
    """It begins with a slash, and does not end with one."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request below the path."""
        path: str = scope.get("path", "")
        if scope["type"] != "http":
            await self.app(scope, receive, send)
        elif path == self.path or path.startswith(f"{self.path}/"):
            inner = {**scope, "path": path.removeprefix(self.path) or "/"}
            await self.app(inner, receive, self._with_path(send))
        else:
            await _ELSEWHERE(scope, receive, send)

    def _with_path(self, send: Send) -> Send:
        """Put the path before the addresses in a response, and make it the path of its cookies."""
        start: Message = {}

        async def send_with_path(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [self._moved(*header) for header in message["headers"]]
                if MutableHeaders(scope=message).get("content-type", "").startswith("text/html"):
                    # Its length follows from its body, which comes as a whole.
                    start.update(message)
                    return
            elif start:
                message["body"] = _ADDRESS.sub(self._after, message["body"])
                MutableHeaders(scope=start)["content-length"] = str(len(message["body"]))
                await send({**start})
                start.clear()
            await send(message)

        return send_with_path

    def _moved(self, name: bytes, value: bytes) -> tuple[bytes, bytes]:
        match name:
            case b"location":
                return name, _LOCATION.sub(self._after, value, count=1)
            case b"set-cookie":
                return name, value.replace(b"; Path=/", b"; Path=" + self.path.encode())
            case _:
                return name, value

    def _after(self, match: re.Match[bytes]) -> bytes:
        return match[0] + self.path.encode()
