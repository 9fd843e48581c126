"""A cluster of Citus, a store distributed over it, and tenants by the worker that has them."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_output import output_of

from commonbrain.storage.store import Store
from commonbrain.testing.builders import NOON
from tests.citus import PROGRAMS, CitusServer, cluster
from tests.postgres import Database


@pytest.fixture(scope="session")
def citus() -> Iterator[CitusServer]:
    """A cluster that keeps what it has acknowledged when one of its servers is killed."""
    with cluster(Path(os.environ[PROGRAMS]), is_durable=True) as server:
        yield server


@pytest.fixture
def distributed_store(citus: CitusServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """A store distributed by `brain store distribute`, which commands and servers then open."""
    with citus.database(is_empty=True) as database:
        output_of("--store", database.owner, "store", "upgrade", "--grant", citus.program)
        output_of("--store", database.owner, "store", "distribute")
        monkeypatch.setenv("COMMONBRAIN_STORE", database.program)
        monkeypatch.setenv("COMMONBRAIN_AS_OWNER", "true")
        yield database


def on_each_worker(citus: CitusServer, store: Store, database: Database) -> list[str]:
    """Make a tenant on each worker."""
    names = names_on_each_worker(citus, database)
    for name in names:
        store.make_tenant(name, at=NOON)
    return names


def names_on_each_worker(citus: CitusServer, database: Database) -> list[str]:
    """Return the name of a tenant for each worker, which would have the rows of that tenant."""
    names: dict[str, str] = {}
    for name in (f"tenant{number}" for number in range(20)):
        names.setdefault(citus.place_of(name, database=database.name).url, name)
    return [*names.values()]
