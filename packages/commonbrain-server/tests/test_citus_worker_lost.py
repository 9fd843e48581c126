"""A worker that is killed amid writes."""

from contextlib import closing

import psycopg
import pytest
from citus_tenants import citus, on_each_worker
from citus_writing import writing

from commonbrain.model.errors import UnavailableError
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.storage.store import Store
from commonbrain.testing.builders import a_memory
from tests.citus import CitusServer
from tests.postgres import END_ALL

__all__ = ["citus"]
pytestmark = [pytest.mark.citus, pytest.mark.part("distributed")]


@pytest.mark.requirement("DO-25")
def test_killed_worker_loses_no_acknowledged_write_and_stops_only_its_own_tenants(
    citus: CitusServer,
) -> None:
    with citus.database() as database, closing(database.opened()) as store:
        lost, other = on_each_worker(citus, store, database)
        worker = citus.place_of(lost, database=database.name)
        with writing(store, lost, other) as (waits, served):
            waits.wait_for_more()
            worker.kill()
            waits.wait_for_refusal()
            served.wait_for_more()
            worker.start()
            waits.wait_for_more()

        assert {error.code for error in waits.refused} == {"store_down"}
        assert not served.refused
        assert waits.lost() == served.lost() == set()
        assert all(finding.is_sound for finding in store.examine())


@pytest.mark.requirement("DO-25")
def test_commit_that_a_worker_did_not_answer_is_reported_as_possibly_successful(
    citus: CitusServer,
) -> None:
    with citus.database() as database, closing(database.opened()) as store:
        worker = citus.place_of(LOCAL_TENANT, database=database.name)
        with pytest.raises(UnavailableError, match="may have succeeded"):
            write_while_connections_end(store, worker.url, database.name)
        with store.begin(LOCAL_TENANT) as tx:
            tx.memories.add(a_memory(2, "tea is cold"))


def write_while_connections_end(store: Store, server: str, database: str) -> None:
    """Write a memory, and end every connection to a server before the commit."""
    with store.begin(LOCAL_TENANT) as tx:
        tx.memories.add(a_memory(1, "tea is ready"))
        with closing(psycopg.connect(server, autocommit=True)) as connection:
            connection.execute(END_ALL, [database])
