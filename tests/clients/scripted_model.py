"""A language model on loopback that calls the tools of its script and records what it is shown.

It speaks as much of Anthropic's Messages API, and of the other dialects, as a foreign agent
needs to run for real. Where it stands in its script it reads off the conversation, so requests sent
twice or outside the conversation (titles, counts of tokens) disturb nothing.
"""

import json
import socket
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Self

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.clients.scripted_dialects import DIALECTS, Dialect, Json, ToolCall

# A run of two calls takes five requests or so; a client that goes round in circles is refused.
REQUESTS_MAX = 40
SEARCHES_MAX = 5
STOP_S_MAX = 10
FINAL_TEXT = "The script is at its end."


@dataclass(slots=True)
class ScriptedModel:
    """Serves one script while its context is open; `requests` holds every body it was sent."""

    script: Sequence[ToolCall]
    last_words: str = FINAL_TEXT
    requests: list[Json] = field(default_factory=list[Json])
    _socket: socket.socket = field(init=False)
    _server: uvicorn.Server = field(init=False)
    _thread: threading.Thread = field(init=False)

    def __enter__(self) -> Self:
        """Listen on a free port; the kernel queues what arrives before the server is up."""
        self._socket = socket.create_server(("127.0.0.1", 0))
        routes = [
            Route("/v1/messages", self._answer, methods=["POST"]),
            Route("/v1/messages/count_tokens", _count, methods=["POST"]),
            *(Route(one.path, partial(self._answer_in, one), methods=["POST"]) for one in DIALECTS),
        ]
        config = uvicorn.Config(
            Starlette(routes=routes), lifespan="off", log_level="error", ws="none"
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],))
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop at once, whatever connections the client left open."""
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(STOP_S_MAX)
        self._socket.close()

    @property
    def url(self) -> str:
        """Where a client finds it."""
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def result(self, number: int) -> Json:
        """Give the result block of call `number` as the client showed it to the model.

        Raises:
            LookupError: no request showed a result of that call.

        """
        for request in reversed(self.requests):
            shown = _shown(request).get(_call_id(number))
            if shown is not None:
                return shown
        raise LookupError(f"no result of {self.script[number].name} was shown to the model")

    async def _answer_in(self, dialect: Dialect, request: Request) -> Response:
        body: Json = await request.json()
        self.requests.append(body)
        if len(self.requests) > REQUESTS_MAX:
            return _ENOUGH
        done = len(dialect.results(body))
        is_over = done >= len(self.script)
        message = self.last_words if is_over else self.script[done]
        return StreamingResponse(
            dialect.say(message, _call_id(done)), media_type="text/event-stream"
        )

    async def _answer(self, request: Request) -> Response:
        body: Json = await request.json()
        self.requests.append(body)
        if len(self.requests) > REQUESTS_MAX:
            return _ENOUGH
        block = next_block(self.script, body, last_words=self.last_words)
        if not body.get("stream"):
            return JSONResponse(_message(body, [block], reason=_stop_reason(block)))
        return StreamingResponse(_events(body, block), media_type="text/event-stream")


_ENOUGH = JSONResponse({"error": {"message": "more requests than a run takes"}}, status_code=400)


def next_block(script: Sequence[ToolCall], body: Json, *, last_words: str = FINAL_TEXT) -> Json:
    """Choose what the model says next from what the conversation shows to be done."""
    shown = _results(body)
    for number, call in enumerate(script):
        if _call_id(number) not in shown:
            return _ask(call, number=number, offered=_offered(body), shown=shown)
    return _text(last_words)


def _ask(call: ToolCall, *, number: int, offered: set[str], shown: dict[str, Json]) -> Json:
    """Call the tool, after a search for it where the client shows tools by name only."""
    if call.name in offered:
        return _tool_use(_call_id(number), call.name, call.arguments)
    # A search while the client still connects to the server finds nothing: it is made again.
    for search in (f"toolu_search_{number}_{attempt}" for attempt in range(SEARCHES_MAX)):
        if "ToolSearch" in offered and search not in shown:
            return _tool_use(search, "ToolSearch", {"query": f"select:{call.name}"})
    return _text(f"{call.name} is not among the tools: {sorted(offered)}")


def _results(body: Json) -> dict[str, Json]:
    """Collect the tool results of the whole conversation by the id of their call."""
    blocks = [
        block
        for message in body["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
    ]
    return {b["tool_use_id"]: b for b in blocks if b["type"] == "tool_result"}


def _shown(body: Json) -> dict[str, Json]:
    """Collect the results whatever the dialect."""
    for dialect in DIALECTS:
        if dialect.has in body:
            return {_call_id(n): one for n, one in enumerate(dialect.results(body))}
    return _results(body)


def _offered(body: Json) -> set[str]:
    return {tool["name"] for tool in body.get("tools", [])}


def _call_id(number: int) -> str:
    return f"toolu_call_{number}"


def _tool_use(id_: str, name: str, arguments: Json) -> Json:
    return {"type": "tool_use", "id": id_, "name": name, "input": arguments}


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


def _stop_reason(block: Json) -> str:
    return "tool_use" if block["type"] == "tool_use" else "end_turn"


def _message(body: Json, content: list[Json], *, reason: str | None) -> Json:
    return {
        "id": "msg_scripted",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": content,
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }


def _events(body: Json, block: Json) -> Iterator[str]:
    """Stream one block the way the Messages API does: emptied first, then filled by one delta."""
    if block["type"] == "tool_use":
        empty: Json = {**block, "input": Json()}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    else:
        empty = {**block, "text": ""}
        delta = {"type": "text_delta", "text": block["text"]}
    stop = {"stop_reason": _stop_reason(block), "stop_sequence": None}
    yield _event("message_start", message=_message(body, [], reason=None))
    yield _event("content_block_start", index=0, content_block=empty)
    yield _event("content_block_delta", index=0, delta=delta)
    yield _event("content_block_stop", index=0)
    yield _event("message_delta", delta=stop, usage={"output_tokens": 5})
    yield _event("message_stop")


def _event(kind: str, **fields: object) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n"


async def _count(_: Request) -> Response:
    return JSONResponse({"input_tokens": 10})
