"""Tenants by the worker that has them."""

from commonbrain.storage.store import Store
from commonbrain.testing.builders import NOON
from tests.citus import CitusServer
from tests.postgres import Database


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
