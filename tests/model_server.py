"""An endpoint of embeddings: real sockets, real statuses, vectors made of words."""

import json
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from types import TracebackType
from typing import Any, Self, TypedDict, Unpack

from commonbrain_models.endpoint import RetryPolicy
from commonbrain_models.http import OLLAMA, OPENAI, HttpEmbedder
from pydantic import SecretStr

from commonbrain.embeddings.interface import Options
from commonbrain.testing.builders import WordHashEmbedder

FAMILIES = {"ollama": OLLAMA, "openai": OPENAI}
HANG_S_MAX = 20
DRIP_S = 0.02
LATE_S = 1.0
MODEL = "word-hash"
NO_PAUSE = RetryPolicy(pause_s=0)


class EndpointOptions(TypedDict, total=False):
    """What a test may say of an embedder; see `Options`."""

    model: str
    url: str
    key: SecretStr | None
    dimensions: int | None
    timeout_s: float
    retries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the server says instead of vectors.

    A hanging one says nothing until the server is closed, a dripping one a little at a time, and
    a cut one breaks off in the middle. A late one takes its time and gives vectors.
    """

    status: int = 200
    body: str = "{}"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    hangs: bool = False
    drips: bool = False
    is_cut: bool = False
    is_late: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request as it arrived."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]


class ModelServer(ThreadingHTTPServer):
    """Answers as scripted, once each, and with vectors when there is no more of the script."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script: deque[Answer] = deque()
        self.requests: list[Asked] = []
        self.closing = Event()
        self.is_down = False
        self._thread = Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_port}"

    def base(self, family: str) -> str:
        return f"http://{self.host}" + ("/v1" if family == "openai" else "")

    def embedder(
        self,
        family: str,
        *,
        retry_policy: RetryPolicy = NO_PAUSE,
        **options: Unpack[EndpointOptions],
    ) -> HttpEmbedder:
        merged = EndpointOptions(model=MODEL, dimensions=384, url=self.base(family), timeout_s=10.0)
        merged.update(options)
        return HttpEmbedder(FAMILIES[family], Options(**merged), retry_policy=retry_policy)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.closing.set()
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Headers and body in two packets would wait for each other's acknowledgement.
    wbufsize = -1

    @property
    def models(self) -> ModelServer:
        assert isinstance(self.server, ModelServer)
        return self.server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.models.requests.append(Asked(path=self.path, headers=dict(self.headers), body=body))
        if self.models.is_down:
            self._send(Answer(status=503))
        elif self.models.script and not self._is_late():
            # Who was given up writes to nobody.
            with suppress(ConnectionError):
                self._send(self.models.script.popleft())
        else:
            self._send(Answer(body=json.dumps(_vectors(self.path, body["input"]))))

    def _is_late(self) -> bool:
        """Take the next answer off the script, and some time, if it is only late."""
        if not self.models.script[0].is_late:
            return False
        self.models.script.popleft()
        self.models.closing.wait(LATE_S)
        return True

    def _send(self, answer: Answer) -> None:
        if answer.hangs:
            self.models.closing.wait(HANG_S_MAX)
            self.close_connection = True
            return
        body = answer.body.encode()
        promised = len(body) + (100 if answer.is_cut or answer.drips else 0)
        self.close_connection = answer.is_cut or answer.drips
        self.send_response(answer.status)
        for name, value in {**answer.headers, "Content-Length": str(promised)}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        while answer.drips and not self.models.closing.wait(DRIP_S):
            self.wfile.write(b" ")
            self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 its name there
        """Say nothing."""


def _vectors(path: str, texts: list[str]) -> dict[str, Any]:
    # Three times as long as they must be: real endpoints do not all normalise.
    made = [(WordHashEmbedder().query(text) * 3).tolist() for text in texts]
    if path.startswith("/api/embed"):
        return {"model": MODEL, "embeddings": made}
    listed = [{"index": n, "embedding": vector} for n, vector in enumerate(made)]
    return {"object": "list", "data": listed[::-1]}
