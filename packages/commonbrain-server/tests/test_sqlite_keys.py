"""Agents, keys and logins to the page in a store that is a file."""

from keys_contract import KeysContract
from page_sessions_contract import PageSessionsContract

from tests.storage.test_stores import open_store

__all__ = ["open_store"]


class TestSqliteKeys(KeysContract):
    pass


class TestSqlitePageSessions(PageSessionsContract):
    pass
