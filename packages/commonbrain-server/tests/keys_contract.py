"""What every store promises of agents and API keys."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from commonbrain_server.security.keys import Agent, ApiKey, KeyRepository, KeyScope

from commonbrain.model.scope import LOCAL_TENANT, Role, Trust
from commonbrain.storage.interface import AccessEntry
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


class KeysContract:
    """The promises of the repository; each test opens its own store."""

    @pytest.fixture
    def store(self, open_store: OpenStore) -> Store:
        """Give the store as one process sees it, with a second tenant."""
        store = open_store()
        store.make_tenant("acme", at=NOON)
        return store

    def test_stored_agent_is_read_unchanged_with_its_creation_time(self, store: Store) -> None:
        low = an_agent(
            trust_default=Trust.UNTRUSTED_WEB, trust_ceiling=Trust.USER_CLAIM, disabled_at=SOON
        )
        with store.begin("acme") as tx:
            KeyRepository(tx.work).save_agent(an_agent("bob"))
            KeyRepository(tx.work).save_agent(an_agent())
            KeyRepository(tx.work).save_agent(replace(low, created_at=LATER))

            assert KeyRepository(tx.work).agent("ann") == low
            assert KeyRepository(tx.work).agents(limit=MANY) == [low, an_agent("bob")]
            assert KeyRepository(tx.work).agents(limit=1) == [low]

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
            KeyRepository(tx.work).save_agent(an_agent())
            KeyRepository(tx.work).save_agent(an_agent("bob"))
            assert KeyRepository(tx.work).add_key(full_key)
            assert not KeyRepository(tx.work).add_key(a_key(agent="bob"))
            newer = a_key("00000002", agent="bob", created_at=SOON)
            assert KeyRepository(tx.work).add_key(newer)

            assert KeyRepository(tx.work).key("00000001") == full_key
            assert KeyRepository(tx.work).keys(limit=MANY, now=NOON) == [newer, full_key]
            assert KeyRepository(tx.work).keys(limit=MANY, now=NOON, agent="ann") == [full_key]

    def test_key_ends_once_and_is_never_prolonged(self, store: Store) -> None:
        with store.begin("acme") as tx:
            keys = KeyRepository(tx.work)
            keys.save_agent(an_agent())
            keys.add_key(a_key())
            keys.end_key("00000001", revoked_at=None, expires_at=SOON)
            keys.end_key("00000001", revoked_at=NOON, expires_at=LATER)
            keys.end_key("00000001", revoked_at=LATER, expires_at=LATER)

            assert keys.key("00000001") == a_key(expires_at=SOON, revoked_at=NOON)

    def test_valid_keys_are_listed_first_and_counted(self, store: Store) -> None:
        with store.begin("acme") as tx:
            keys = KeyRepository(tx.work)
            keys.save_agent(an_agent())
            keys.add_key(a_key("0000000a"))
            keys.add_key(a_key("0000000b", created_at=SOON, expires_at=LATER))
            for number in range(3):
                over = {"revoked_at": SOON} if number else {"expires_at": SOON}
                keys.add_key(a_key(f"0000000{number}", created_at=LATER, **over))

            assert [one.prefix for one in keys.keys(limit=2, now=SOON)] == [
                "0000000b",
                "0000000a",
            ]
            assert [keys.good_keys(now) for now in (NOON, SOON, LATER)] == [3, 2, 1]

    def test_keys_are_held_by_their_agents(self, store: Store) -> None:
        with store.begin("acme") as tx:
            keys = KeyRepository(tx.work)
            keys.save_agent(an_agent())
            keys.add_key(a_key("0000000a"))
            keys.add_key(a_key("0000000b", revoked_at=SOON))

            key_agents = keys.keys_with_agents(["0000000a", "0000000b", "ffffffff"])

            assert key_agents == {
                "0000000a": (a_key("0000000a"), an_agent()),
                "0000000b": (a_key("0000000b", revoked_at=SOON), an_agent()),
            }
            assert keys.keys_with_agents([]) == {}
        with store.begin(LOCAL_TENANT) as tx:
            assert KeyRepository(tx.work).keys_with_agents(["0000000a"]) == {}

    def test_last_use_of_a_key_never_moves_back(self, store: Store) -> None:
        with store.begin("acme") as tx:
            keys = KeyRepository(tx.work)
            keys.save_agent(an_agent())
            keys.add_key(a_key())
            keys.used(["00000001", "ffffffff"], at=SOON)
            keys.used(["00000001"], at=NOON)

            assert keys.key("00000001") == a_key(last_used_at=SOON)

    def test_tenant_does_not_see_agents_keys_or_denials_of_another(self, store: Store) -> None:
        with store.begin("acme") as tx:
            KeyRepository(tx.work).save_agent(an_agent())
            KeyRepository(tx.work).add_key(a_key())
            tx.credentials.note(AccessEntry(at=NOON, action="recall", code="rate_limited"))

        with store.begin(LOCAL_TENANT) as tx:
            keys = KeyRepository(tx.work)
            keys.used(["00000001"], at=SOON)
            keys.end_key("00000001", revoked_at=SOON, expires_at=SOON)
            assert keys.agent("ann") is None
            assert keys.key("00000001") is None
            assert not keys.agents(limit=MANY)
            assert not keys.keys(limit=MANY, now=NOON)
            assert not tx.credentials.audit_entries(limit=MANY)
        with store.snapshot("acme") as tx:
            assert KeyRepository(tx.work).key("00000001") == a_key()
