"""What every request to the page must satisfy, and the headers of every response."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from commonbrain.model.errors import RejectedError

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


RawHeaders = Sequence[tuple[bytes, bytes]]
"""Headers as they are sent, with names in lower case."""


def raw_headers(headers: Mapping[str, str]) -> RawHeaders:
    """Return headers as they are sent."""
    return [(name.lower().encode(), value.encode()) for name, value in headers.items()]


_RAW: Final = raw_headers(HEADERS)


def with_headers(send: Send, defaults: RawHeaders) -> Send:
    """Add headers to every response that does not set them itself."""

    async def send_safely(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = list(message.get("headers", ()))
            names = {name for name, _ in own}
            message["headers"] = own + [one for one in defaults if one[0] not in names]
        await send(message)

    return send_safely


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginPolicy:
    """The hosts that are served, and the pages whose requests are: those of the same origin.

    A foreign page can point its own name to an address here, which `Host` reveals, and can send
    requests, which `Origin` and `Sec-Fetch-Site` reveal. Browsers send cookies to all ports of a
    host, so a page of another port is foreign.
    """

    hosts: frozenset[str]
    """Names and addresses, without ports, allowed in `Host`; `*` allows any."""
    url: str | None = None
    """The public URL, if a proxy may pass on another `Host` than that of the browser."""
    takes_links: bool = False
    """Whether a link of a foreign page may open an address here, in a window of its own."""

    def refusal(self, scope: Scope) -> tuple[RejectedError, HTTPStatus] | None:
        """Return why a request is refused, and the status of the response; None if it is not."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not self._is_served(host):
            error = RejectedError(
                "This host is not served here.",
                code="host_denied",
                hint="The server's operator can allow hosts: brain serve --allow-host NAME.",
            )
            return error, HTTPStatus.MISDIRECTED_REQUEST
        origin = headers.get("origin")
        is_own = origin is None or self._is_own_origin(origin, host)
        if is_own and (_has_own_site(headers) or (self.takes_links and _is_link(scope, headers))):
            return None
        error = RejectedError(
            "Pages of other origins may not call.",
            code="origin_denied",
            hint="Behind a proxy, the server's operator names its URL: brain serve --url URL.",
        )
        return error, HTTPStatus.FORBIDDEN

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


def _has_own_site(headers: Headers) -> bool:
    """Whether no foreign page made a request; programs do not send the header."""
    return headers.get("sec-fetch-site", "none") in {"same-origin", "none"}


def _is_link(scope: Scope, headers: Headers) -> bool:
    return scope["method"] in _READS and headers.get("sec-fetch-dest") == "document"


@dataclass(frozen=True, slots=True)
class RequestGuard:
    """Rejects requests that the policy refuses, and bodies without a known length."""

    app: ASGIApp
    _: KW_ONLY
    policy: OriginPolicy
    bytes_max: int
    by_path: Mapping[str, int] = field(default_factory=dict[str, int])
    """Limits of paths that take files, or forms of strangers."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on an allowed request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        send_safely = with_headers(send, _RAW)
        await (self._refusal(scope) or self.app)(scope, receive, send_safely)

    def _refusal(self, scope: Scope) -> Response | None:
        if refusal := self.policy.refusal(scope):
            error, status = refusal
            return _refuse(error.message, status)
        if scope["method"] in _READS:
            return None
        bytes_max = self.by_path.get(scope["path"], self.bytes_max)
        return _refusal_of_body(Headers(scope=scope), bytes_max=bytes_max)


def _refusal_of_body(headers: Headers, *, bytes_max: int) -> Response | None:
    declared = headers.get("content-length", "")
    if not declared.isdecimal() or len(declared) > _LENGTH_DIGITS_MAX:
        return _refuse("The length of the body is missing.", HTTPStatus.LENGTH_REQUIRED)
    if int(declared) > bytes_max:
        too_large = f"The body has more than {bytes_max} bytes. Send it in parts."
        return _refuse(too_large, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    return None


def _refuse(reason: str, status: HTTPStatus) -> Response:
    return PlainTextResponse(f"{reason}\n", status)
