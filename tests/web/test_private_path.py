"""The page of `brain ui` below its private path: what another port of this machine gets."""

from dataclasses import dataclass
from html.parser import HTMLParser

import httpx2
import pytest
from starlette.testclient import TestClient

from commonbrain.api.thread_limiter import ThreadLimiter
from commonbrain.client import Brain
from commonbrain.web.app import make_page
from commonbrain.web.logins import LinkLogins
from commonbrain.web.page_settings import PageSettings
from commonbrain.web.private_path import PrivatePath, new_private_path
from commonbrain.web.screens import all_screens
from tests.web.demo import Demo
from tests.web.visitors import csrf_in

HERE, ELSEWHERE = "http://127.0.0.1:18441", "http://127.0.0.1:18450"
WITHIN_FORMS = {"value", "placeholder"}
"""Attributes with paths that the page itself reads."""


@dataclass(frozen=True, slots=True)
class PrivatePage:
    """A page that a browser has opened."""

    app: PrivatePath
    path: str
    browser: TestClient

    def get(self, path: str) -> httpx2.Response:
        return self.browser.get(f"{self.path}{path}", headers={"accept": "text/html"})


def opened(brain: Brain, cookies: httpx2.Cookies | None = None) -> PrivatePage:
    """Open a page in a browser, which may have cookies already."""
    path = new_private_path()
    sessions = LinkLogins(brain.caller, brain.services.clock)
    page = make_page(
        brain,
        sessions,
        threads=ThreadLimiter(2, seconds_max=30),
        settings=PageSettings(path=path),
    )
    app = PrivatePath(page, path=path)
    browser = TestClient(app, HERE, cookies=cookies, follow_redirects=False)
    done = browser.post(f"{path}/open", data={"token": sessions.make_link()})
    assert (done.status_code, done.headers["location"]) == (303, f"{path}/")
    return PrivatePage(app, path, browser)


@pytest.fixture
def page(brain: Brain, demo: Demo) -> PrivatePage:  # noqa: ARG001 the store is the shop's
    return opened(brain)


class Addresses(HTMLParser):
    """The attributes of a page that contain a path of this server."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.listed: list[tuple[str, str]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 the class gives it
        """Note the paths of an element."""
        self.listed += [
            (name, value)
            for name, value in attrs
            if value and value.startswith("/") and name not in WITHIN_FORMS
        ]


def test_every_address_of_every_screen_is_below_the_path(page: PrivatePage, demo: Demo) -> None:
    screens = [one.path.replace("{id}", demo.postgres_15) for one in all_screens()]
    for path in [*screens, "/search?query=click", f"/memory/{demo.hostile}", "/nothing"]:
        response = page.get(path)
        addresses = Addresses(response.text).listed
        assert addresses, path
        assert [one for one in addresses if not one[1].startswith(f"{page.path}/")] == [], path
        assert int(response.headers["content-length"]) == len(response.content), path


def test_actions_return_below_the_path_and_leave_cookies_there_alone(
    page: PrivatePage, demo: Demo
) -> None:
    fields = {"op": "pin", "id": demo.redis, "next": f"/memory/{demo.redis}"}
    fields["csrf"] = csrf_in(page.get("/").text)
    done = page.browser.post(f"{page.path}/do/revise", data=fields)
    assert done.headers["location"] == f"{page.path}/memory/{demo.redis}"
    assert "Undo" in page.get(f"/memory/{demo.redis}").text
    assert {cookie.path for cookie in page.browser.cookies.jar} == {page.path}
    logout = page.browser.post(f"{page.path}/logout", data={"csrf": fields["csrf"]})
    assert logout.headers["location"] == f"{page.path}/login"
    assert not list(page.browser.cookies.jar)
    assert page.get("/browse/").headers["location"] == f"{HERE}{page.path}/browse"


def test_another_port_gets_no_cookie_of_the_page(page: PrivatePage) -> None:
    heard: list[str | None] = []

    def listen(request: httpx2.Request) -> httpx2.Response:
        heard.append(request.headers.get("cookie"))
        return httpx2.Response(200)

    # Like that of a browser, this jar ignores ports.
    jar = httpx2.Cookies(page.browser.cookies)
    with httpx2.Client(transport=httpx2.MockTransport(listen), cookies=jar) as browser:
        browser.get(f"{HERE}{page.path}/browse")
        for path in ("/", "/browse", "/open", f"{page.path[:-1]}/", f"{page.path}x/"):
            browser.get(f"{ELSEWHERE}{path}")
    assert heard[0] is not None
    assert set(heard[1:]) == {None}


def test_outside_its_path_the_page_reveals_and_serves_nothing(page: PrivatePage) -> None:
    for path in ("/", "/browse", "/static/own/page.js", "/open", f"{page.path}x/", "//"):
        for method in ("GET", "HEAD", "POST"):
            response = page.browser.request(method, path)
            assert response.status_code == 404
            assert page.path not in response.text
            assert "set-cookie" not in response.headers


def test_second_page_leaves_the_first_logged_in(brain: Brain, demo: Demo) -> None:
    first = opened(brain)
    second = opened(brain, first.browser.cookies)
    first.browser.cookies.update(second.browser.cookies)
    for page in (first, second):
        page.browser.cookies = first.browser.cookies
        assert page.get(f"/memory/{demo.redis}").status_code == 200


def test_cookies_that_another_port_can_set_do_not_end_the_session(
    brain: Brain, page: PrivatePage
) -> None:
    of_others = [cookie.name for cookie in opened(brain).browser.cookies.jar]
    for name in ["commonbrain", *of_others]:
        page.browser.cookies.set(name, "x", domain="127.0.0.1", path="/")
    assert page.get("/").status_code == 200
