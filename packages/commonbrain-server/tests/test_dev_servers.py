"""Servers for tests and for trying things out: they answer, and nothing of them stays behind."""

import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
import redis
from commonbrain_server.dev_servers import ServerFolder, postgres_server, redis_server

STARTER = """
import sys
from commonbrain_server.dev_servers import redis_server
with redis_server(is_durable=False) as url:
    print(url, flush=True)
    sys.stdin.read()
"""


def test_postgres_has_pgvector_and_reopens_its_folder() -> None:
    # Not under pytest's own folder, which who runs the server may not enter.
    with tempfile.TemporaryDirectory(prefix="commonbrain-test-") as made:
        Path(made).chmod(0o755)
        folder = Path(made) / "server"
        with postgres_server(folder) as url, psycopg.connect(url) as connection:
            connection.execute("CREATE EXTENSION vector")
            connection.execute("CREATE TABLE kept AS SELECT '[1,2]'::vector AS it")
        with postgres_server(folder) as url, psycopg.connect(url) as connection:
            assert connection.execute("SELECT it::text FROM kept").fetchone() == ("[1,2]",)
            assert "@127.0.0.1:" in url


def test_redis_refuses_clients_without_the_password() -> None:
    with redis_server(is_durable=False) as url:
        port = int(url.rpartition(":")[2].partition("/")[0])
        stranger: Any = redis.Redis(port=port)
        known: Any = redis.Redis(port=port, password=url.partition("//:")[2].partition("@")[0])
        with stranger, known:
            assert known.ping()
            with pytest.raises(redis.AuthenticationError):
                stranger.ping()


def test_killed_starter_leaves_neither_server_nor_folder() -> None:
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert starter.stdout is not None
    assert starter.stdout.readline().startswith("redis://")
    [guardian] = psutil.Process(starter.pid).children()
    [server] = guardian.children()
    folder = Path(server.cwd())
    assert folder.is_dir()

    starter.send_signal(signal.SIGKILL)
    starter.communicate()
    ended, left = psutil.wait_procs([guardian, server], timeout=30)

    assert (len(ended), left) == (2, [])
    assert not folder.exists()


def test_programs_in_a_private_folder_are_copied_with_their_libraries(tmp_path: Path) -> None:
    package = tmp_path / "site" / "server"
    libraries = package.with_name("server.libs")
    for folder, file in ((package / "bin", "initdb"), (libraries, "libpq.so")):
        folder.mkdir(parents=True)
        (folder / file).touch()
    package.parent.chmod(0o700)
    (tmp_path / "home").mkdir()
    home = ServerFolder(folder=tmp_path / "home", is_temporary=False, user="nobody")

    copy = home.make_readable(package / "bin")

    assert (copy / "initdb").exists()
    assert (copy / "../../server.libs/libpq.so").resolve().is_relative_to(tmp_path / "home")
    assert (copy / "../../server.libs/libpq.so").exists()
    assert home.make_readable(package / "bin") == copy
