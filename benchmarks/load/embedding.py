"""An embedder that is asked over HTTP, as OpenAI's is, and that can be made to hang."""

from __future__ import annotations

import json
import socket
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Final

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

if TYPE_CHECKING:
    from collections.abc import Generator

    from starlette.requests import Request

    from commonbrain.embeddings.interface import Embedder

MODEL: Final = "all-MiniLM-L6-v2"


@dataclass(slots=True)
class Endpoint:
    """Where the model of a store is served; while it does not go on, it takes what is sent."""

    embedder: Embedder
    goes_on: Event = field(default_factory=Event)
    url: str = ""

    @property
    def settings(self) -> dict[str, str]:
        """The settings by which a server uses it."""
        return {
            "COMMONBRAIN_EMBEDDER": "openai",
            "COMMONBRAIN_EMBEDDER_URL": self.url,
            "COMMONBRAIN_EMBEDDER_MODEL": MODEL,
            "COMMONBRAIN_EMBEDDER_DIMENSIONS": str(self.embedder.space.dimensions),
        }

    @property
    def space(self) -> str:
        """The name that servers give its vectors."""
        return f"openai/{MODEL}/{self.embedder.space.dimensions}"

    async def answer(self, request: Request) -> Response:
        """Embed, or say nothing for as long as it hangs."""
        given: dict[str, Any] = json.loads(await request.body())
        body = await anyio.to_thread.run_sync(self._embedded, given["input"])
        return Response(body, media_type="application/json")

    def _embedded(self, texts: list[str]) -> bytes:
        self.goes_on.wait()
        made = [windows[0].tolist() for windows in self.embedder.passages(texts)]
        data = [{"index": at, "embedding": vector} for at, vector in enumerate(made)]
        return json.dumps({"object": "list", "data": data}).encode()


@contextmanager
def serving(embedder: Embedder) -> Generator[Endpoint]:
    """Serve a model on a free port of the loopback."""
    endpoint = Endpoint(embedder)
    endpoint.goes_on.set()
    app = Starlette(routes=[Route("/v1/embeddings", endpoint.answer, methods=["POST"])])
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listener:
        config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        thread = Thread(target=server.run, args=([listener],))
        thread.start()
        endpoint.url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        try:
            yield endpoint
        finally:
            endpoint.goes_on.set()
            server.should_exit = True
            thread.join()
