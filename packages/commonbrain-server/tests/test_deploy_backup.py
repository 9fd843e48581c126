"""Backup and restore as an operator runs them, on a real Postgres."""

import os
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql

from tests.deploy_files import run_script

servers = pytest.importorskip("commonbrain_server.dev_servers")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="shell scripts")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with servers.postgres_server(is_durable=False) as url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE DATABASE brain")
        with psycopg.connect(named(url, "brain"), autocommit=True) as connection:
            connection.execute("CREATE TABLE memories (tenant_id text, id bigint, body text)")
            connection.execute(
                "INSERT INTO memories SELECT 't', n, 'memory ' || n FROM generate_series(1, 500) n"
            )
        yield url


@pytest.fixture
def empty(server: str, request: pytest.FixtureRequest) -> str:
    """An empty database of the test's own."""
    name = f"scratch_{abs(hash(request.node.name))}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return named(server, name)


def named(url: str, database: str) -> str:
    return urlsplit(url)._replace(path=f"/{database}").geturl()


def a_backup(server: str, folder: Path) -> Path:
    done = run_script("backup.sh", str(folder), owner=named(server, "brain"))
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


def test_backup_is_restored_completely(server: str, empty: str, tmp_path: Path) -> None:
    dump = a_backup(server, tmp_path)
    restored = run_script("restore.sh", str(dump), owner=empty)
    assert restored.returncode == 0, restored.stderr
    assert "Restored and verified" in restored.stdout
    with psycopg.connect(empty) as connection:
        row = connection.execute("SELECT count(*), max(body) FROM memories").fetchone()
    assert row == (500, "memory 99")
    assert not list(tmp_path.glob(".unfinished*"))


def test_backup_deletes_backups_older_than_thirty_days(server: str, tmp_path: Path) -> None:
    old, recent = (tmp_path / f"commonbrain-{days}.dump" for days in (32, 29))
    for dump in (old, recent):
        dump.touch()
        made = time.time() - timedelta(days=int(dump.stem.partition("-")[2])).total_seconds()
        os.utime(dump, (made, made))

    new = a_backup(server, tmp_path)

    assert {*tmp_path.glob("*.dump")} == {recent, new}


def test_database_owner_without_other_privileges_restores_its_backup(
    server: str, tmp_path: Path
) -> None:
    owner = urlsplit(str(servers.login(server, "owner")))
    urls = [owner._replace(path=f"/{name}").geturl() for name in ("own", "own_restored")]
    for url in urls:
        name = urlsplit(url).path[1:]
        with psycopg.connect(server, autocommit=True) as connection:
            created = sql.SQL("CREATE DATABASE {} OWNER owner").format(sql.Identifier(name))
            connection.execute(created)
        with psycopg.connect(named(server, name), autocommit=True) as connection:
            connection.execute("CREATE EXTENSION vector")
    with psycopg.connect(urls[0]) as connection:
        connection.execute("CREATE TABLE memories AS SELECT generate_series(1, 5) AS id")

    made = run_script("backup.sh", str(tmp_path), owner=urls[0])
    restored = run_script("restore.sh", made.stdout.strip(), owner=urls[1])

    assert (restored.returncode, restored.stderr) == (0, "")
    assert "Restored and verified: 1 tables." in restored.stdout


def test_corrupted_backup_is_refused(server: str, empty: str, tmp_path: Path) -> None:
    dump = a_backup(server, tmp_path)
    body = bytearray(dump.read_bytes())
    body[len(body) // 2] ^= 1
    dump.write_bytes(bytes(body))
    refused = run_script("restore.sh", str(dump), owner=empty)
    assert refused.returncode == 1
    assert "nothing was restored" in refused.stderr


def test_restore_into_a_database_that_is_not_empty_is_refused(server: str, tmp_path: Path) -> None:
    dump = a_backup(server, tmp_path)
    refused = run_script("restore.sh", str(dump), owner=named(server, "brain"))
    assert refused.returncode == 1
    assert "make an empty one" in refused.stderr


def test_unreachable_database_leaves_no_backup_file(tmp_path: Path) -> None:
    failed = run_script("backup.sh", str(tmp_path), owner="postgresql://nobody@127.0.0.1:1/none")
    assert failed.returncode != 0
    assert list(tmp_path.iterdir()) == []
