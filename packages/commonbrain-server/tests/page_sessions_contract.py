"""What every store promises of sessions of the web page."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from commonbrain_server.security.keys import KeyRepository
from commonbrain_server.security.stored_page_sessions import (
    PageSessionRepository,
    StoredPageSession,
)
from keys_contract import a_key, an_agent
from sqlalchemy.exc import IntegrityError

from commonbrain.model.scope import LOCAL_TENANT, Role
from commonbrain.storage.store import Store
from commonbrain.testing.builders import NOON
from tests.storage.store_steps import LATER, OpenStore

IDLE = timedelta(minutes=30)
MINUTE = timedelta(minutes=1)
MANY = 100


def a_session(number: int = 1, **more: Any) -> StoredPageSession:  # noqa: ANN401
    """Make a session of ann's key that begins at noon, with anything else as given."""
    plain = StoredPageSession(
        digest=f"{number:064x}",
        agent="ann",
        key_prefix="00000001",
        created_at=NOON,
        last_seen_at=NOON,
        ends_at=LATER,
    )
    return replace(plain, **more)


class PageSessionsContract:
    """The promises of the repository; each test opens its own store."""

    @pytest.fixture
    def store(self, open_store: OpenStore) -> Store:
        """Give the store as one process sees it, with a second tenant and a key of ann's."""
        store = open_store()
        store.make_tenant("acme", at=NOON)
        with store.begin("acme") as tx:
            KeyRepository(tx.work).save_agent(an_agent())
            KeyRepository(tx.work).add_key(a_key())
        return store

    def test_page_session_is_read_as_stored(self, store: Store) -> None:
        by_token = a_session(2, agent="bob", key_prefix=None, token_role=Role.READER)
        with store.begin("acme") as tx:
            PageSessionRepository(tx.work).add(a_session())
            PageSessionRepository(tx.work).add(by_token)

        with store.snapshot("acme") as tx:
            assert PageSessionRepository(tx.work).get(a_session().digest) == a_session()
            assert PageSessionRepository(tx.work).get(by_token.digest) == by_token
            assert PageSessionRepository(tx.work).get("f" * 64) is None

    @pytest.mark.parametrize(
        "wrong",
        [{"key_prefix": None}, {"token_role": Role.ADMIN}, {"key_prefix": "ffffffff"}],
        ids=["neither", "both", "unknown key"],
    )
    def test_page_session_needs_a_known_key_or_the_role_of_a_token(
        self, store: Store, wrong: dict[str, Any]
    ) -> None:
        with pytest.raises(IntegrityError), store.begin("acme") as tx:
            PageSessionRepository(tx.work).add(a_session(**wrong))

    def test_sessions_of_an_agent_are_listed_newest_first(self, store: Store) -> None:
        token: dict[str, Any] = {"key_prefix": None, "token_role": Role.READER}
        older, newer = a_session(2), a_session(1, created_at=NOON + MINUTE)
        with store.begin("acme") as tx:
            for one in (older, newer, a_session(3, agent="bob", **token)):
                PageSessionRepository(tx.work).add(one)

            assert PageSessionRepository(tx.work).of_agent("ann") == [newer, older]
            assert PageSessionRepository(tx.work).of_agent("eve") == []

    def test_last_use_of_a_session_never_moves_back(self, store: Store) -> None:
        with store.begin("acme") as tx:
            PageSessionRepository(tx.work).add(a_session())
            PageSessionRepository(tx.work).record_use(a_session().digest, at=NOON + MINUTE)
            PageSessionRepository(tx.work).record_use(a_session().digest, at=NOON)
            PageSessionRepository(tx.work).record_use("f" * 64, at=LATER)

            used = a_session(last_seen_at=NOON + MINUTE)
            assert PageSessionRepository(tx.work).get(used.digest) == used

    def test_page_session_ends_at_its_expiry_or_when_idle(self) -> None:
        session = a_session(last_seen_at=NOON + MINUTE)

        assert not session.is_over(NOON, idle=IDLE)
        assert not session.is_over(NOON + IDLE, idle=IDLE)
        assert session.is_over(NOON + MINUTE + IDLE, idle=IDLE)
        assert not session.is_over(LATER - MINUTE, idle=2 * IDLE)
        assert session.is_over(LATER, idle=2 * IDLE)

    def test_dropped_sessions_are_counted(self, store: Store) -> None:
        with store.begin("acme") as tx:
            for number in range(3):
                PageSessionRepository(tx.work).add(a_session(number))

            assert PageSessionRepository(tx.work).drop([f"{1:064x}", "f" * 64]) == 1
            assert PageSessionRepository(tx.work).drop([]) == 0
            assert [one.digest for one in PageSessionRepository(tx.work).of_agent("ann")] == [
                f"{0:064x}",
                f"{2:064x}",
            ]

    def test_ended_sessions_are_dropped_in_pages(self, store: Store) -> None:
        with store.begin("acme") as tx:
            for number in range(5):
                PageSessionRepository(tx.work).add(
                    a_session(number, ends_at=NOON + number * MINUTE)
                )

            now = NOON + 3 * MINUTE
            assert [tx.credentials.drop_ended_logins(now=now, limit=3) for _ in range(3)] == [
                3,
                1,
                0,
            ]
            assert [one.digest for one in PageSessionRepository(tx.work).of_agent("ann")] == [
                f"{4:064x}"
            ]

    def test_tenant_cannot_see_or_change_sessions_of_another(self, store: Store) -> None:
        with store.begin("acme") as tx:
            PageSessionRepository(tx.work).add(a_session())

        with store.begin(LOCAL_TENANT) as tx:
            assert PageSessionRepository(tx.work).get(a_session().digest) is None
            assert PageSessionRepository(tx.work).of_agent("ann") == []
            PageSessionRepository(tx.work).record_use(a_session().digest, at=LATER)
            assert PageSessionRepository(tx.work).drop([a_session().digest]) == 0
            assert tx.credentials.drop_ended_logins(now=LATER, limit=MANY) == 0
        with store.snapshot("acme") as tx:
            assert PageSessionRepository(tx.work).get(a_session().digest) == a_session()
