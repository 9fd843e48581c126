"""Visitors of the page in tests: a browser without scripts, logged in as some caller."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from html import unescape
from html.parser import HTMLParser
from typing import Final

import httpx2
from starlette.testclient import TestClient

from commonbrain.api.thread_limiter import ThreadLimiter
from commonbrain.client import Brain
from commonbrain.model.scope import Caller
from commonbrain.web.app import make_page
from commonbrain.web.logins import LinkLogins

HOST: Final = "127.0.0.1"
_TAG: Final = re.compile(r"<[^>]+>")
_CSRF: Final = re.compile(r'name="csrf" value="([0-9a-f]{64})"')


@dataclass(slots=True)
class Visitor:
    """A browser that is logged in."""

    client: TestClient
    brain: Brain

    def get(self, path: str, **headers: str) -> httpx2.Response:
        """Open a page."""
        return self.client.get(path, headers={"accept": "text/html", **headers})

    def json(self, path: str) -> httpx2.Response:
        """Open the JSON twin of a page."""
        return self.client.get(path, headers={"accept": "application/json"})

    def csrf(self) -> str:
        """Return the token that the forms of this session contain."""
        return csrf_in(self.get("/").text)

    def post(
        self,
        path: str,
        fields: Mapping[str, str | list[str]],
        *,
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        """Send a form of this session."""
        data = {"csrf": self.csrf(), **fields}
        return self.client.post(path, data=data, headers=dict(headers or {}))


def csrf_in(html: str) -> str:
    """Return the token that the forms of a page contain."""
    match = _CSRF.search(html)
    assert match is not None
    return match[1]


def visitor(brain: Brain, caller: Caller | None = None) -> Visitor:
    """Log in to the page of a brain as a caller; as its own by default."""
    sessions = LinkLogins(caller or brain.caller, brain.services.clock)
    page = make_page(brain, sessions, threads=ThreadLimiter(2, seconds_max=30))
    client = TestClient(
        page, base_url=f"http://{HOST}", follow_redirects=False, raise_server_exceptions=False
    )
    opened = client.post("/open", data={"token": sessions.make_link()})
    assert opened.status_code == 303, opened.text
    return Visitor(client=client, brain=brain)


def notice(of: Visitor, operation: str, **fields: str | list[str]) -> str:
    """Send a form; return the HTML of the notice on the page that follows."""
    response = of.post(f"/do/{operation}", {"next": "/work", **fields})
    assert response.status_code == 303, response.text
    page = of.get(response.headers["location"]).text
    return page.split('role="status">', 1)[1].split("</div>", 1)[0]


def sentence(html: str) -> str:
    """Return the words of a notice."""
    return unescape(_TAG.sub("", html.split("</p>", maxsplit=1)[0])).strip()


def offers_undo(html: str) -> bool:
    """Whether a notice has a button that undoes what it reports."""
    return "Undo" in html


def as_role(brain: Brain, **changes: object) -> Caller:
    """Return the brain's caller with some fields changed."""
    return replace(brain.caller, **changes)  # pyright: ignore[reportArgumentType]


class Markup(HTMLParser):
    """What a page contains that a browser would run or follow."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.scripts: list[str | None] = []
        """The source of each script; None for one in the page itself."""
        self.styles = 0
        self.handlers: list[str] = []
        """Attributes that contain code or style."""
        self.links: list[str] = []
        self.buttons: list[str] = []
        self.forms: list[str] = []
        """The action of each form that changes something."""
        self.hidden: dict[str, str] = {}
        """The hidden fields of the first form that has the field `op`, an undo if there is one."""
        self._fields: dict[str, str] = {}
        self._in_button = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        given = dict(attrs)
        if tag == "script":
            self.scripts.append(given.get("src"))
        self.styles += tag == "style"
        self.handlers += [name for name in given if name.startswith("on") or name == "style"]
        self.links += [value for name in ("href", "src", "action") if (value := given.get(name))]
        self._in_button = self._in_button or tag in {"button", "summary"}
        if tag == "form":
            self._fields = {}
        if tag == "input" and given.get("type") == "hidden":
            self._fields[given.get("name") or ""] = given.get("value") or ""
        if tag == "form" and given.get("method") == "post":
            self.forms.append(given.get("action") or "")

    def handle_endtag(self, tag: str) -> None:
        """Note the end of an element."""
        if tag == "form" and "op" in self._fields and not self.hidden:
            self.hidden = self._fields
        if tag in {"button", "summary"}:
            self._in_button = False

    def handle_data(self, data: str) -> None:
        """Note the text of a button."""
        if self._in_button and data.strip():
            self.buttons.append(" ".join(data.split()))
