"""Hooks on a store in Postgres share a process, whose socket does not show the URL."""

import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import commonbrain
from commonbrain.runtime.callers import store_socket
from tests.conftest import FACT
from tests.hooks.test_hooks_background import (
    PROMPT,
    WAYS,
    client_of,
    servers,
    settings_of,
    wait_until_ended,
)
from tests.in_process import default_model
from tests.postgres import Server

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no socket in a file")


@pytest.fixture
def url(postgres: Server) -> Iterator[str]:
    with postgres.database(space=default_model().space) as database:
        with commonbrain.open(database.program, agent="ann") as brain:
            brain.remember(FACT, kind="decision")
        yield database.program


@pytest.mark.requirement("CL-13")
@pytest.mark.parametrize("way", WAYS)
def test_hooks_on_postgres_share_a_process_that_ends_with_its_client(
    way: str, url: str, tmp_path: Path
) -> None:
    store = tmp_path / "none.db"
    with client_of(store, url=url) as client:
        client.start()
        [server] = servers(store, url=url)
        answered = client.ask("user-prompt-submit", prompt=PROMPT)
        assert f"> {FACT}" in answered.context
        path = store_socket(url, settings_of(store))
        assert path is not None
        assert path.is_socket()
        assert path.parent.stat().st_mode & 0o077 == 0
        password = url.partition("://")[2].partition("@")[0].partition(":")[2]
        assert password not in " ".join([str(path), *psutil.Process(server.pid).cmdline()])
        client.end_by(way)
        wait_until_ended(server)
    assert servers(store, url=url) == []
    assert not path.exists()
    assert not store.exists()


def test_sockets_of_urls_differ_also_by_the_password() -> None:
    urls = ("postgresql://a:b@h/d", "postgresql://a:c@h/d", "postgresql://a:b@h/e")
    assert len({store_socket(one, {}) for one in urls}) == len(urls)
