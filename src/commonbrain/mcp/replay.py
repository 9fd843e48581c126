"""Keeps the messages of a client that its next server needs, if its server ends.

Towards a server, each line has a number before the message, by which the server recognizes a
request that it or an earlier one has received. All imports here must be fast.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from commonbrain.runtime.remote import parse_object

SESSION: Final = "session"
"""The field of a server's line that holds the key of the client's session."""
ENDED: Final = "ended"
"""The field of a server's last line, after it has answered every request."""
RESENT: Final = b"!"
"""Marks the number of a request that an earlier server may have received."""
LINE_BYTES_MAX: Final = 16 * 1024 * 1024
"""Above the largest call: 100 items of 16 KiB, each character escaped."""
_SENDS_MAX: Final = 3
"""A request that ended this many servers is not sent to another one."""
_HANDSHAKE: Final = frozenset({"initialize", "notifications/initialized"})
"""Methods of messages that every server of a client gets."""
_SUBSCRIBE: Final = "resources/subscribe"
_UNSUBSCRIBE: Final = "resources/unsubscribe"
_LISTEN: Final = "subscriptions/listen"
"""A stream, which every server ends without an answer."""
_MALFORMED: Final = -32700
_GIVEN_UP: Final = (
    "interrupted: Servers ended during this call, which may have been carried out. "
    "Check before you repeat it."
)
_FAILED: Final = -32000
"""A server-defined error code of JSON-RPC."""


@dataclass(slots=True)
class _Request:
    """A request of the client without an answer."""

    number: int
    line: bytes
    method: object = None
    sends: int = 0


@dataclass(slots=True)
class ReplayBuffer:
    """The handshake of one client, its subscription, and its requests without an answer."""

    session: str | None = None
    """The key of the client's session, from the server."""
    unanswered: dict[str, _Request] = field(default_factory=dict[str, _Request])
    """By id, in the order of arrival."""
    is_over: bool = False
    """Whether the server has answered everything and ended."""
    _repeated: dict[str, bytes] = field(default_factory=dict[str, bytes])
    """Messages that the next server gets first, by method, in the order of the protocol."""
    _muted: set[str] = field(default_factory=set[str])
    """The ids of answers that the client has already."""
    _number: int = 0

    def take(self, line: bytes) -> bytes:
        """Note a message from the client, and return it as it is sent to a server."""
        message = parse_object(line)
        method = message.get("method")
        self._number += 1
        one = _Request(self._number, line, method)
        if method in _HANDSHAKE:
            self._repeated[method] = line
        elif method == "notifications/cancelled":
            self.unanswered.pop(_key(child_object(message, "params").get("requestId")), None)
        if isinstance(method, str) and "id" in message:
            self.unanswered[_key(message["id"])] = one
        return _frame(one)

    def resume(self) -> tuple[bytes, bytes]:
        """Return the first lines for a new server, and error answers for the client.

        The server runs the messages in this order: the handshake and the subscription, then the
        requests without an answer.
        """
        frames, errors = b"", b""
        self._muted.clear()
        self.is_over = False
        for id_, one in list(self.unanswered.items()):
            if one.sends == _SENDS_MAX and one.method != _LISTEN:
                del self.unanswered[id_]
                errors += _error(id_, _FAILED, text=_GIVEN_UP)
        waiting = [one.line for one in self.unanswered.values()]
        for line in self._repeated.values():
            message = parse_object(line)
            # A request that waits is among the unanswered ones; a later one may have its id.
            if line not in waiting:
                self._muted |= {_key(message["id"])} if "id" in message else set()
                frames += _frame(_Request(0, line))
        return frames + b"".join(map(_frame, self.unanswered.values())), errors

    def deliver(self, line: bytes) -> bytes:
        """Record a line from the server, and return the bytes to forward to the client."""
        message = parse_object(line)
        if "jsonrpc" not in message:
            self.session = message.get(SESSION, self.session)
            self.is_over = ENDED in message
            return b""
        if "id" in message and "method" not in message:
            id_ = _key(message["id"])
            if id_ in self._muted:
                self._muted.remove(id_)
                return b""
            answered = self.unanswered.pop(id_, None)
            if answered is not None and "result" in message:
                self._note_subscription(answered)
        return line + b"\n"

    def _note_subscription(self, request: _Request) -> None:
        """Note what a server has done; one that is refused leaves the subscription as it was."""
        if request.method == _SUBSCRIBE:
            self._repeated[_SUBSCRIBE] = request.line
        elif request.method == _UNSUBSCRIBE:
            self._repeated.pop(_SUBSCRIBE, None)


