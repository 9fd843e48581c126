"""People who log in to the page of a server at an OpenID provider."""

import html
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import httpx2
from browsers import Browser
from commonbrain_server.http.app import add_page, make_app
from commonbrain_server.http.authentication import ProtectedResource
from commonbrain_server.page_login import KeyLogin
from commonbrain_server.security.logins import make_page_sessions, make_provider_login
from commonbrain_server.settings import ServerSettings, TokenSettings
from fastapi import FastAPI
from pydantic import SecretStr

from commonbrain.client import Brain
from commonbrain.web.page_settings import LOOPBACK
from tests.guarded import an_access
from tests.security.providing import CLIENT, Provider

URL: Final = "http://127.0.0.1:8377"
COOKIE: Final = "commonbrain-8377-provider"
SESSION: Final = "commonbrain-8377"
LEADS_TO: Final = re.compile(r'http-equiv="refresh" content="0; url=([^"]+)"')


def settings_of(provider: Provider, **more: object) -> TokenSettings:
    plain: dict[str, object] = {
        "jwt_issuer": provider.name,
        "jwt_audience": "https://brain.test",
        "jwt_jwks_url": f"{provider.name}/keys",
        "jwt_leeway_s": 0,
        "oidc_client_id": CLIENT,
        "oidc_client_secret": SecretStr(provider.secret) if provider.secret else None,
    }
    return TokenSettings(**(plain | more))  # pyright: ignore[reportArgumentType]


def app_of(brain: Brain, provider: Provider, *, url: str = URL, **more: object) -> FastAPI:
    access, settings = an_access(brain), settings_of(provider, **more)
    app = make_app(brain, access, resource=ProtectedResource(url=url))
    sessions = make_page_sessions(brain, access, settings=ServerSettings())
    login = make_provider_login(brain, sessions, url=url, settings=settings)
    hosts = LOOPBACK | {str(urlsplit(url).hostname)}
    add_page(app, sessions, login=KeyLogin(provider=login), hosts=hosts)
    return app


@dataclass
class Person:
    """A person with a browser, Carla for the provider."""

    browser: Browser
    provider: Provider

    def leave(self, *, next_: str = "/") -> httpx2.Response:
        fields = {"csrf": self.browser.csrf("/login"), "next": next_}
        return self.browser.client.post("/login/provider", data=fields)

    def address(self, *, next_: str = "/") -> str:
        """Choose to log in at the provider; return its address."""
        page = self.leave(next_=next_)
        match = LEADS_TO.search(page.text)
        assert match, page.text
        return html.unescape(match[1])

    def log_in_there(self, *, next_: str = "/") -> str:
        """Log in at the provider; return the address that it sends the browser to."""
        sent = urlsplit(self.provider.send_back(self.address(next_=next_)))
        assert sent.path == "/login/callback"
        return f"{sent.path}?{sent.query}"

    def come_back(self, path: str) -> httpx2.Response:
        """Follow the provider's redirect, as a browser does that comes from another site."""
        return self.browser.get(
            path, **{"sec-fetch-site": "cross-site", "sec-fetch-dest": "document"}
        )

    def log_in(self, *, next_: str = "/") -> httpx2.Response:
        return self.come_back(self.log_in_there(next_=next_))


def opened(response: httpx2.Response) -> str | None:
    """Return the address that a browser opens after a login that started a session."""
    has_session = any(
        one.startswith(f"{SESSION}=") for one in response.headers.get_list("set-cookie")
    )
    match = LEADS_TO.search(response.text)
    return html.unescape(match[1]) if has_session and response.is_success and match else None


def refused(response: httpx2.Response, status: int, *words: str) -> bool:
    """Whether a response shows the login form with an error, and opens no session."""
    set_cookies = response.headers.get_list("set-cookie")
    return (
        response.status_code == status
        and 'action="/login/provider"' in response.text
        and all(word in html.unescape(response.text) for word in ("Log in", *words))
        and not any(one.startswith(f"{SESSION}=") for one in set_cookies)
    )
