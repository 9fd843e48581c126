"""Logins to the page at an OpenID provider: what opens a session, and what does not."""

import logging
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count, product
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import pytest
from browsers import Browser, browser
from commonbrain_server.security.page_sessions import LOGIN
from commonbrain_server.tenants import AgentRequest, admin_of
from fastapi import FastAPI
from page_logins import audited
from provider_logins import (
    COOKIE,
    SESSION,
    URL,
    Person,
    app_of,
    opened,
    refused,
)
from starlette.testclient import TestClient

from commonbrain.client import Brain
from commonbrain.model.limits import (
    ACCESS_CACHE_S,
    PAGE_LOGINS_PER_MINUTE,
    PROVIDER_LOGIN_MINUTES,
)
from commonbrain.model.scope import Role
from commonbrain.storage.interface import ADMITTING
from commonbrain.testing.builders import FakeClock
from tests.guarded import a_guarded_brain
from tests.security.engines import both_engines
from tests.security.providing import CLIENT, OTHER, SECRET, TOKEN_ENDS_AT, Provider, a_provider

ADDRESSES = (f"198.51.100.{number}" for number in count(1))
"""Each person has an address of its own, since the logins of one are limited."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Brain, FastAPI, Provider]]:
    """A server with a login at a provider, which all tests of this file use."""
    path = tmp_path_factory.mktemp("served") / "brain.db"
    with a_provider() as provider, a_guarded_brain(path, clock=FakeClock()) as brain:
        yield brain, app_of(brain, provider), provider


@pytest.fixture
def brain(served: tuple[Brain, FastAPI, Provider]) -> Brain:
    """The brain of the server, when what it knows of the provider has expired."""
    brain, _, _ = served
    assert isinstance(brain.services.clock, FakeClock)
    brain.services.clock.move(timedelta(hours=1))
    return brain


@pytest.fixture
def clock(brain: Brain) -> FakeClock:
    assert isinstance(brain.services.clock, FakeClock)
    return brain.services.clock


@pytest.fixture
def provider(served: tuple[Brain, FastAPI, Provider]) -> Iterator[Provider]:
    _, _, provider = served
    yield provider
    provider.reset()


@pytest.fixture
def app(served: tuple[Brain, FastAPI, Provider], brain: Brain) -> FastAPI:  # noqa: ARG001 its clock moved
    _, app, _ = served
    return app


@pytest.fixture
def carla(app: FastAPI, provider: Provider) -> Person:
    return Person(browser(app, address=next(ADDRESSES)), provider)


@both_engines
@pytest.mark.requirement("ST-18")
def test_login_opens_a_session_with_the_claims_of_the_provider(
    owner: Brain, provider: Provider
) -> None:
    carla = Person(browser(app_of(owner, provider)), provider)
    assert f"Log in with {urlsplit(provider.name).netloc}" in carla.browser.get("/login").text
    done = carla.log_in(next_="/browse?kind=fact")

    assert opened(done) == "/browse?kind=fact"
    page = carla.browser.get("/browse?kind=fact")
    assert page.status_code == 200
    assert "writer of the tenant default" in page.text
    assert ">carla<" in page.text
    [form] = provider.forms
    assert (form["client_id"], form["client_secret"]) == (CLIENT, SECRET)
    entries = [(one.credential, one.code) for one in audited(owner) if one.action == LOGIN]
    assert entries == [("token/carla", None)]


@pytest.mark.requirement("ST-18")
def test_session_of_a_login_follows_its_agent_and_outlasts_the_token(
    owner: Brain, provider: Provider
) -> None:
    clock = owner.services.clock
    assert isinstance(clock, FakeClock)
    clock.move(datetime.fromtimestamp(TOKEN_ENDS_AT, UTC) - timedelta(minutes=5) - clock.now())
    carla = Person(browser(app_of(owner, provider)), provider)
    cookies = carla.log_in().headers.get_list("set-cookie")
    [session] = [one for one in cookies if one.startswith(f"{SESSION}=")]
    assert "HttpOnly" in session
    assert "samesite=strict" in session.lower()

    clock.move(timedelta(minutes=29))
    assert "writer of the tenant" in carla.browser.get("/").text
    admin_of(owner).set_agent("carla", AgentRequest(role=Role.READER))
    clock.move(timedelta(seconds=ACCESS_CACHE_S))
    assert "reader of the tenant" in carla.browser.get("/").text
    admin_of(owner).set_agent("carla", AgentRequest(is_disabled=True))
    clock.move(timedelta(seconds=ACCESS_CACHE_S))
    assert carla.browser.get("/").headers["location"] == "/login"


def test_public_client_logs_in_without_a_secret(brain: Brain, provider: Provider) -> None:
    provider.secret = None
    carla = Person(browser(app_of(brain, provider)), provider)
    assert opened(carla.log_in()) == "/"
    assert provider.forms[0]["code_verifier"]


def test_secret_is_sent_in_the_form_to_a_provider_that_takes_it_there(carla: Person) -> None:
    carla.provider.metadata = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    assert opened(carla.log_in()) == "/"


def test_scopes_of_the_settings_are_requested(brain: Brain, provider: Provider) -> None:
    app = app_of(brain, provider, oidc_scopes="openid groups")
    address = Person(browser(app), provider).address()
    assert parse_qs(urlsplit(address).query)["scope"] == ["openid groups"]


def test_page_without_a_client_has_no_login_at_a_provider(brain: Brain, provider: Provider) -> None:
    visitor = browser(app_of(brain, provider, oidc_client_id=None))
    assert "/login/provider" not in visitor.get("/login").text
    sent = visitor.client.post("/login/provider", data={"csrf": visitor.csrf("/login")})
    assert sent.status_code == 404
    assert visitor.get("/login/callback?code=1").status_code == 404


def test_secure_server_ties_the_login_to_its_host(brain: Brain, provider: Provider) -> None:
    app = app_of(brain, provider, url="https://brain.example")
    client = TestClient(app, base_url="https://brain.example", follow_redirects=False)
    cookies = Person(Browser(client), provider).leave().headers.get_list("set-cookie")
    [pending] = [one for one in cookies if one.startswith("__Host-commonbrain-provider=")]
    flags = {one.strip().lower() for one in pending.split(";")[1:]}
    assert flags == {"httponly", "max-age=600", "path=/", "samesite=lax", "secure"}


def test_login_changes_nothing_by_get_and_takes_no_foreign_form(
    app: FastAPI, carla: Person
) -> None:
    assert carla.browser.get("/login/provider").status_code == 405
    carla.browser.csrf("/login")
    fields = {"csrf": browser(app).csrf("/login")}
    sent = carla.browser.client.post("/login/provider", data=fields)
    assert refused(sent, 403, "another session")
    assert carla.provider.paths == []


def test_pages_with_a_login_at_a_provider_send_forms_to_this_server_only(carla: Person) -> None:
    for page in (carla.browser.get("/login"), carla.leave()):
        assert "form-action 'self';" in page.headers["content-security-policy"]


@pytest.mark.requirement("ST-19")
def test_answer_with_another_state_is_refused(carla: Person, subtests: pytest.Subtests) -> None:
    for state in (None, "", "x", "a" * 43):
        with subtests.test(state=state):
            path, _, query = carla.log_in_there().partition("?")
            fields = {**dict(parse_qsl(query)), "state": state}
            sent = {name: value for name, value in fields.items() if value is not None}
            answer = carla.come_back(f"{path}?{urlencode(sent)}")

            assert refused(answer, 403, "began in another browser")
    assert carla.provider.forms == []


@pytest.mark.requirement("ST-19")
def test_answer_to_another_browser_is_refused(app: FastAPI, carla: Person) -> None:
    # Eve has a code of her own account, and makes Carla's browser open her address.
    eve = Person(browser(app), carla.provider)
    path = eve.log_in_there()
    assert refused(carla.come_back(path), 403, "began in another browser")
    carla.address()
    assert refused(carla.come_back(path), 403, "began in another browser")
    assert carla.provider.forms == []


@pytest.mark.requirement("ST-19")
def test_answer_is_used_once_with_or_without_its_cookie(
    carla: Person, subtests: pytest.Subtests
) -> None:
    for has_cookie in (True, False):
        with subtests.test(has_cookie=has_cookie):
            carla.browser.client.cookies.clear()
            carla.provider.forms.clear()
            path = carla.log_in_there()
            cookie = carla.browser.client.cookies[COOKIE]
            assert opened(carla.come_back(path)) == "/"
            assert COOKIE not in carla.browser.client.cookies
            carla.browser.client.cookies.clear()
            if has_cookie:
                carla.browser.client.cookies.set(COOKIE, cookie)

            assert refused(carla.come_back(path), 403, "was used before")
            assert len(carla.provider.forms) == 1


def test_person_who_goes_back_to_the_answer_stays_logged_in(carla: Person) -> None:
    path = carla.log_in_there()
    carla.come_back(path)
    again = carla.browser.get(path)
    assert (again.status_code, again.headers["location"]) == (303, "/")
    assert len(carla.provider.forms) == 1


def test_login_form_under_another_name_leads_to_the_public_one(app: FastAPI) -> None:
    elsewhere = browser(app)
    elsewhere.client.base_url = "http://localhost:8377"
    sent = elsewhere.get("/login?next=/browse").headers["location"]
    assert sent == f"{URL}/login?next=%2Fbrowse"


@pytest.mark.requirement("ST-19")
def test_changed_cookie_fits_no_answer(carla: Person, subtests: pytest.Subtests) -> None:
    for place, changed in enumerate(("x" * 43, "4070908800", "L2FkbWlu")):
        with subtests.test(place=place):
            carla.browser.client.cookies.clear()
            path = carla.log_in_there(next_="/browse")
            parts = carla.browser.client.cookies[COOKIE].split(".")
            parts[place] = changed
            carla.browser.client.cookies.clear()
            carla.browser.client.cookies.set(COOKIE, ".".join(parts))

            assert refused(carla.come_back(path), 403, "began in another browser")


def test_malformed_cookie_is_refused(carla: Person, subtests: pytest.Subtests) -> None:
    for cookie in ("", "x", "..", "a.b.c", f"a.{'9' * 400}.c", "a.1.\xff"):
        with subtests.test(cookie=cookie):
            path = carla.log_in_there()
            carla.browser.client.cookies.clear()
            headers: Any = {"cookie": f"{COOKIE}={cookie}".encode("latin-1")}

            answer = carla.browser.client.get(path, headers=headers)

            assert refused(answer, 403, "began in another browser")


def test_answer_that_fits_no_login_leaves_the_one_in_progress(carla: Person) -> None:
    first, second = carla.log_in_there(), carla.log_in_there(next_="/browse")
    for path in (first, "/login/callback?code=x&state=y"):
        assert refused(carla.come_back(path), 403, "began in another browser")
    assert opened(carla.come_back(second)) == "/browse"


def test_login_that_takes_too_long_is_over(brain: Brain, carla: Person) -> None:
    clock = brain.services.clock
    assert isinstance(clock, FakeClock)
    path = carla.log_in_there()
    clock.move(timedelta(minutes=PROVIDER_LOGIN_MINUTES))

    assert refused(carla.come_back(path), 403, "took over 10 minutes")


WRONG_CLAIMS: list[dict[str, object]] = [
    {"nonce": "another"},
    {"nonce": None},
    {"nonce": 7},
    {"aud": "another client"},
    {"aud": [CLIENT, "another client"]},
    {"aud": [CLIENT, "another client"], "azp": "another client"},
    {"azp": "another client"},
    {"aud": "https://brain.test"},
    {"iss": "https://other.test"},
    {"exp": 1_000_000_000},
    {"iat": None},
    {"iat": 4_000_000_000},
    {"sub": None},
    {"tenant": None},
    {"tenant": "nobody"},
    {"role": "owner"},
    {"role": ["owner"]},
    {"role": ["writer", "admin"]},
    {"nonce": "\ud800"},
]


@pytest.mark.requirement("ST-19")
def test_token_that_is_not_for_this_login_opens_no_session(
    carla: Person, subtests: pytest.Subtests
) -> None:
    for claims in WRONG_CLAIMS:
        with subtests.test(claims=ascii(claims)):
            carla.provider.claims = claims

            answer = carla.log_in()

            assert refused(answer, 401, "is not valid here", "ask who runs the server")


def test_reason_why_a_token_is_refused_is_logged(
    carla: Person, caplog: pytest.LogCaptureFixture, subtests: pytest.Subtests
) -> None:
    cases: tuple[tuple[dict[str, object], str], ...] = (
        ({"tenant": None}, "MissingRequiredClaimError tenant"),
        ({"iss": "https://other.test"}, "InvalidIssuerError"),
        ({"aud": "another client"}, "InvalidAudienceError"),
        ({"role": "owner"}, "MissingRequiredClaimError role"),
    )
    for claims, logged in cases:
        with subtests.test(claims=claims):
            caplog.clear()
            carla.provider.claims = dict(claims)
            carla.log_in()
            assert logged in caplog.text


def test_role_is_found_in_a_list(carla: Person) -> None:
    carla.provider.claims = {"role": ["payroll", "reader"]}
    carla.log_in()
    assert "reader of the tenant" in carla.browser.get("/").text


def test_token_for_several_clients_is_accepted_if_it_names_this_one(carla: Person) -> None:
    carla.provider.claims = {"aud": [CLIENT, "another client"], "azp": CLIENT}
    assert opened(carla.log_in()) == "/"


def test_token_with_the_signature_of_a_stranger_opens_no_session(carla: Person) -> None:
    issuing = carla.provider.issuing
    keys, shown = dict(issuing.keys), list(issuing.shown)
    issuing.add("ed", "EdDSA")
    issuing.shown[:] = shown

    answer = carla.log_in()

    issuing.keys.update(keys)
    assert refused(answer, 401, "is not valid here")


def test_answer_of_another_issuer_is_refused(
    carla: Person, clock: FakeClock, subtests: pytest.Subtests
) -> None:
    provider = carla.provider
    for is_announced, issuer in product((False, True), (None, "own", "https://other.test")):
        with subtests.test(is_announced=is_announced, issuer=issuer):
            clock.move(timedelta(hours=1))
            provider.reset()
            provider.metadata = {"authorization_response_iss_parameter_supported": is_announced}
            if issuer is not None:
                provider.answer = {"iss": provider.name if issuer == "own" else issuer}
            is_right = issuer == "own" or (issuer is None and not is_announced)

            done = carla.log_in()

            assert opened(done) == "/" if is_right else refused(done, 401, "is not valid here")
            assert len(provider.forms) == int(is_right)


def test_error_of_the_provider_is_shown_with_a_next_step(
    carla: Person, caplog: pytest.LogCaptureFixture, subtests: pytest.Subtests
) -> None:
    for error, words in (
        ("access_denied", "was cancelled or denied"),
        ("login_required", "refused the login"),
        ("unauthorized_client", "COMMONBRAIN_OIDC_CLIENT_ID"),
        ("<script>alert(1)</script>", "refused the login"),
    ):
        with subtests.test(error=error):
            caplog.clear()
            carla.provider.error = error
            carla.provider.answer = {
                "error_description": "<b>call 555</b>",
                "error_uri": "//evil.example",
            }
            done = carla.log_in(next_="/browse")

            assert refused(done, 401, words)
            assert 'name="next" value="/browse"' in done.text
            for text in (done.text, caplog.text.replace("httpx", "")):
                assert not any(one in text for one in ("555", "evil", "<script>alert"))
            carla.provider.error, carla.provider.answer = None, {}
            assert opened(carla.log_in()) == "/"


def test_answer_without_a_code_is_refused(carla: Person) -> None:
    path = re.sub(r"code=[^&]+&", "", carla.log_in_there())
    assert refused(carla.come_back(path), 401, "refused the login")


WRONG_REPLIES: list[tuple[bytes, int, str]] = [
    (b'{"error": "invalid_grant", "error_description": "secret"}', 401, "refused the login"),
    (b'{"error": "invalid_client"}', 401, "COMMONBRAIN_OIDC_CLIENT_ID"),
    (b'{"access_token": "x"}', 401, "is not valid here"),
    (b'{"access_token": "x", "id_token": ["secret"]}', 401, "is not valid here"),
    (b'{"access_token": "x", "id_token": "secret"}', 401, "is not valid here"),
    (b'{"access_token": "x", "expires_in": [], "scope": 7}', 401, "is not valid here"),
    (b"<html>secret</html>", 503, "is not available"),
    (b'{"access_token": "x", "expires_in": 1e999}', 401, "is not valid here"),
    (
        b'{"access_token": "x", "a": ' + b"[" * 99_999 + b"]" * 99_999 + b"}",
        503,
        "is not available",
    ),
    (b"[]", 503, "is not available"),
    (b"\xff\xfe", 503, "is not available"),
    (b'{"access_token": "' + b"x" * 300_000 + b'"}', 503, "is not available"),
]


def test_code_that_is_not_exchanged_opens_no_session(
    carla: Person, caplog: pytest.LogCaptureFixture, subtests: pytest.Subtests
) -> None:
    for reply, status, words in WRONG_REPLIES:
        with subtests.test(reply=str(reply)[:40]):
            caplog.clear()
            carla.provider.reply = reply
            done = carla.log_in()

            assert refused(done, status, words)
            assert "secret" not in done.text.replace("its secret", "")
            assert "secret" not in caplog.text


def test_wrong_secret_is_reported_for_whoever_runs_the_server(carla: Person) -> None:
    carla.provider.secret = OTHER
    assert refused(carla.log_in(), 401, "does not accept this server", "COMMONBRAIN_OIDC_CLIENT_ID")


def test_neither_code_nor_token_is_logged_or_shown(
    carla: Person, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    carla.provider.claims = {"nonce": "another"}
    path = carla.log_in_there()
    done = carla.come_back(path)
    # The client of this test logs what it asks.
    ours = "".join(one.getMessage() for one in caplog.records if not one.name.startswith("httpx"))
    [form] = carla.provider.forms
    for secret in (form["code"], form["code_verifier"], SECRET, "eyJ"):
        assert secret not in done.text
        assert secret not in ours


def test_callbacks_are_limited_like_logins(carla: Person) -> None:
    carla.provider.claims = {"nonce": "another"}
    statuses = [carla.log_in().status_code for _ in range(PAGE_LOGINS_PER_MINUTE + 1)]
    assert set(statuses[:-1]) == {401}
    assert statuses[-1] == 429
    assert len(carla.provider.forms) == PAGE_LOGINS_PER_MINUTE


def test_errors_of_the_provider_use_up_logins_too(carla: Person) -> None:
    carla.provider.error = "server_error"
    statuses = [carla.log_in().status_code for _ in range(PAGE_LOGINS_PER_MINUTE + 1)]
    assert statuses[-1] == 429


def test_addresses_that_other_sites_made_use_up_no_logins(carla: Person) -> None:
    for _ in range(PAGE_LOGINS_PER_MINUTE):
        assert carla.come_back("/login/callback?code=x&state=y").status_code == 403
    assert opened(carla.log_in()) == "/"


def test_login_leads_to_no_other_site(carla: Person, subtests: pytest.Subtests) -> None:
    for next_ in ("//evil.example", "https://evil.example", "/\\evil.example"):
        with subtests.test(next=next_):
            assert opened(carla.log_in(next_=next_)) == "/"


def test_path_that_no_cookie_holds_is_dropped(carla: Person, subtests: pytest.Subtests) -> None:
    for letter in ("x", "\N{ELEPHANT}"):
        with subtests.test(letter=letter):
            assert opened(carla.log_in(next_=f"/search?query={letter * 1990}")) == "/"


def test_metadata_of_another_or_an_unsafe_provider_is_not_used(
    carla: Person, clock: FakeClock, subtests: pytest.Subtests
) -> None:
    cases: tuple[dict[str, object], ...] = (
        {"issuer": "https://other.test"},
        {"authorization_endpoint": "http://evil.example/authorize"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"token_endpoint": "ftp://localhost/token"},
        {"token_endpoint": None},
        {"token_endpoint_auth_methods_supported": "all"},
    )
    for metadata in cases:
        with subtests.test(metadata=metadata):
            # The metadata is fetched again, also after a failure.
            clock.move(timedelta(hours=1))
            carla.provider.paths.clear()
            carla.provider.metadata = metadata
            assert refused(carla.leave(), 503, "is not available", "API key")
            assert carla.provider.paths


def test_metadata_that_is_too_large_is_not_used(carla: Person) -> None:
    carla.provider.padding = 1_000_000
    assert refused(carla.leave(), 503, "is not available")


def test_metadata_that_never_ends_is_not_waited_for(brain: Brain, provider: Provider) -> None:
    provider.drips = True
    carla = Person(browser(app_of(brain, provider, jwt_timeout_s=0.2)), provider)
    assert refused(carla.leave(), 503, "is not available")


def test_metadata_is_fetched_once_an_hour_and_an_outage_is_not_repeated(
    brain: Brain, carla: Person
) -> None:
    clock, provider = brain.services.clock, carla.provider
    assert isinstance(clock, FakeClock)
    for _ in range(2):
        carla.log_in()
    assert provider.paths.count("/.well-known/openid-configuration") == 1

    clock.move(timedelta(hours=1))
    provider.padding = 1_000_000
    for _ in range(2):
        assert carla.leave().status_code == 503
    assert provider.paths.count("/.well-known/openid-configuration") == 2
    provider.padding = 0
    clock.move(timedelta(seconds=5))
    assert opened(carla.log_in()) == "/"


def test_outage_that_takes_as_long_as_the_pause_is_not_repeated(
    brain: Brain, carla: Person
) -> None:
    clock, provider = brain.services.clock, carla.provider
    assert isinstance(clock, FakeClock)
    provider.padding = 1_000_000
    provider.before_metadata = lambda: clock.move(timedelta(seconds=5))
    for _ in range(3):
        assert carla.leave().status_code == 503
    assert provider.paths.count("/.well-known/openid-configuration") == 1


def test_provider_that_is_down_leaves_the_login_by_key(brain: Brain) -> None:
    with a_provider() as provider:
        app = app_of(brain, provider)
    assert refused(Person(browser(app), provider).leave(), 503, "log in with an API key")


def test_refused_login_of_a_known_tenant_is_in_the_audit(owner: Brain, provider: Provider) -> None:
    admin_of(owner).set_agent("carla", AgentRequest(is_disabled=True))
    carla = Person(browser(app_of(owner, provider)), provider)
    assert refused(carla.log_in(), 401)
    entries = [(one.agent, one.code) for one in audited(owner) if one.action == ADMITTING]
    assert entries == [("carla", "invalid_credential")]
