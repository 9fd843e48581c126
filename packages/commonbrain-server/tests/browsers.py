"""Browsers of people who log in to the page of a server."""

import re
from dataclasses import dataclass
from typing import Final

import httpx2
from fastapi import FastAPI
from starlette.testclient import TestClient

_CSRF: Final = re.compile(r'name="csrf" value="([^"]+)"')


@dataclass(slots=True)
class Browser:
    """A browser of a person who may log in."""

    client: TestClient

    def csrf(self, path: str) -> str:
        """Return the token of the forms of a page."""
        match = _CSRF.search(self.client.get(path, headers={"accept": "text/html"}).text)
        assert match is not None
        return match[1]

    def log_in(self, key: object, *, next_: str = "/") -> httpx2.Response:
        """Send the form of the login."""
        fields = {"csrf": self.csrf("/login"), "credential": str(key), "next": next_}
        return self.client.post("/login", data=fields)

    def get(self, path: str, **headers: str) -> httpx2.Response:
        """Open a page."""
        return self.client.get(path, headers={"accept": "text/html", **headers})


def browser(app: FastAPI, *, address: str = "192.0.2.1") -> Browser:
    client = TestClient(
        app,
        client=(address, 50_000),
        base_url="http://127.0.0.1",
        follow_redirects=False,
        raise_server_exceptions=False,
    )
    return Browser(client)
