"""Sessions of the web page: who gets one, and everything that ends it."""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from commonbrain_server.guard import guard_of
from commonbrain_server.security.key_texts import SessionToken, read_session_token
from commonbrain_server.security.keys import KeyScope
from commonbrain_server.security.logins import make_local_access, make_page_sessions
from commonbrain_server.security.page_sessions import LOGIN, LOGOUT, StoredPageSessions
from commonbrain_server.settings import ServerSettings
from commonbrain_server.tenants import AgentRequest, KeyRequest, NewKey, admin_of, tenants_of
from page_logins import audited, opened, resumed, role_of, stored
from password_hashers import HERE
from pydantic import ValidationError

from commonbrain.client import Brain
from commonbrain.model.errors import AuthenticationError, LimitExceededError, RejectedError
from commonbrain.model.limits import (
    ACCESS_CACHE_S,
    PAGE_LOGINS_PER_MINUTE,
    PAGE_SESSIONS_MAX,
    PAGE_USES_APART_S,
)
from commonbrain.model.scope import LOCAL_TENANT, Role, Trust
from commonbrain.storage.interface import ADMITTING, AccessEntry
from commonbrain.testing.builders import FakeClock
from commonbrain.web.logins import PageLogin
from tests.consolidation.test_maintaining import maintained
from tests.guarded import an_access
from tests.security.engines import both_engines
from tests.security.watching import statements

IDLE, LIFETIME = timedelta(minutes=30), timedelta(hours=12)
CACHED = timedelta(seconds=ACCESS_CACHE_S)
ELSEWHERE = "198.51.100.9"


@pytest.fixture
def clock(owner: Brain) -> FakeClock:
    assert isinstance(owner.services.clock, FakeClock)
    return owner.services.clock


@pytest.fixture
def process(owner: Brain) -> Callable[[], StoredPageSessions]:
    """Make the sessions as another process of the server has them, with a cache of its own."""
    access = an_access(owner)
    return lambda: make_page_sessions(owner, access, settings=ServerSettings())


@pytest.fixture
def sessions(process: Callable[[], StoredPageSessions]) -> StoredPageSessions:
    return process()


def key_of(owner: Brain, agent: str = "bob", role: Role = Role.WRITER, **more: Any) -> NewKey:  # noqa: ANN401
    return admin_of(owner).create_key(KeyRequest(agent=agent, role=role, **more))


@both_engines
@pytest.mark.requirement("ST-17")
def test_login_by_key_is_resumed_by_every_process_as_its_caller(
    owner: Brain, process: Callable[[], StoredPageSessions], clock: FakeClock
) -> None:
    low = AgentRequest(trust_default=Trust.UNTRUSTED_WEB, trust_ceiling=Trust.UNTRUSTED_WEB)
    admin_of(owner).set_agent("bob", low)
    key = key_of(owner, scopes=(KeyScope.READ,))
    session = opened(process(), key)

    again = resumed(process(), session)

    assert again == session
    caller = session.caller
    assert (caller.tenant, caller.agent, caller.role) == (LOCAL_TENANT, "bob", Role.READER)
    assert caller.trust_ceiling is Trust.UNTRUSTED_WEB
    assert caller.admission
    # The rate of the key applies to the page as well.
    assert caller.admission.credential == key.key.prefix
    assert session.ends_at == clock.now() + LIFETIME


def test_login_with_a_wrong_credential_opens_nothing(
    owner: Brain, sessions: StoredPageSessions, subtests: pytest.Subtests
) -> None:
    for credential in ("", "nonsense", "cb_default_00000000_" + 48 * "0"):
        with subtests.test(credential=credential), pytest.raises(AuthenticationError):
            sessions.open(credential, address=HERE)

    # A wrong secret of a known tenant is noted as everywhere else.
    assert {one.action for one in audited(owner)} <= {ADMITTING}


