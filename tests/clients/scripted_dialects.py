"""Two more dialects of the scripted model: OpenAI's Responses API, and Gemini's.

Each is as much of its API as a foreign agent needs to run for real. Results are given back in the
shape that Anthropic's have, so that tests read all of them alike.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

# What crosses the wire has the shapes its authors give it; the tests look only at a few keys.
Json: TypeAlias = dict[str, Any]


FREE_INPUT: Final = "input"
"""The only argument of a tool of the Responses API that takes text and no JSON."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of the script, by the name the client gives the tool."""

    name: str
    arguments: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How an API is spoken."""

    path: str
    has: str
    """The member of a request that holds the conversation."""
    results: Callable[[Json], list[Json]]
    """Gives the results of the calls, in their order."""
    say: Callable[[ToolCall | str, str], Iterator[str]]
    """Streams a call, or the last words, under an id."""


def _responses_results(body: Json) -> list[Json]:
    outputs = {"function_call_output", "custom_tool_call_output"}
    items = [item for item in body["input"] if item.get("type") in outputs]
    return [{"content": _as_text(item["output"])} for item in items]


def _responses_say(message: ToolCall | str, id_: str) -> Iterator[str]:
    if isinstance(message, str):
        content = [{"type": "output_text", "text": message}]
        item: Json = {"type": "message", "role": "assistant", "id": id_, "content": content}
    elif FREE_INPUT in message.arguments:
        item = {"type": "custom_tool_call", "id": id_, "call_id": id_, "name": message.name}
        item |= message.arguments
    else:
        # The tools of each server have a namespace.
        namespace, _, name = message.name.rpartition("__")
        arguments = json.dumps(message.arguments)
        item = {"type": "function_call", "id": id_, "call_id": id_, "arguments": arguments}
        item |= {"name": name, "namespace": namespace}
    spent = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    spent |= dict.fromkeys(("input_tokens_details", "output_tokens_details"))
    yield _event({"type": "response.created", "response": {"id": "resp_scripted"}})
    yield _event({"type": "response.output_item.done", "output_index": 0, "item": item})
    ended = {"id": "resp_scripted", "usage": spent}
    yield _event({"type": "response.completed", "response": ended})


def _gemini_results(body: Json) -> list[Json]:
    parts = [part for content in body["contents"] for part in content.get("parts", [])]
    return [
        {"content": _as_text(part["functionResponse"]["response"])}
        for part in parts
        if "functionResponse" in part
    ]


def _gemini_say(message: ToolCall | str, id_: str) -> Iterator[str]:
    if isinstance(message, str):
        part: Json = {"text": message}
    else:
        part = {"functionCall": {"id": id_, "name": message.name, "args": message.arguments}}
    content = {"role": "model", "parts": [part]}
    spent = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
    candidate = {"content": content, "finishReason": "STOP", "index": 0}
    yield f"data: {json.dumps({'candidates': [candidate], 'usageMetadata': spent})}\r\n\r\n"


def _as_text(told: object) -> str:
    return told if isinstance(told, str) else json.dumps(told)


def _event(fields: Json) -> str:
    return f"event: {fields['type']}\ndata: {json.dumps(fields)}\n\n"


DIALECTS: Final = (
    Dialect(path="/v1/responses", has="input", results=_responses_results, say=_responses_say),
    Dialect(
        path="/v1beta/models/{model}", has="contents", results=_gemini_results, say=_gemini_say
    ),
)
