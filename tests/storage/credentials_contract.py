"""What every store promises of tenants and the audit of access."""

from dataclasses import replace
from datetime import timedelta

import pytest

from commonbrain.model.scope import LOCAL_TENANT, Policy
from commonbrain.storage.interface import AccessEntry, Tenant
from commonbrain.storage.store import Store
from commonbrain.testing.builders import NOON
from tests.storage.store_steps import LATER, OpenStore

SOON = NOON + timedelta(minutes=1)
MANY = 100


def noted_tenant(store: Store, name: str) -> Tenant:
    """Give a tenant as it is stored."""
    with store.snapshot(name) as tx:
        tenant = tx.credentials.tenant()
    assert tenant is not None
    return tenant


class CredentialsContract:
    """The promises of `tx.credentials`; each test opens its own store."""

    @pytest.fixture
    def store(self, open_store: OpenStore) -> Store:
        """Give the store as one process sees it, with a second tenant."""
        store = open_store()
        store.make_tenant("acme", at=NOON)
        return store

    def test_tenant_is_created_once_and_listed_by_name(self, store: Store) -> None:
        assert not store.make_tenant("acme", at=LATER)

        assert store.tenants() == ["acme", LOCAL_TENANT]
        with store.snapshot("nobody") as tx:
            assert tx.credentials.tenant() is None

    def test_policy_and_suspension_belong_to_one_tenant(self, store: Store) -> None:
        policy = Policy(memories_max=7, is_boot_required=True)
        with store.begin("acme") as tx:
            tx.credentials.set_policy(policy)
            tx.credentials.suspend(SOON)

        acme, default = (noted_tenant(store, name) for name in store.tenants())
        assert (acme.policy, acme.suspended_at) == (policy, SOON)
        assert (default.policy, default.suspended_at) == (Policy(), None)
        with store.begin("acme") as tx:
            tx.credentials.suspend(None)
            assert tx.credentials.tenant() == replace(acme, suspended_at=None)

    def test_recorded_denials_are_listed_newest_first(self, store: Store) -> None:
        entries = [
            AccessEntry(
                at=NOON + timedelta(seconds=number),
                action="recall",
                code="rate_limited",
                agent="ann",
                credential="00000001",
                request_id=f"req-{number}",
                subject="bob",
                count=number + 1,
            )
            for number in range(3)
        ]
        with store.begin("acme") as tx:
            for entry in entries:
                tx.credentials.note(entry)

            assert tx.credentials.audit_entries(limit=2) == [entries[2], entries[1]]
