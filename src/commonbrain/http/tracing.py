"""What an HTTP door adds for who watches: a span for every request.

The trace that a request belongs to is read from its `traceparent` (W3C Trace Context), and told in
the `traceparent` of the response. Without a tracer that somebody configured all of it does nothing.
"""

from __future__ import annotations

from typing import Final

from opentelemetry import propagate, trace
from opentelemetry.trace import SpanKind, Status, StatusCode
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_BROKEN: Final = 500


class TracingMiddleware:
    """Draws a span round every request; its name is the method, for a path may hold an id."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._tracer = trace.get_tracer("commonbrain")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on inside its span."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        before = propagate.extract(Headers(scope=scope))
        attributes = {"http.request.method": scope["method"]}
        with self._tracer.start_as_current_span(
            scope["method"],
            before,
            kind=SpanKind.SERVER,
            attributes=attributes,
            record_exception=False,
        ) as span:

            async def send_traced(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", message["status"])
                    if message["status"] >= _BROKEN:
                        span.set_status(Status(StatusCode.ERROR))
                    propagate.inject(MutableHeaders(scope=message))
                await send(message)

            await self._app(scope, receive, send_traced)
