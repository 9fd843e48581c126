"""Steps of people who log in to the web page, and their rows in the store."""

from commonbrain_server.guard import guard_of
from commonbrain_server.security.stored_page_sessions import (
    PageSessionRepository,
    StoredPageSession,
)
from commonbrain_server.tenants import NewKey
from password_hashers import HERE

from commonbrain.client import Brain
from commonbrain.model.scope import LOCAL_TENANT, Role
from commonbrain.storage.interface import AccessEntry
from commonbrain.web.logins import PageLogin, PageLogins


def opened(sessions: PageLogins, key: NewKey) -> PageLogin:
    return sessions.open(str(key.text), address=HERE)


def resumed(sessions: PageLogins, session: PageLogin) -> PageLogin | None:
    return sessions.resume(session.token, address=HERE)


def role_of(sessions: PageLogins, session: PageLogin) -> Role | None:
    now = resumed(sessions, session)
    return now.caller.role if now else None


def stored(owner: Brain, agent: str = "bob") -> list[StoredPageSession]:
    with owner.services.store.snapshot(LOCAL_TENANT) as tx:
        return PageSessionRepository(tx.work).of_agent(agent)


def audited(owner: Brain) -> list[AccessEntry]:
    """List the access audit, once everything is written: nothing is noted afterwards."""
    guard_of(owner.services).refusals.close()
    with owner.services.store.snapshot(LOCAL_TENANT) as tx:
        return tx.credentials.audit_entries(limit=1000)
