"""Sessions of the web page that were opened with a web token."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from commonbrain_server.security.logins import make_page_sessions
from commonbrain_server.security.page_sessions import StoredPageSessions
from commonbrain_server.settings import ServerSettings
from commonbrain_server.tenants import AgentRequest, admin_of, tenants_of
from page_logins import audited, resumed, role_of
from password_hashers import HERE

from commonbrain.client import Brain
from commonbrain.model.errors import AuthenticationError
from commonbrain.model.limits import ACCESS_CACHE_S
from commonbrain.model.scope import LOCAL_TENANT, Role, Trust
from commonbrain.storage.interface import ADMITTING
from commonbrain.testing.builders import FakeClock
from commonbrain.web.logins import PageLogin
from tests.guarded import an_access
from tests.security.issuing import AUDIENCE, NAME, Issuing, an_issuer

LIFETIME = timedelta(hours=12)
CACHED = timedelta(seconds=ACCESS_CACHE_S)
ELSEWHERE = "198.51.100.9"
EXPIRY = datetime(2099, 1, 1, tzinfo=UTC)
"""Of tokens: PyJWT compares it with the wall clock, sessions with the clock of the store."""
SOON = EXPIRY - timedelta(hours=1)


@pytest.fixture(scope="module")
def issuing() -> Iterator[Issuing]:
    with an_issuer() as issuing:
        issuing.add("ed", "EdDSA")
        yield issuing


@pytest.fixture
def clock(owner: Brain) -> FakeClock:
    assert isinstance(owner.services.clock, FakeClock)
    return owner.services.clock


@pytest.fixture
def process(owner: Brain, issuing: Issuing) -> Callable[[], StoredPageSessions]:
    """Make the sessions as another process of the server has them, with a cache of its own."""
    access = an_access(owner, issuing.issuer())
    return lambda: make_page_sessions(owner, access, settings=ServerSettings())


@pytest.fixture
def sessions(process: Callable[[], StoredPageSessions]) -> StoredPageSessions:
    return process()


def token(issuing: Issuing, **more: object) -> str:
    claims: dict[str, Any] = {
        "iss": NAME,
        "aud": AUDIENCE,
        "sub": "carla",
        "tenant": LOCAL_TENANT,
        "role": "writer",
        "exp": int(EXPIRY.timestamp()),
    }
    given = {name: value for name, value in (claims | more).items() if value is not None}
    return issuing.token("ed", **given)


@pytest.mark.requirement("ST-17")
def test_login_by_token_ends_with_the_token_at_the_latest(
    sessions: StoredPageSessions, clock: FakeClock, issuing: Issuing
) -> None:
    long = sessions.open(token(issuing), address=HERE)
    assert long.ends_at == clock.now() + LIFETIME
    clock.move(SOON - clock.now())
    session = sessions.open(token(issuing), address=None)
    assert session.ends_at == EXPIRY
    assert session.caller.admission
    assert session.caller.admission.credential == "token/carla"

    for _ in range(3):
        clock.move(timedelta(minutes=20) - timedelta(seconds=1))
        again = sessions.resume(session.token, address=ELSEWHERE)
        assert again
        assert (again.caller.agent, again.caller.role) == ("carla", Role.WRITER)
        assert again.ends_at == EXPIRY
    clock.move(timedelta(seconds=3))

    assert resumed(sessions, session) is None
    with pytest.raises(AuthenticationError):
        # The issuer's leeway may still accept it.
        sessions.open(token(issuing), address=HERE)


def test_unusual_expiry_of_a_token_is_accepted(
    sessions: StoredPageSessions, clock: FakeClock, issuing: Issuing, subtests: pytest.Subtests
) -> None:
    for expiry in (10**18, 1.5e12, "4102444800"):
        with subtests.test(expiry=expiry):
            session = sessions.open(token(issuing, exp=expiry), address=HERE)

            assert session.ends_at == clock.now() + LIFETIME


def test_session_by_token_follows_its_agent_and_never_exceeds_the_login(
    owner: Brain, sessions: StoredPageSessions, clock: FakeClock, issuing: Issuing
) -> None:
    session = sessions.open(token(issuing), address=HERE)
    roles: list[Role | None] = []
    for request in (
        AgentRequest(role=Role.ADMIN),
        AgentRequest(role=Role.READER),
        AgentRequest(role=Role.WRITER, trust_default=Trust.UNTRUSTED_WEB),
        AgentRequest(is_disabled=True),
    ):
        admin_of(owner).set_agent("carla", request)
        clock.move(CACHED)
        roles.append(role_of(sessions, session))

    assert roles == [Role.WRITER, Role.READER, Role.WRITER, None]


def test_session_by_token_has_the_trust_of_its_agent(
    owner: Brain, sessions: StoredPageSessions, clock: FakeClock, issuing: Issuing
) -> None:
    session = sessions.open(token(issuing, role=None), address=HERE)
    assert session.caller.role is Role.READER
    admin_of(owner).set_agent("carla", AgentRequest(trust_ceiling=Trust.TRUSTED_TOOL))
    clock.move(CACHED)

    again = cast("PageLogin", resumed(sessions, session))

    assert again.caller.trust_ceiling is Trust.TRUSTED_TOOL
    assert again.caller.role is Role.READER
    assert resumed(sessions, session) == again


def test_session_by_token_ends_with_its_tenant(
    owner: Brain, process: Callable[[], StoredPageSessions], issuing: Issuing
) -> None:
    session = process().open(token(issuing), address=HERE)
    tenants_of(owner).suspend(LOCAL_TENANT, is_suspended=True)

    assert resumed(process(), session) is None
    codes = [(one.code, one.credential) for one in audited(owner) if one.action == ADMITTING]
    assert codes == [("tenant_suspended", "token/carla")]


def test_expired_token_opens_nothing(sessions: StoredPageSessions, issuing: Issuing) -> None:
    with pytest.raises(AuthenticationError):
        sessions.open(token(issuing, exp=int(time.time()) - 60), address=HERE)
