"""Servers that are added, and a tenant that is moved, while others write."""

from contextlib import closing

import pytest
from citus_tenants import citus, on_each_worker
from citus_writing import writing

from commonbrain.testing.builders import NOON
from tests.citus import CitusServer
from tests.storage.store_steps import query_scope

__all__ = ["citus"]
pytestmark = [pytest.mark.citus, pytest.mark.part("distributed")]


def test_shards_are_moved_to_a_new_worker_while_tenants_write(citus: CitusServer) -> None:
    # Citus names the database to a new worker as it was when Citus was installed in it.
    with (
        citus.distributed_database() as database,
        closing(database.opened()) as store,
        citus.another_worker(database) as added,
    ):
        tenants = on_each_worker(citus, store, database)
        with writing(store, *tenants) as writers:
            for writer in writers:
                writer.wait_for_more()
            citus.rebalance(database=database.name)
            for writer in writers:
                writer.wait_for_more()
        moved = next(
            name
            for name in (f"newcomer {number}" for number in range(100))
            if citus.place_of(name, database=database.name) is added
        )
        store.make_tenant(moved, at=NOON)
        with writing(store, moved) as (newcomer,):
            newcomer.wait_for_more()

        assert not [error for writer in writers for error in writer.refused]
        assert not [lost for writer in (*writers, newcomer) for lost in writer.lost()]
        assert all(finding.is_sound for finding in store.examine())


def test_large_tenant_gets_a_shard_of_its_own_and_moves_while_it_writes(
    citus: CitusServer,
) -> None:
    with citus.database() as database, closing(database.opened()) as store:
        large, _ = on_each_worker(citus, store, database)
        with writing(store, large) as (writer,):
            writer.wait_for_more()
            citus.ask(
                "SELECT isolate_tenant_to_new_shard('tenants', %s::text, 'CASCADE')",
                large,
                database=database.name,
            )
            writer.wait_for_more()
            before = citus.place_of(large, database=database.name)
            [other] = [node for node in citus.nodes if node is not before]
            citus.move(large, to=other, database=database.name)
            assert citus.place_of(large, database=database.name) is other
            writer.wait_for_more()

        assert not writer.refused
        assert not writer.lost()
        assert all(finding.is_sound for finding in store.examine())
        with store.snapshot(large) as tx:
            # As many as the writer had time for.
            limit = len(writer.acknowledged) + 1
            hits = tx.index.lexical(["tea"], query_scope(), limit=limit)
        assert {hit.id for hit in hits} == {*writer.acknowledged}
