"""People who visit the page in a process of its own: what they see and which forms they send."""

import re
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from html import unescape
from typing import Any, Final

from starlette.testclient import TestClient

from commonbrain.api.thread_limiter import ThreadLimiter
from commonbrain.client import Brain
from commonbrain.model.scope import Admission, Role
from commonbrain.web.app import make_page
from commonbrain.web.logins import LinkLogins

_CSRF: Final = re.compile(r'name="csrf" value="(\w+)"')
_FORM: Final = re.compile(r'<form[^>]*action="/do/(\w+)"[^>]*>(.*?)</form>', re.DOTALL)
_FIELD: Final = re.compile(r'<input type="hidden" name="(\w+)" value="([^"]*)">')


@dataclass(frozen=True, slots=True)
class Person:
    """A person who is logged in."""

    client: TestClient

    def see(self, path: str, *, status: int = 200) -> str:
        """Open a page and return its HTML."""
        response = self.client.get(path)
        assert response.status_code == status, response.text
        return response.text

    def read(self, path: str, *, status: int = 200) -> dict[str, Any]:
        """Return the JSON of a page."""
        response = self.client.get(path, headers={"Accept": "application/json"})
        assert response.status_code == status, response.text
        return response.json()

    def send(self, operation: str, *, status: int = 200, **fields: str | list[str]) -> str:
        """Send the form of an operation and return the page that follows."""
        csrf = _CSRF.findall(self.see("/"))[0]
        data = {"csrf": csrf, "next": "/health", **fields}
        response = self.client.post(f"/do/{operation}", data=data)
        assert response.status_code == status, response.text
        return response.text

    def confirm(self, page: str) -> str:
        """Confirm what a page asks, or undo what its notice says was done."""
        operation, form = next(
            (operation, form)
            for operation, form in _FORM.findall(page)
            if 'name="confirmed"' in form
        )
        response = self.client.post(f"/do/{operation}", data=dict(_FIELD.findall(form)))
        assert response.status_code == 200, response.text
        return response.text


@contextmanager
def visiting(
    brain: Brain, role: Role = Role.ADMIN, *, is_remote: bool = False
) -> Generator[Person]:
    """Log in as an agent with a role, on this machine or by a server."""
    admission = Admission(credential="0a1b2c3d", role=role) if is_remote else None
    caller = replace(brain.caller, role=role, admission=admission)
    sessions = LinkLogins(caller, brain.services.clock)
    with closing(ThreadLimiter(2, seconds_max=30)) as threads:
        page = make_page(brain, sessions, threads=threads)
        with TestClient(page, "http://localhost", raise_server_exceptions=False) as client:
            client.post("/open", data={"token": sessions.make_link()})
            yield Person(client)


def rows_of(ann: Person, path: str, *where: str) -> list[str]:
    """Follow the links to the next page; return the rows of all pages."""
    rows: list[str] = []
    while path:
        view: Any = ann.read(path)
        for name in where:
            view = view[name]
        rows += map(str, view)
        following = re.findall(r'rel="next" href="([^"]+)"', ann.see(path))
        path = unescape(following[0]) if following else ""
    return rows