def test_login_of_a_suspended_tenant_or_from_a_foreign_network_is_refused(
    owner: Brain, sessions: StoredPageSessions
) -> None:
    here, anywhere = key_of(owner, networks=(f"{HERE}/32",)), key_of(owner)
    with pytest.raises(RejectedError) as foreign:
        sessions.open(str(here.text), address=ELSEWHERE)
    tenants_of(owner).suspend(LOCAL_TENANT, is_suspended=True)
    with pytest.raises(RejectedError) as suspended:
        opened(sessions, anywhere)

    assert (foreign.value.code, suspended.value.code) == ("scope_denied", "tenant_suspended")
    assert stored(owner) == []


def test_server_that_accepts_every_call_has_no_logins(owner: Brain) -> None:
    sessions = make_page_sessions(owner, make_local_access(owner.caller), settings=ServerSettings())

    with pytest.raises(RejectedError, match="no logins"):
        sessions.open("anything", address="127.0.0.1")


@pytest.mark.requirement("ST-17")
def test_logins_of_one_address_are_limited_right_or_wrong(
    owner: Brain, sessions: StoredPageSessions
) -> None:
    key = key_of(owner)
    session = opened(sessions, key)
    for _ in range(PAGE_LOGINS_PER_MINUTE - 1):
        with pytest.raises(AuthenticationError):
            sessions.open("nonsense", address=HERE)

    with pytest.raises(LimitExceededError) as refused:
        opened(sessions, key)

    assert refused.value.code == "rate_limited"
    assert refused.value.retry_after_s
    assert sessions.open(str(key.text), address=ELSEWHERE)
    assert resumed(sessions, session)


@pytest.mark.requirement("ST-17")
def test_ended_session_is_not_resumed(
    owner: Brain, process: Callable[[], StoredPageSessions], clock: FakeClock
) -> None:
    here, other = process(), process()
    key = key_of(owner)
    session, second = opened(here, key), opened(here, key)
    assert resumed(here, session)
    assert resumed(other, session)

    here.end(session.token)
    here.end(session.token)

    assert resumed(here, session) is None
    assert resumed(process(), session) is None
    clock.move(CACHED)
    assert resumed(other, session) is None
    assert resumed(other, second)


@pytest.mark.requirement("ST-17")
def test_session_ends_when_it_is_idle(
    owner: Brain, sessions: StoredPageSessions, clock: FakeClock
) -> None:
    session = opened(sessions, key_of(owner))
    for _ in range(5):
        clock.move(IDLE - timedelta(seconds=1))
        assert resumed(sessions, session)

    clock.move(IDLE)

    assert resumed(sessions, session) is None


def test_use_in_one_process_is_use_in_all(
    owner: Brain, process: Callable[[], StoredPageSessions], clock: FakeClock
) -> None:
    here, other = process(), process()
    session = opened(here, key_of(owner))
    assert resumed(other, session)
    clock.move(IDLE - CACHED / 2)
    assert resumed(other, session)
    clock.move(CACHED / 4)
    assert resumed(here, session)
    guard_of(owner.services).refusals.close()

    # What the other process has cached is still fresh, and would be idle by now.
    clock.move(CACHED / 4)

    assert resumed(other, session)


