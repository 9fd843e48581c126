"""Tenants by the worker that has them."""

from commonbrain.storage.store import Store
from commonbrain.testing.builders import NOON
from tests.distributed.cluster import CitusServer
from tests.postgres import Database


def on_each_worker(citus: CitusServer, store: Store, database: Database) -> list[str]:
    """Make a tenant on each worker."""
    names: dict[str, str] = {}
    for number in range(20):
        name = f"tenant {number}"
        names.setdefault(citus.place_of(name, database=database.name).url, name)
    for name in names.values():
        store.make_tenant(name, at=NOON)
    return [*names.values()]
