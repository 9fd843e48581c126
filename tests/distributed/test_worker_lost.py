"""A worker that is killed amid writes."""

from contextlib import closing

import pytest

from tests.distributed.cluster import CitusServer
from tests.distributed.tenants import on_each_worker
from tests.distributed.writing import writing

pytestmark = pytest.mark.citus


def test_a_killed_worker_loses_nothing_acknowledged_and_stops_only_its_own_tenants(
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
