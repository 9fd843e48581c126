"""What stands between `<private>` and `</private>` leaves the client's process in no form."""

import io
import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.hooks.table import read_event
from commonbrain.mcp.proxy import StdioProxy
from commonbrain.runtime.local_socket import LocalServer, socket_path
from commonbrain.text.private_parts import without_private_values
from tests.hooking import call_hook
from tests.in_process import run_brain
from tests.processes import clean_environment

HIDDEN = "xylophone-4711"
MARKS = (
    f"<private>{HIDDEN}</private>",
    f"<PRIVATE>{HIDDEN}</Private>",
    f'<private reason="of mine">{HIDDEN}</private>',
    f"<private>a <private>b</private> {HIDDEN}</private>",
    f"<private>{HIDDEN}",
    f"< private >{HIDDEN}</ private >",
    f"<pri\x08vate>{HIDDEN}</private>",
)
FIELDS = ("prompt", "last_assistant_message", "compact_summary")


@given(
    mark=st.sampled_from(MARKS),
    before=st.text(st.characters(exclude_characters="<")),
    field=st.sampled_from(FIELDS),
    sign=st.sampled_from(["<", "\\u003c"]),
)
def test_no_event_holds_what_is_private(mark: str, before: str, field: str, sign: str) -> None:
    payload: dict[str, Any] = {
        field: before + mark,
        "tool_input": {"command": mark, "content": [mark], "file_path": mark, mark: "x"},
    }
    raw = json.dumps(payload).replace("<", sign).encode()

    assert HIDDEN not in repr(read_event(raw))
    assert HIDDEN not in without_private_values(raw).decode()


@given(st.recursive(st.none() | st.text() | st.integers(), st.lists, max_leaves=5))
def test_document_without_marks_stays_as_it_is(value: object) -> None:
    raw = json.dumps(value).encode()
    assert json.loads(without_private_values(raw)) == value


@pytest.mark.parametrize("mark", MARKS)
def test_hooks_write_nothing_private_to_store_or_state(tmp_path: Path, mark: str) -> None:
    store, lesson = tmp_path / "brain.db", "The root cause was a pool that was closed twice."
    for event, fields in (
        ("user-prompt-submit", {"prompt": f"Why does the pool fail here? {mark}"}),
        ("stop", {"last_assistant_message": f"{lesson} {mark}"}),
        ("file-edited", {"tool_input": {"file_path": f"/src/{mark}.py", "content": mark}}),
        ("post-compact", {"compact_summary": f"We fixed the pool that was closed. {mark}"}),
    ):
        done = call_hook(store, "claude-code", event, told={"session_id": "s1", **fields})
        assert (done.status, HIDDEN in done.out + done.err) == (0, False)

    assert "closed twice" in run_brain("--store", str(store), "recall", "--kind", "event").out
    for file in tmp_path.rglob("*"):
        assert file.is_dir() or HIDDEN.encode() not in file.read_bytes(), file


@pytest.mark.parametrize("words", ["hook claude-code user-prompt-submit", "remember"])
def test_nothing_private_is_sent_to_the_process_that_serves_the_store(
    tmp_path: Path, words: str
) -> None:
    got: list[str] = []

    def answer(request: object) -> dict[str, object]:
        got.append(json.dumps(request))
        return {"text": None, "out": "", "err": "", "code": 0}

    text = f"Why does the pool fail here? {MARKS[0]}"
    hooked = {"session_id": "s1", "prompt": text}
    given = [] if words.startswith("hook") else [text]
    path = socket_path(tmp_path / "brain.db", clean_environment())
    assert path is not None
    server = LocalServer(path, answer)
    server.start()
    server.is_ready.wait(10)
    try:
        environment = {"COMMONBRAIN_STORE": str(tmp_path / "brain.db")}
        run_brain(*words.split(), *given, stdin=json.dumps(hooked), **environment)
    finally:
        server.close()

    assert "Why does the pool fail here?" in got[0]
    assert HIDDEN not in "".join(got)


class _Recorder(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append(body)  # type: ignore[attr-defined]
        answer = b'{"jsonrpc": "2.0", "id": 1, "result": {}}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 the library's name
        pass


@pytest.mark.parametrize("mark", MARKS)
def test_proxy_sends_nothing_private_to_a_server(mark: str) -> None:
    server = HTTPServer(("127.0.0.1", 0), _Recorder)
    server.got = []  # type: ignore[attr-defined]
    Thread(target=server.serve_forever, daemon=True).start()
    out = io.StringIO()
    url = urlsplit(f"http://127.0.0.1:{server.server_port}/mcp")
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "remember", "arguments": {"text": f"The port is 5433. {mark}"}},
    }
    try:
        StdioProxy(url=url, key=None, session="s", out=out).forward(json.dumps(call))
    finally:
        server.shutdown()
        server.server_close()

    (body,) = server.got  # type: ignore[attr-defined]
    assert HIDDEN.encode() not in body
    assert b"The port is 5433." in body
    assert "result" in out.getvalue()