def _frame(one: _Request) -> bytes:
    """Encode a message for a server: its number, and whether it was sent before."""
    mark = RESENT if one.sends else b""
    one.sends += 1
    return b"%d%s %s\n" % (one.number, mark, one.line)


def is_message(message: Mapping[str, Any]) -> bool:
    """Return whether an object can be a request, a notification or an answer."""
    has_id = type(message.get("id", 0)) in {str, int}
    return has_id and not message.keys().isdisjoint({"method", "result", "error"})


def child_object(message: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a nested object; an empty one if there is none."""
    part: object = message.get(name)
    return cast("Mapping[str, Any]", part) if isinstance(part, dict) else {}


def _key(id_: object) -> str:
    """Return an id as JSON, in which 1 and "1" differ."""
    return json.dumps(id_)


def _error(id_: str, code: int, *, text: str) -> bytes:
    error = json.dumps({"code": code, "message": text})
    return b'{"jsonrpc":"2.0","id":%s,"error":%s}\n' % (id_.encode(), error.encode())


def describe_too_long() -> bytes:
    """Return the answer to a line that is too long to be read."""
    return _error("null", _MALFORMED, text=f"A message is longer than {LINE_BYTES_MAX:,} bytes.")


def describe_malformed(line: bytes) -> bytes:
    """Return the answer to a line that is not a message, with its id if it has one."""
    id_ = _find_id(line)
    text = "This is not a message of JSON-RPC 2.0 in valid Unicode."
    return _error(_key(id_ if isinstance(id_, str | int | float) else None), _MALFORMED, text=text)


_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"?|[][{}]', re.DOTALL)
"""A text, of which the last may lack its end, or where an object or a list begins or ends."""
_ID_VALUE: Final = re.compile(rb'\s*:\s*("(?:[^"\\]|\\.){0,200}"|-?[0-9]{1,18})')


def _find_id(line: bytes) -> object:
    """Return the id of a message; found in its text if it is nested too deep to be parsed."""
    if message := parse_object(line):
        return message.get("id")
    depth = 0
    for token in _TOKEN.finditer(line):
        match token.group():
            case b"{" | b"[":
                depth += 1
            case b"}" | b"]":
                depth -= 1
            case b'"id"' if depth == 1 and (value := _ID_VALUE.match(line, token.end())):
                return parse_object(b'{"id":%s}' % value[1]).get("id")
            case _:
                pass
    return None


@dataclass(slots=True)
class LineSplitter:
    """Splits a stream into lines; one that is too long is dropped."""

    bytes_max: int | None = None
    dropped: int = 0
    _rest: bytearray = field(default_factory=bytearray)
    _is_too_long: bool = False

    def feed(self, data: bytes) -> list[bytes]:
        """Add data and return the lines that it completes, without their ends."""
        *ends, rest = data.split(b"\n")
        lines: list[bytes] = []
        for end in ends:
            lines += self._end(end)
        self._rest += rest
        if self.bytes_max is not None and len(self._rest) > self.bytes_max:
            self._is_too_long = True
            self._rest.clear()
        return lines

    def _end(self, end: bytes) -> list[bytes]:
        line = bytes(self._rest) + end
        is_too_long = self._is_too_long or (
            self.bytes_max is not None and len(line) > self.bytes_max
        )
        self._rest.clear()
        self._is_too_long = False
        self.dropped += is_too_long
        return [] if is_too_long or not line.strip() else [line]
