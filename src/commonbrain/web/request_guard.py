"""What every request to the page must satisfy, and the headers of every response."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS: Final[Mapping[str, str]] = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Headers of every page; a response may set its own `Cache-Control`."""
_LENGTH_DIGITS_MAX: Final = 12
_READS: Final = frozenset({"GET", "HEAD"})


def with_headers(send: Send, defaults: Mapping[str, str]) -> Send:
    """Add headers to every response that does not set them itself."""

    async def send_safely(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in defaults.items():
                headers.setdefault(name, value)
        await send(message)

    return send_safely


@dataclass(frozen=True, slots=True)
class RequestGuard:
    """Rejects requests to other hosts, from pages of other origins, and without a known length.

    A foreign page can point its own name to an address here, which `Host` reveals, and can send
    forms, which `Origin` reveals. Cookies are shared by all ports of a host, so the port counts.
    """

    app: ASGIApp
    _: KW_ONLY
    hosts: frozenset[str]
    """Names and addresses, without ports, allowed in `Host`; `*` allows any."""
    url: str | None = None
    """The public URL, if a proxy may pass on another `Host` than that of the browser."""
    bytes_max: int
    larger: Mapping[str, int] = field(default_factory=dict[str, int])
    """Limits of paths that take files."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on an allowed request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        send_safely = with_headers(send, HEADERS)

        bytes_max = self.larger.get(scope["path"], self.bytes_max)
        refusal = self._refusal(scope["method"], Headers(scope=scope), bytes_max=bytes_max)
        await (refusal or self.app)(scope, receive, send_safely)

    def _refusal(self, method: str, headers: Headers, *, bytes_max: int) -> Response | None:
        host = headers.get("host", "")
        if not self._is_served(host):
            return _refuse("This host is not served here.", HTTPStatus.MISDIRECTED_REQUEST)
        origin = headers.get("origin")
        if origin is not None and not self._is_own_origin(origin, host):
            return _refuse("Pages of this origin may not call.", HTTPStatus.FORBIDDEN)
        return None if method in _READS else _refusal_of_change(headers, bytes_max=bytes_max)

    def _is_served(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname
        except ValueError:
            return False
        return bool(name) and (name in self.hosts or "*" in self.hosts)

    def _is_own_origin(self, origin: str, host: str) -> bool:
        own = {host.lower(), urlsplit(self.url).netloc.lower() if self.url else host.lower()}
        try:
            return urlsplit(origin).netloc.lower() in own
        except ValueError:
            return False


def _refusal_of_change(headers: Headers, *, bytes_max: int) -> Response | None:
    if headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return _refuse("Pages of other sites may not call.", HTTPStatus.FORBIDDEN)
    declared = headers.get("content-length", "")
    if not declared.isdecimal() or len(declared) > _LENGTH_DIGITS_MAX:
        return _refuse("The length of the body is missing.", HTTPStatus.LENGTH_REQUIRED)
    if int(declared) > bytes_max:
        too_large = f"The body has more than {bytes_max} bytes. Send it in parts."
        return _refuse(too_large, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    return None


def _refuse(reason: str, status: HTTPStatus) -> Response:
    return PlainTextResponse(f"{reason}\n", status)
