"""The socket next to a store, by which processes of one user meet."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from time import monotonic

import pytest
from hypothesis import given
from hypothesis import strategies as st

import commonbrain
from commonbrain.runtime.local_socket import (
    STREAMS_MAX,
    JsonObject,
    LocalServer,
    StreamRefusedError,
    ask,
    is_responsive,
    open_stream,
    socket_path,
)
from tests.processes import TIMEOUT_S

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


def test_request_is_answered(tmp_path: Path, start: Start) -> None:
    path = path_in(tmp_path)
    assert ask(path, {"n": 1}, timeout_s=TIMEOUT_S) is None
    assert start(path, "first").is_ready.wait(TIMEOUT_S)
    assert ask(path, {"n": 1}, timeout_s=TIMEOUT_S) == {"by": "first", "n": 1}
    long = {"text": "ä" * 500_000}
    assert ask(path, long, timeout_s=TIMEOUT_S) == {"by": "first", **long}


def test_only_one_of_several_servers_answers_until_it_closes(tmp_path: Path, start: Start) -> None:
    path = path_in(tmp_path)
    first = start(path, "first")
    assert first.is_ready.wait(TIMEOUT_S)
    second = start(path, "second")
    assert ask(path, {}, timeout_s=TIMEOUT_S) == {"by": "first"}
    assert not second.is_ready.is_set()
    first.close()
    assert second.is_ready.wait(TIMEOUT_S)
    assert ask(path, {}, timeout_s=TIMEOUT_S) == {"by": "second"}


def test_server_that_closes_before_its_turn_never_answers(tmp_path: Path, start: Start) -> None:
    path = path_in(tmp_path)
    first = start(path, "1")
    assert first.is_ready.wait(TIMEOUT_S)
    second, third = start(path, "2"), start(path, "3")
    second.close()
    first.close()
    assert third.is_ready.wait(TIMEOUT_S)
    assert not second.is_ready.is_set()


@pytest.mark.parametrize("raw", [b"", b"{", b"[1]", b"\xff", b"null"])
def test_malformed_request_gets_no_answer(raw: bytes, tmp_path: Path, start: Start) -> None:
    path = path_in(tmp_path)
    assert start(path, "first").is_ready.wait(TIMEOUT_S)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(TIMEOUT_S)
        connection.connect(str(path))
        assert connection.recv(1) == b"\x06"
        connection.sendall(raw)
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""
    assert ask(path, {}, timeout_s=TIMEOUT_S) == {"by": "first"}


def test_store_with_a_long_path_has_its_own_socket(tmp_path: Path, start: Start) -> None:
    one, other = (path_in(tmp_path / ("long" * 40) / name) for name in "ab")
    assert one != other
    assert start(one, "one").is_ready.wait(TIMEOUT_S)
    assert start(other, "other").is_ready.wait(TIMEOUT_S)
    assert ask(one, {}, timeout_s=TIMEOUT_S) == {"by": "one"}
    assert ask(other, {}, timeout_s=TIMEOUT_S) == {"by": "other"}


def test_target_of_a_symlinked_lock_is_not_changed(tmp_path: Path, start: Start) -> None:
    (target := tmp_path / "letters").write_text("dear")
    with TemporaryDirectory() as short:
        path = path_in(Path(short))
        path.parent.mkdir(mode=0o700)
        Path(f"{path}.lock").symlink_to(target)
        server = start(path, "first")
        assert server.thread is not None
        server.thread.join(TIMEOUT_S)
        assert not server.is_ready.is_set()
    assert target.read_text() == "dear"


def test_closing_a_server_twice_does_not_remove_the_socket_of_the_next(
    tmp_path: Path, start: Start
) -> None:
    path = path_in(tmp_path)
    first = start(path, "first")
    assert first.is_ready.wait(TIMEOUT_S)
    first.close()
    assert start(path, "second").is_ready.wait(TIMEOUT_S)
    first.close()
    assert ask(path, {}, timeout_s=TIMEOUT_S) == {"by": "second"}


def test_process_ends_despite_a_request_that_never_ends() -> None:
    hang = (
        "import sys; from pathlib import Path; from threading import Event;"
        "from commonbrain.runtime.local_socket import LocalServer, ask;"
        "begun = Event(); path = Path(sys.argv[1]) / 'local' / 'socket';"
        "server = LocalServer(path, lambda _: (begun.set(), Event().wait(60))[0]);"
        "server.start(); server.is_ready.wait(60);"
        "from threading import Thread;"
        "Thread(target=ask, args=(path, {}), kwargs={'timeout_s': 60}, daemon=True).start();"
        "begun.wait(60); server.close(); print('closed')"
    )
    with TemporaryDirectory() as short:
        done = subprocess.run(
            [sys.executable, "-c", hang, short],
            capture_output=True,
            text=True,
            check=True,
            timeout=40,
        )
    assert done.stdout == "closed\n"


def test_requests_beyond_the_limit_of_a_server_are_refused(tmp_path: Path) -> None:
    path, may_answer = path_in(tmp_path), Event()

    def answer(_: JsonObject) -> JsonObject:
        may_answer.wait(TIMEOUT_S)
        return {}

    server = LocalServer(path, answer)
    server.start()
    assert server.is_ready.wait(TIMEOUT_S)
    with ThreadPoolExecutor(12) as threads:
        requests = [threads.submit(ask, path, {}, timeout_s=TIMEOUT_S) for _ in range(12)]
        first = islice(as_completed(requests, timeout=TIMEOUT_S), 8)
        assert [one.result() for one in first] == [None] * 8
        may_answer.set()
        assert [one.result() for one in requests].count({}) == 4
    server.close()


def test_no_server_starts_in_a_folder_that_others_can_write_to(start: Start) -> None:
    with TemporaryDirectory() as short:
        path = path_in(Path(short))
        path.parent.mkdir()
        path.parent.chmod(0o777)
        server = start(path, "first")
        assert server.thread is not None
        server.thread.join(TIMEOUT_S)
        assert not server.is_ready.is_set()
        assert not path.exists()


@given(
    st.sampled_from(["PROJECT", "CAPTURE", "TRUST_MIN", "SESSION_SILENT_HOURS"]),
    st.text(max_size=9),
)
def test_processes_with_other_settings_use_another_socket(name: str, value: str) -> None:
    store = Path("/nowhere/brain.db")
    assert socket_path(store, {f"COMMONBRAIN_{name}": value}) != socket_path(store, {})
    same = {"COMMONBRAIN_AGENT": value, "PATH": value}
    assert socket_path(store, same) == socket_path(store, {})


def test_symlinked_store_has_the_socket_of_its_target(tmp_path: Path) -> None:
    (tmp_path / "brain.db").touch()
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "other.db").symlink_to(tmp_path / "brain.db")
    assert socket_path(tmp_path / "linked" / "other.db", {}) == path_in(tmp_path)


def test_processes_of_another_installation_use_another_socket(tmp_path: Path) -> None:
    package = Path(commonbrain.__file__).parent
    shutil.copytree(package, tmp_path / package.name, ignore=shutil.ignore_patterns("*.pyc"))
    say = (
        "from pathlib import Path; from commonbrain.runtime.local_socket import socket_path;"
        "print(socket_path(Path('/nowhere/brain.db'), {}))"
    )
    paths = {
        subprocess.run(
            [sys.executable, "-c", say],
            env={**os.environ, "PYTHONPATH": str(folder)},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for folder in (package.parent, tmp_path)
    }
    assert len(paths) == 2


def echo(request: JsonObject, stream: socket.socket) -> None:
    """Repeat what arrives, in upper case, until the other side ends."""
    stream.sendall(str(request["name"]).encode())
    while data := stream.recv(100):
        stream.sendall(data.upper())
    stream.sendall(b"bye")


@pytest.fixture
def echoing(tmp_path: Path) -> Generator[LocalServer]:
    """A server that is not ready to answer, but for streams."""
    server = LocalServer(path_in(tmp_path), streams={"echo": echo})
    assert server.start_if_free()
    yield server
    server.close()


def opened(path: Path, name: str) -> socket.socket:
    stream = open_stream(path, {"stream": "echo", "name": name}, timeout_s=TIMEOUT_S)
    assert stream is not None
    stream.settimeout(TIMEOUT_S)
    return stream


def test_stream_stays_open_while_other_requests_are_served(echoing: LocalServer) -> None:
    with opened(echoing.path, "a") as one, opened(echoing.path, "b") as other:
        assert (one.recv(1), other.recv(1)) == (b"a", b"b")
        assert ask(echoing.path, {"n": 1}, timeout_s=TIMEOUT_S) == {}
        for stream in (one, other, one):
            stream.sendall(b"x")
            assert stream.recv(1) == b"X"


def test_only_one_process_can_start_a_server_at_a_time(echoing: LocalServer) -> None:
    second = LocalServer(echoing.path, streams={"echo": echo})
    assert not second.start_if_free()
    echoing.close()
    assert second.start_if_free()
    with opened(echoing.path, "a") as stream:
        assert stream.recv(1) == b"a"
    second.close()


def test_closing_server_lets_open_streams_finish(echoing: LocalServer) -> None:
    with opened(echoing.path, "a") as stream:
        assert stream.recv(1) == b"a"
        stream.sendall(b"last")
        echoing.close()
        rest = b"".join(iter(partial(stream.recv, 100), b""))
        assert rest.endswith(b"bye")
    assert open_stream(echoing.path, {"stream": "echo"}, timeout_s=TIMEOUT_S) is None


def test_streams_beyond_the_limit_are_refused_until_one_closes(echoing: LocalServer) -> None:
    streams = [opened(echoing.path, "a") for _ in range(STREAMS_MAX)]
    with pytest.raises(StreamRefusedError):
        opened(echoing.path, "b")
    streams[0].close()
    until = monotonic() + TIMEOUT_S
    while True:
        assert monotonic() < until
        try:
            streams.append(opened(echoing.path, "c"))
            break
        except StreamRefusedError:
            continue
    for stream in streams:
        stream.close()


def test_server_without_streams_refuses_them(tmp_path: Path, start: Start) -> None:
    assert start(path_in(tmp_path), "first").is_ready.wait(TIMEOUT_S)
    with pytest.raises(StreamRefusedError):
        opened(path_in(tmp_path), "a")


def test_server_is_responsive_until_it_ends(echoing: LocalServer) -> None:
    assert is_responsive(echoing.path, timeout_s=TIMEOUT_S)
    echoing.close()
    assert not is_responsive(echoing.path, timeout_s=TIMEOUT_S)


def test_server_with_a_full_queue_is_responsive_once_it_accepts(tmp_path: Path) -> None:
    path = path_in(tmp_path)
    path.parent.mkdir(mode=0o700)
    with ExitStack() as stack, ThreadPoolExecutor() as threads:
        listener = stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(str(path))
        listener.listen(0)
        listener.settimeout(0.1)
        with suppress(BlockingIOError):
            while True:
                waiting = stack.enter_context(socket.socket(socket.AF_UNIX))
                waiting.setblocking(False)  # noqa: FBT003 the library's way
                waiting.connect(str(path))
        assert not is_responsive(path, timeout_s=0.0)
        probe = threads.submit(is_responsive, path, timeout_s=TIMEOUT_S)
        while not probe.done():
            # The last accepted one may be the probe's, and others have left.
            with suppress(TimeoutError, BrokenPipeError):
                stack.enter_context(listener.accept()[0]).sendall(b"\x06")
        assert probe.result()


def test_process_that_is_too_busy_to_greet_at_once_is_waited_for(tmp_path: Path) -> None:
    path = path_in(tmp_path)
    path.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener, ThreadPoolExecutor() as threads:
        listener.bind(str(path))
        listener.listen()
        asking = threads.submit(ask, path, {"n": 1}, timeout_s=TIMEOUT_S)
        with listener.accept()[0] as connection:
            connection.settimeout(0.3)
            # It receives the end of the stream as soon as the caller gives up.
            with pytest.raises(TimeoutError):
                connection.recv(1)
            connection.settimeout(TIMEOUT_S)
            connection.sendall(b"\x06")
            assert connection.recv(100) == b'{"n": 1}'
            connection.sendall(b'{"n": 2}')
        assert asking.result() == {"n": 2}


def test_starting_in_a_folder_that_others_can_write_to_raises_an_error() -> None:
    with TemporaryDirectory() as short:
        path = path_in(Path(short))
        path.parent.mkdir()
        path.parent.chmod(0o777)
        with pytest.raises(OSError, match=r"local"):
            LocalServer(path).start_if_free()