def test_session_ends_after_its_lifetime_however_much_it_is_used(
    owner: Brain, sessions: StoredPageSessions, clock: FakeClock
) -> None:
    session = opened(sessions, key_of(owner))
    step = timedelta(minutes=20)
    for _ in range(LIFETIME // step - 1):
        clock.move(step)
        assert resumed(sessions, session)
    clock.move(step - timedelta(seconds=1))
    assert resumed(sessions, session)

    clock.move(timedelta(seconds=1))

    assert resumed(sessions, session) is None


def test_settings_bound_when_sessions_end(owner: Brain) -> None:
    settings = ServerSettings(page_idle_minutes=5, page_session_hours=1)
    sessions = make_page_sessions(owner, an_access(owner), settings=settings)

    assert (sessions.idle, sessions.lifetime) == (timedelta(minutes=5), timedelta(hours=1))
    for name, value in (
        ("page_idle_minutes", 4),
        ("page_idle_minutes", 1441),
        ("page_session_hours", 0),
        ("page_session_hours", 169),
    ):
        with pytest.raises(ValidationError):
            ServerSettings.model_validate({name: value})


def revoke(owner: Brain, key: NewKey) -> None:
    admin_of(owner).revoke_key(key.key.prefix)


def disable(owner: Brain, key: NewKey) -> None:
    admin_of(owner).set_agent(key.key.agent, AgentRequest(is_disabled=True))


def suspend(owner: Brain, _: NewKey) -> None:
    tenants_of(owner).suspend(LOCAL_TENANT, is_suspended=True)


def rotate(owner: Brain, key: NewKey) -> None:
    admin_of(owner).rotate_key(key.key.prefix, minutes=0)


@pytest.mark.requirement("ST-17")
@pytest.mark.parametrize(
    ("change", "code"),
    [
        (revoke, "invalid_credential"),
        (rotate, "invalid_credential"),
        (disable, "invalid_credential"),
        (suspend, "tenant_suspended"),
    ],
)
def test_session_ends_with_its_credential(
    owner: Brain,
    process: Callable[[], StoredPageSessions],
    clock: FakeClock,
    change: Callable[[Brain, NewKey], None],
    code: str,
) -> None:
    sessions, key = process(), key_of(owner)
    session, other = opened(sessions, key), opened(sessions, key_of(owner, "eve"))
    assert resumed(sessions, session)
    assert resumed(sessions, other)

    change(owner, key)

    assert resumed(process(), session) is None
    clock.move(CACHED)
    assert resumed(sessions, session) is None
    assert (resumed(sessions, other) is None) == (change is suspend)
    denials = [one for one in audited(owner) if one.action == ADMITTING and one.agent == "bob"]
    assert {(one.code, one.credential) for one in denials} == {(code, key.key.prefix)}


def test_session_ends_with_its_key_to_the_second(
    owner: Brain, sessions: StoredPageSessions, clock: FakeClock
) -> None:
    key = key_of(owner, days=5 / 86_400)
    session = opened(sessions, key)
    assert session.ends_at == key.key.expires_at
    lasting = key_of(owner)
    other = opened(sessions, lasting)
    admin_of(owner).rotate_key(lasting.key.prefix, minutes=10)

    clock.move(timedelta(seconds=4))
    assert resumed(sessions, session) == session
    shortened = resumed(sessions, other)
    assert shortened
    assert shortened.ends_at == clock.now() + timedelta(minutes=10, seconds=-4)
    clock.move(timedelta(seconds=1))
    assert resumed(sessions, session) is None


def test_role_of_a_session_follows_the_agent(
    owner: Brain, sessions: StoredPageSessions, clock: FakeClock
) -> None:
    session = opened(sessions, key_of(owner))
    narrow = opened(sessions, key_of(owner, scopes=(KeyScope.READ,)))
    roles: list[tuple[Role | None, Role | None]] = []
    for role in (Role.ADMIN, Role.READER):
        admin_of(owner).set_agent("bob", AgentRequest(role=role))
        clock.move(CACHED)
        roles.append((role_of(sessions, session), role_of(sessions, narrow)))

    assert roles == [(Role.ADMIN, Role.READER), (Role.READER, Role.READER)]


def test_session_is_resumed_from_the_networks_of_its_key_only(
    owner: Brain, sessions: StoredPageSessions
) -> None:
    session = opened(sessions, key_of(owner, networks=("192.0.2.0/24",)))
    assert resumed(sessions, session)

    assert sessions.resume(session.token, address=ELSEWHERE) is None
    assert sessions.resume(session.token, address=None) is None

    assert resumed(sessions, session)
    denials = [one for one in audited(owner) if one.action == ADMITTING]
    assert {one.code for one in denials} == {"scope_denied"}
    assert sum(one.count for one in denials) == 2


@pytest.mark.requirement("ST-17", "ST-01")
def test_forged_tokens_resume_and_end_nothing(owner: Brain, sessions: StoredPageSessions) -> None:
    tenants_of(owner).make("rival")
    key = key_of(owner)
    session = opened(sessions, key)
    text = read_session_token(session.token)
    assert text is not None
    flipped = text.secret.translate(str.maketrans("aA", "Aa"))
    forged = [
        str(replace(text, tenant="rival")),
        str(replace(text, tenant="missing")),
        str(SessionToken(tenant=text.tenant, secret="A" * 43)),
        str(replace(text, secret=flipped if flipped != text.secret else text.secret[::-1])),
        str(replace(text, secret=stored(owner)[0].digest[:43])),
        f"{session.token} ",
        f"{session.token}=",
        session.token.upper(),
        session.token[:-1],
        session.token.replace("cbs_", "cb_"),
        f"cbs_../{text.tenant}_{text.secret}",
        str(key.text),
        "cbs_",
        "",
    ]

    for one in forged:
        assert sessions.resume(one, address=HERE) is None, one
        sessions.end(one)

    assert resumed(sessions, session)
    # Nothing invented is noted, or anyone could fill the audit.
    assert {one.action for one in audited(owner)} == {"agent_set", "key_create", LOGIN}


def test_token_of_a_session_is_no_credential(owner: Brain, sessions: StoredPageSessions) -> None:
    session = opened(sessions, key_of(owner))

    with pytest.raises(AuthenticationError):
        sessions.open(session.token, address=HERE)
    with pytest.raises(AuthenticationError):
        sessions.access.admit(session.token, address=HERE)


def test_each_login_has_a_token_of_its_own(owner: Brain, sessions: StoredPageSessions) -> None:
    key = key_of(owner)

    assert len({opened(sessions, key).token for _ in range(5)}) == 5


def test_agent_has_twenty_sessions_and_the_oldest_ends(
    owner: Brain, process: Callable[[], StoredPageSessions], clock: FakeClock
) -> None:
    sessions, key = process(), key_of(owner)
    other = opened(sessions, key_of(owner, "eve"))
    every: list[PageLogin] = []
    for _ in range(PAGE_SESSIONS_MAX + 2):
        clock.move(timedelta(seconds=1))
        every.append(sessions.open(str(key.text), address=f"192.0.2.{len(every)}"))

    live = [one for one in every if resumed(process(), one)]

    assert live == every[2:]
    assert resumed(process(), other)


@both_engines
def test_agent_has_no_more_sessions_by_logins_at_once(
    owner: Brain, process: Callable[[], StoredPageSessions]
) -> None:
    processes, key = [process(), process()], key_of(owner)
    for one in processes:
        opened(one, key)

    def log_in(number: int) -> PageLogin:
        return processes[number % 2].open(str(key.text), address=HERE)

    with ThreadPoolExecutor(4) as pool:
        every = list(pool.map(log_in, range(PAGE_SESSIONS_MAX + 4)))

    assert len({one.token for one in every}) == len(every)
    assert len(stored(owner)) == PAGE_SESSIONS_MAX


def test_sessions_that_are_over_do_not_displace_live_ones(
    owner: Brain, sessions: StoredPageSessions, clock: FakeClock
) -> None:
    key = key_of(owner)
    used = opened(sessions, key)
    for _ in range(PAGE_SESSIONS_MAX - 1):
        opened(sessions, key)
    clock.move(IDLE / 2)
    assert resumed(sessions, used)
    clock.move(IDLE / 2)
    guard_of(owner.services).refusals.close()

    newest = opened(sessions, key)

    assert len(stored(owner)) == 2
    assert resumed(sessions, used)
    assert resumed(sessions, newest)


def test_login_and_logout_are_in_the_access_audit(
    owner: Brain, sessions: StoredPageSessions, clock: FakeClock
) -> None:
    key = key_of(owner)
    session = opened(sessions, key)
    began = clock.now()
    clock.move(timedelta(minutes=5))
    sessions.end(session.token)
    sessions.end(session.token)

    lines = [one for one in audited(owner) if one.action in {LOGIN, LOGOUT}]

    login = AccessEntry(at=began, action=LOGIN, agent="bob", credential=key.key.prefix)
    assert lines == [replace(login, at=clock.now(), action=LOGOUT), login]


@both_engines
@pytest.mark.requirement("ST-17", "ST-12")
def test_token_is_in_no_log_row_or_representation(
    owner: Brain, sessions: StoredPageSessions, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        session = opened(sessions, key_of(owner))
        again = resumed(sessions, session)
        assert sessions.resume(f"{session.token}x", address=HERE) is None
        sessions.end(f"{session.token}x")
    text = read_session_token(session.token)
    assert text is not None
    rows = repr((stored(owner), audited(owner)))

    shown = repr((session, again, sessions, text))
    assert len(text.secret) == 43
    for written in (caplog.text, rows, shown):
        assert text.secret not in written
        assert text.secret[:16] not in written
    for file in path.parent.glob(f"{path.name}*"):
        if file.is_file():
            assert text.secret.encode() not in file.read_bytes()


def test_use_is_recorded_once_a_minute_with_that_of_the_key(
    owner: Brain, process: Callable[[], StoredPageSessions], clock: FakeClock
) -> None:
    sessions, key = process(), key_of(owner)
    session = opened(sessions, key)
    began = clock.now()
    clock.move(timedelta(seconds=PAGE_USES_APART_S - 1))
    resumed(sessions, session)
    clock.move(timedelta(seconds=1))
    resumed(sessions, session)
    clock.move(timedelta(seconds=PAGE_USES_APART_S - 1))
    resumed(sessions, session)
    guard_of(owner.services).refusals.close()

    [row] = stored(owner)

    assert row.last_seen_at == began + timedelta(seconds=PAGE_USES_APART_S)
    [known] = admin_of(owner).keys(agent="bob")
    assert known.last_used_at == row.last_seen_at


def test_session_goes_on_where_its_use_cannot_be_recorded(
    owner: Brain, sessions: StoredPageSessions, clock: FakeClock
) -> None:
    session = opened(sessions, key_of(owner))
    # Afterwards nothing is written any more, as in a store that is read-only.
    guard_of(owner.services).refusals.close()

    for _ in range(4):
        clock.move(IDLE * 0.9)
        assert resumed(sessions, session)


def test_cached_session_asks_the_store_nothing(
    owner: Brain, sessions: StoredPageSessions, clock: FakeClock
) -> None:
    session = opened(sessions, key_of(owner))
    resumed(sessions, session)
    clock.move(CACHED / 2)
    with statements() as cached:
        assert resumed(sessions, session)
    clock.move(CACHED / 2)
    with statements() as later:
        assert resumed(sessions, session)

    assert cached == []
    assert later


@both_engines
def test_unknown_token_takes_the_statements_of_a_missing_tenant(
    owner: Brain, sessions: StoredPageSessions
) -> None:
    opened(sessions, key_of(owner))
    made: list[list[str]] = []
    for tenant in (LOCAL_TENANT, "missing"):
        with statements() as sent:
            token = str(SessionToken(tenant=tenant, secret="A" * 43))
            assert sessions.resume(token, address=HERE) is None
            sessions.end(token)
        made.append([one.partition("/* rows:")[0] for one in sent])

    assert made[0] == made[1]


@both_engines
def test_maintenance_deletes_ended_sessions(
    owner: Brain, sessions: StoredPageSessions, clock: FakeClock
) -> None:
    opened(sessions, key_of(owner))
    clock.move(LIFETIME / 2)
    live = opened(sessions, key_of(owner, "eve"))
    clock.move(LIFETIME / 2)

    result = maintained(owner).result or {}

    assert result["page_sessions"] == 1
    assert stored(owner) == []
    assert [one.ends_at for one in stored(owner, "eve")] == [live.ends_at]
