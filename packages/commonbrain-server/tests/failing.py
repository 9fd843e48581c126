"""A server that fails for a while, as one does that is restarted or has too many callers."""

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from commonbrain.testing.builders import a_brain
from tests.serving import an_app, listening


@dataclass(slots=True)
class Failing:
    """A server that fails with the listed statuses first."""

    app: ASGIApp
    statuses: list[int]
    retry_after_s: int = 0
    keys: list[str | None] = field(default_factory=list[str | None])
    calls: Counter[str] = field(default_factory=Counter[str])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        self.calls[request.url.path] += 1
        self.keys.append(request.headers.get("Idempotency-Key"))
        if self.statuses:
            await self.failure(self.statuses.pop(0))(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def failure(self, status: int) -> Response:
        return JSONResponse(
            {
                "type": "urn:commonbrain:late",
                "title": HTTPStatus(status).phrase,
                "status": status,
                "detail": "Not now.",
                "code": "late",
                "hint": "Try again.",
            },
            status,
            headers={"Retry-After": str(self.retry_after_s)},
        )


@contextmanager
def failing(path: Path, *statuses: int, retry_after_s: int = 0) -> Generator[tuple[Failing, str]]:
    server = Failing(an_app(a_brain(path)), [*statuses], retry_after_s)
    with listening(server) as url:
        yield server, url
