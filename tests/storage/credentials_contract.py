"""What every store promises of tenants, agents, keys and the audit of access."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from commonbrain.model.scope import LOCAL_TENANT, Policy, Role, Trust
from commonbrain.storage.agents import Agent, ApiKey, KeyScope
from commonbrain.storage.interface import AccessEntry, Tenant
from commonbrain.storage.store import Store
from commonbrain.testing.builders import NOON
from tests.storage.store_steps import LATER, OpenStore

SOON = NOON + timedelta(minutes=1)
MANY = 100


def an_agent(name: str = "ann", **more: Any) -> Agent:  # noqa: ANN401
    """Make a writer of noon, with anything else as given."""
    return replace(Agent(name=name, role=Role.WRITER, created_at=NOON), **more)


def a_key(prefix: str = "00000001", **more: Any) -> ApiKey:  # noqa: ANN401
    """Make a key of ann's that holds for ever, with anything else as given."""
    return replace(ApiKey(prefix=prefix, agent="ann", seal="sealed", created_at=NOON), **more)


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

    def test_stored_agent_is_read_unchanged_with_its_creation_time(self, store: Store) -> None:
        low = an_agent(
            trust_default=Trust.UNTRUSTED_WEB, trust_ceiling=Trust.USER_CLAIM, disabled_at=SOON
        )
        with store.begin("acme") as tx:
            tx.credentials.save_agent(an_agent("bob"))
            tx.credentials.save_agent(an_agent())
            tx.credentials.save_agent(replace(low, created_at=LATER))

            assert tx.credentials.agent("ann") == low
            assert tx.credentials.agents(limit=MANY) == [low, an_agent("bob")]
            assert tx.credentials.agents(limit=1) == [low]

    def test_key_is_read_as_stored_and_its_prefix_is_unique(self, store: Store) -> None:
        full_key = a_key(
            label="laptop",
            scopes=(KeyScope.READ, KeyScope.WRITE),
            networks=("192.0.2.0/24",),
            expires_at=LATER,
            revoked_at=SOON,
            last_used_at=SOON,
        )
        with store.begin("acme") as tx:
            tx.credentials.save_agent(an_agent())
            tx.credentials.save_agent(an_agent("bob"))
            assert tx.credentials.add_key(full_key)
            assert not tx.credentials.add_key(a_key(agent="bob"))
            newer = a_key("00000002", agent="bob", created_at=SOON)
            assert tx.credentials.add_key(newer)

            assert tx.credentials.key("00000001") == full_key
            assert tx.credentials.keys(limit=MANY, now=NOON) == [newer, full_key]
            assert tx.credentials.keys(limit=MANY, now=NOON, agent="ann") == [full_key]

    def test_key_ends_once_and_is_never_prolonged(self, store: Store) -> None:
        with store.begin("acme") as tx:
            credentials = tx.credentials
            credentials.save_agent(an_agent())
            credentials.add_key(a_key())
            credentials.end_key("00000001", revoked_at=None, expires_at=SOON)
            credentials.end_key("00000001", revoked_at=NOON, expires_at=LATER)
            credentials.end_key("00000001", revoked_at=LATER, expires_at=LATER)

            assert credentials.key("00000001") == a_key(expires_at=SOON, revoked_at=NOON)

    def test_valid_keys_are_listed_first_and_counted(self, store: Store) -> None:
        with store.begin("acme") as tx:
            credentials = tx.credentials
            credentials.save_agent(an_agent())
            credentials.add_key(a_key("0000000a"))
            credentials.add_key(a_key("0000000b", created_at=SOON, expires_at=LATER))
            for number in range(3):
                over = {"revoked_at": SOON} if number else {"expires_at": SOON}
                credentials.add_key(a_key(f"0000000{number}", created_at=LATER, **over))

            assert [one.prefix for one in credentials.keys(limit=2, now=SOON)] == [
                "0000000b",
                "0000000a",
            ]
            assert [credentials.good_keys(now) for now in (NOON, SOON, LATER)] == [3, 2, 1]

    def test_keys_are_held_by_their_agents(self, store: Store) -> None:
        with store.begin("acme") as tx:
            credentials = tx.credentials
            credentials.save_agent(an_agent())
            credentials.add_key(a_key("0000000a"))
            credentials.add_key(a_key("0000000b", revoked_at=SOON))

            key_agents = credentials.keys_with_agents(["0000000a", "0000000b", "ffffffff"])

            assert key_agents == {
                "0000000a": (a_key("0000000a"), an_agent()),
                "0000000b": (a_key("0000000b", revoked_at=SOON), an_agent()),
            }
            assert credentials.keys_with_agents([]) == {}
        with store.begin(LOCAL_TENANT) as tx:
            assert tx.credentials.keys_with_agents(["0000000a"]) == {}

    def test_last_use_of_a_key_never_moves_back(self, store: Store) -> None:
        with store.begin("acme") as tx:
            credentials = tx.credentials
            credentials.save_agent(an_agent())
            credentials.add_key(a_key())
            credentials.used(["00000001", "ffffffff"], at=SOON)
            credentials.used(["00000001"], at=NOON)

            assert credentials.key("00000001") == a_key(last_used_at=SOON)

    def test_tenant_does_not_see_agents_keys_or_denials_of_another(self, store: Store) -> None:
        with store.begin("acme") as tx:
            tx.credentials.save_agent(an_agent())
            tx.credentials.add_key(a_key())
            tx.credentials.note(AccessEntry(at=NOON, action="recall", code="rate_limited"))

        with store.begin(LOCAL_TENANT) as tx:
            credentials = tx.credentials
            credentials.used(["00000001"], at=SOON)
            credentials.end_key("00000001", revoked_at=SOON, expires_at=SOON)
            assert credentials.agent("ann") is None
            assert credentials.key("00000001") is None
            assert not credentials.agents(limit=MANY)
            assert not credentials.keys(limit=MANY, now=NOON)
            assert not credentials.audit_entries(limit=MANY)
        with store.snapshot("acme") as tx:
            assert tx.credentials.key("00000001") == a_key()

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
