"""The page of a shared server: its login, its callers, and what it refuses."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from browsers import Browser, browser
from commonbrain_server.http.app import add_page, make_app
from commonbrain_server.http.authentication import ProtectedResource
from commonbrain_server.page_login import KeyLogin, OpenLogin, OpenSessions
from commonbrain_server.security.logins import make_local_access, make_page_sessions
from commonbrain_server.settings import ServerSettings
from commonbrain_server.tenants import AgentRequest, KeyRequest, admin_of, tenants_of
from fastapi import FastAPI
from starlette.testclient import TestClient

from commonbrain.client import Brain
from commonbrain.model.limits import ACCESS_CACHE_S, PAGE_LOGINS_PER_MINUTE
from commonbrain.model.scope import Role
from commonbrain.testing.builders import FakeClock
from commonbrain.web.app import LOGIN_BYTES_MAX
from tests.guarded import a_guarded_brain, an_access
from tests.security.engines import both_engines
from tests.web.visitors import Markup


def app_of(brain: Brain) -> FastAPI:
    access = an_access(brain)
    app = make_app(brain, access)
    add_page(app, make_page_sessions(brain, access, settings=ServerSettings()), login=KeyLogin())
    return app


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Brain, FastAPI]]:
    """A server that all tests of this file use, but those that set it up otherwise."""
    with a_guarded_brain(
        tmp_path_factory.mktemp("served") / "brain.db", clock=FakeClock()
    ) as brain:
        yield brain, app_of(brain)


@pytest.fixture
def brain(served: tuple[Brain, FastAPI]) -> Brain:
    brain, _ = served
    return brain


@pytest.fixture
def app(served: tuple[Brain, FastAPI]) -> FastAPI:
    _, app = served
    return app


def key_of(owner: Brain, agent: str, role: Role) -> str:
    return str(admin_of(owner).create_key(KeyRequest(agent=agent, role=role)).text)


@both_engines
@pytest.mark.requirement("CL-17")
def test_key_is_exchanged_for_a_session_and_leads_back(owner: Brain) -> None:
    [stored] = owner.remember("Releases are cut on Tuesdays").items
    bob = browser(app_of(owner))
    page = f"/memory/{stored.id}?format=html"
    sent = bob.get(page)
    assert sent.headers["location"].startswith("/login?next=%2Fmemory")
    key = key_of(owner, "bob", Role.WRITER)
    done = bob.log_in(key, next_=page)
    assert (done.status_code, done.headers["location"]) == (303, page)
    assert "Tuesdays" in bob.get(page).text
    assert key not in "".join(bob.client.cookies.values())


def test_wrong_key_is_refused_without_a_reason(app: FastAPI) -> None:
    response = browser(app).log_in("cb_default_12345678_" + "0" * 48)
    assert response.status_code == 401
    assert "not valid" in response.text


def test_login_form_of_another_browser_is_refused(brain: Brain, app: FastAPI) -> None:
    key = key_of(brain, "bob", Role.WRITER)
    bob, eve = browser(app), browser(app)
    bob.csrf("/login")
    fields = {"csrf": eve.csrf("/login"), "credential": key}
    assert bob.client.post("/login", data=fields).status_code == 403


def test_login_form_is_small_and_has_one_encoding(app: FastAPI) -> None:
    eve = browser(app)
    fields = {"csrf": eve.csrf("/login"), "credential": "x" * LOGIN_BYTES_MAX}
    assert eve.client.post("/login", data=fields).status_code == 413
    parts = {name: (None, value[:100]) for name, value in fields.items()}
    assert eve.client.post("/login", files=parts).status_code == 403


def test_logins_are_limited(app: FastAPI) -> None:
    eve = browser(app, address="192.0.2.9")
    statuses = [eve.log_in("cb_default_x_y").status_code for _ in range(PAGE_LOGINS_PER_MINUTE + 1)]
    assert statuses[-1] == 429


def test_role_and_tenant_come_from_the_session_alone(brain: Brain, app: FastAPI) -> None:
    [stored] = brain.remember("Releases are cut on Tuesdays").items
    rita = browser(app)
    rita.log_in(key_of(brain, "rita", Role.READER))
    page = rita.get(f"/memory/{stored.id}")
    assert set(Markup(page.text).forms) == {"/logout"}
    fields = {"csrf": rita.csrf("/"), "op": "pin", "id": str(stored.id)}
    assert rita.client.post("/do/revise", data=fields).status_code == 403
    claimed = {"commonbrain-tenant": "other", "commonbrain-agent": "ann"}
    assert "rita" in rita.get("/", **claimed).text


def test_memory_of_another_tenant_is_reported_as_missing(brain: Brain, app: FastAPI) -> None:
    [stored] = brain.remember("Releases are cut on Tuesdays").items
    tenants_of(brain).make("globex")
    govern = admin_of(Brain(brain.services, replace(brain.caller, tenant="globex")))
    key = str(govern.create_key(KeyRequest(agent="gus", role=Role.ADMIN)).text)
    gus = browser(app)
    gus.log_in(key)
    missing = "mem_0000000000000"
    here, none = (gus.get(f"/memory/{one}") for one in (stored.id, missing))
    assert here.status_code == none.status_code == 404
    assert here.text.replace(str(stored.id), missing) == none.text
    assert "Tuesdays" not in gus.get("/").text


def test_session_of_a_disabled_agent_ends(brain: Brain, app: FastAPI) -> None:
    dora = browser(app)
    dora.log_in(key_of(brain, "dora", Role.WRITER))
    assert dora.get("/").status_code == 200
    admin_of(brain).set_agent("dora", AgentRequest(is_disabled=True))
    assert isinstance(brain.services.clock, FakeClock)
    brain.services.clock.move(timedelta(seconds=ACCESS_CACHE_S))
    assert dora.get("/").headers["location"] == "/login"


def test_link_of_another_site_opens_the_page_with_the_session(brain: Brain, app: FastAPI) -> None:
    bob = browser(app)
    bob.log_in(key_of(brain, "bob", Role.WRITER))
    token = bob.client.cookies["commonbrain-8377"]
    bob.client.cookies.clear()
    # A browser leaves the cookie out here, and sends it when the page opens itself again.
    link = {"sec-fetch-site": "cross-site", "sec-fetch-dest": "document"}
    crossing = bob.get("/browse", **link)
    assert 'http-equiv="refresh"' in crossing.text
    bob.client.cookies.set("commonbrain-8377", token)
    assert bob.get("/browse", **{"sec-fetch-site": "same-origin"}).status_code == 200


def test_api_and_page_do_not_accept_credentials_of_each_other(brain: Brain, app: FastAPI) -> None:
    bob = browser(app)
    key = key_of(brain, "bob", Role.WRITER)
    bob.log_in(key)
    # The session of a browser is no credential of the API, and a key is no session.
    assert bob.client.post("/v1/recall", json={}).status_code == 401
    headers = {"authorization": f"Bearer {key}"}
    assert bob.client.post("/v1/recall", json={}, headers=headers).status_code == 200
    bob.client.cookies.clear()
    assert bob.get("/", **headers).status_code == 303
    assert bob.get("/nothing").headers["content-type"] == "application/problem+json"


def test_secure_server_sends_cookies_only_over_tls(brain: Brain) -> None:
    access = an_access(brain)
    resource = ProtectedResource(url="https://brain.example")
    app = make_app(brain, access, resource=resource)
    hosts = frozenset({"brain.example"})
    add_page(
        app,
        make_page_sessions(brain, access, settings=ServerSettings()),
        login=KeyLogin(),
        hosts=hosts,
    )
    client = TestClient(app, base_url="https://brain.example", follow_redirects=False)
    bob = Browser(client)
    done = bob.log_in(key_of(brain, "bob", Role.WRITER))
    [cookie] = [one for one in done.headers.get_list("set-cookie") if "__Host-commonbrain" in one]
    assert "Secure" in cookie
    assert "HttpOnly" in cookie


def test_server_without_access_control_needs_no_login(brain: Brain) -> None:
    access = make_local_access(brain.caller)
    app = make_app(brain, access)
    add_page(app, OpenSessions(access=access, clock=brain.services.clock), login=OpenLogin())
    client = TestClient(
        app, base_url="http://127.0.0.1", client=("127.0.0.1", 5000), follow_redirects=True
    )
    assert "Learnt today" in client.get("/", headers={"accept": "text/html"}).text
    invited = client.get("/join", headers={"accept": "text/html"})
    assert "This server asks for no key" in invited.text
    exchanged = client.post("/v1/join", headers={"x-api-key": f"cb_default_12345678_{'0' * 48}"})
    assert "asks for no key" in exchanged.json()["detail"]
    elsewhere = TestClient(
        app, base_url="http://127.0.0.1", client=("192.0.2.7", 5000), follow_redirects=True
    )
    assert elsewhere.get("/", headers={"accept": "text/html"}).status_code == 403
