"""The socket next to a store, by which processes of one user meet."""

import socket
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.runtime.local_socket import JsonObject, LocalServer, ask, socket_path
from tests.processes import PATIENCE_S

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no socket in a file")

Start = Callable[[Path, str], LocalServer]


@pytest.fixture
def start() -> Generator[Start]:
    """Start servers that say their name, and close them."""
    servers: list[LocalServer] = []

    def start(path: Path, name: str) -> LocalServer:
        def answer(request: JsonObject) -> JsonObject:
            return {"by": name, **request}

        servers.append(LocalServer(path, answer))
        servers[-1].start()
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def path_in(folder: Path) -> Path:
    path = socket_path(folder / "brain.db", {})
    assert path is not None
    return path


def test_a_request_is_answered(tmp_path: Path, start: Start) -> None:
    path = path_in(tmp_path)
    assert ask(path, {"n": 1}, timeout_s=PATIENCE_S) is None
    assert start(path, "first").is_ready.wait(PATIENCE_S)
    assert ask(path, {"n": 1}, timeout_s=PATIENCE_S) == {"by": "first", "n": 1}
    long = {"text": "ä" * 500_000}
    assert ask(path, long, timeout_s=PATIENCE_S) == {"by": "first", **long}


def test_one_of_several_servers_answers_and_the_next_follows(tmp_path: Path, start: Start) -> None:
    path = path_in(tmp_path)
    first = start(path, "first")
    assert first.is_ready.wait(PATIENCE_S)
    second = start(path, "second")
    assert ask(path, {}, timeout_s=PATIENCE_S) == {"by": "first"}
    assert not second.is_ready.is_set()
    first.close()
    assert second.is_ready.wait(PATIENCE_S)
    assert ask(path, {}, timeout_s=PATIENCE_S) == {"by": "second"}


def test_one_that_closes_before_its_turn_never_answers(tmp_path: Path, start: Start) -> None:
    path = path_in(tmp_path)
    first = start(path, "1")
    assert first.is_ready.wait(PATIENCE_S)
    second, third = start(path, "2"), start(path, "3")
    second.close()
    first.close()
    assert third.is_ready.wait(PATIENCE_S)
    assert not second.is_ready.is_set()


@pytest.mark.parametrize("raw", [b"", b"{", b"[1]", b"\xff", b"null"])
def test_a_malformed_request_gets_no_answer(raw: bytes, tmp_path: Path, start: Start) -> None:
    path = path_in(tmp_path)
    assert start(path, "first").is_ready.wait(PATIENCE_S)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PATIENCE_S)
        connection.connect(str(path))
        assert connection.recv(1) == b"\x06"
        connection.sendall(raw)
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""
    assert ask(path, {}, timeout_s=PATIENCE_S) == {"by": "first"}


def test_a_store_with_a_long_path_has_a_socket_of_its_own(tmp_path: Path, start: Start) -> None:
    one, other = (path_in(tmp_path / ("long" * 40) / name) for name in "ab")
    assert one != other
    assert start(one, "one").is_ready.wait(PATIENCE_S)
    assert start(other, "other").is_ready.wait(PATIENCE_S)
    assert ask(one, {}, timeout_s=PATIENCE_S) == {"by": "one"}
    assert ask(other, {}, timeout_s=PATIENCE_S) == {"by": "other"}


def test_a_folder_that_others_can_write_to_has_no_server(start: Start) -> None:
    with TemporaryDirectory() as short:
        path = path_in(Path(short))
        path.parent.mkdir()
        path.parent.chmod(0o777)
        server = start(path, "first")
        server.thread.join(PATIENCE_S)
        assert not server.is_ready.is_set()
        assert not path.exists()


@given(st.sampled_from(["PROJECT", "CAPTURE", "TRUST_MIN"]), st.text(max_size=9))
def test_processes_with_other_settings_do_not_meet(name: str, value: str) -> None:
    store = Path("/nowhere/brain.db")
    assert socket_path(store, {f"COMMONBRAIN_{name}": value}) != socket_path(store, {})
    same = {"COMMONBRAIN_AGENT": value, "PATH": value}
    assert socket_path(store, same) == socket_path(store, {})


def test_a_link_and_its_store_have_one_socket(tmp_path: Path) -> None:
    (tmp_path / "brain.db").touch()
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "other.db").symlink_to(tmp_path / "brain.db")
    assert socket_path(tmp_path / "linked" / "other.db", {}) == path_in(tmp_path)
