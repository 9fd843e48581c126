"""The login of a server's page: by a key or a token, at an identity provider, or none at all."""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from commonbrain.api.errors import to_transport_error
from commonbrain.clock import Clock
from commonbrain.model.errors import AuthenticationError, CommonbrainError, RejectedError
from commonbrain.model.limits import PROVIDER_LOGIN_MINUTES
from commonbrain.model.scope import Caller
from commonbrain.web.actions import CSRF_FIELD, local_path
from commonbrain.web.app import BrowserPages, Form, address_of, foreign_form, redirect
from commonbrain.web.logins import PageLogin
from commonbrain.web.rendering import link
from commonbrain_server.security.authentication import CALLBACK_PATH, LOGIN_OVER, Authenticator
from commonbrain_server.security.provider_login import ProviderLogin

_LOGIN: Final = "commonbrain-login"
"""The cookie that ties the login form to its browser."""
_LOGIN_SECONDS: Final = 3600
_SECRET_BYTES: Final = 32
_OPEN_LIFETIME: Final = timedelta(days=7)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyLogin:
    """Asks people for a key or a token, or sends them to an identity provider."""

    templates = __package__
    provider: ProviderLogin | None = None
    """Logs people in at an identity provider, if there is one."""

    def routes(self, page: BrowserPages) -> list[Route]:
        """Return the routes of the form, and those of the provider."""
        shown = _LoginPages(page=page, provider=self.provider)
        routes = [
            Route("/login", shown.show_login),
            Route("/login", shown.log_in, methods=["POST"]),
            Route("/join", partial(_show_invitation, page, needs_key=True)),
        ]
        if self.provider is not None:
            start = partial(shown.log_in_at_provider, self.provider)
            finish = partial(shown.return_from_provider, self.provider)
            routes.append(Route("/login/provider", start, methods=["POST"]))
            routes.append(Route(CALLBACK_PATH, finish))
        return routes

    async def ask(self, page: BrowserPages, request: Request, *, next_: str) -> Response:  # noqa: ARG002 the protocol gives them
        """Send a browser to the form."""
        return redirect(link("/login", next="" if next_ == "/" else next_))


class OpenLogin:
    """Starts a session at once, on a server that accepts every call from this machine."""

    templates = __package__

    def routes(self, page: BrowserPages) -> list[Route]:
        """Return the place that leaving the page leads to, and the page of an invitation."""

        async def show_login(request: Request) -> Response:
            return await self.ask(page, request, next_="/")

        return [
            Route("/login", show_login),
            Route("/join", partial(_show_invitation, page, needs_key=False)),
        ]

    async def ask(self, page: BrowserPages, request: Request, *, next_: str) -> Response:
        """Start a session."""
        return await page.log_in(request, "", next_=next_)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSessions:
    """The sessions of a server that accepts every call from this machine, as `--open` says.

    They need no login and are stored nowhere: the token of a browser only ties its forms to it.
    """

    access: Authenticator
    clock: Clock

    def open(self, credential: str, *, address: str | None) -> PageLogin:
        """Start a session, whatever the credential; only for callers of this machine."""
        return self._session(
            secrets.token_urlsafe(_SECRET_BYTES), self.access.admit(credential, address=address)
        )

    def resume(self, token: str, *, address: str | None) -> PageLogin | None:
        """Return the session of any token, if the browser is on this machine."""
        caller = self.access.known(None, address=address)
        return None if caller is None else self._session(token, caller)

    def end(self, token: str) -> None:
        """Do nothing: nothing is stored."""

    def _session(self, token: str, caller: Caller) -> PageLogin:
        return PageLogin(token=token, caller=caller, ends_at=self.clock.now() + _OPEN_LIFETIME)


@dataclass(frozen=True, slots=True, kw_only=True)
class _LoginPages:
    page: BrowserPages
    provider: ProviderLogin | None

    @property
    def _provider_cookie(self) -> str:
        """The name of the cookie of a login that goes on at the identity provider."""
        return f"{self.page.settings.cookie}-provider"

    async def show_login(self, request: Request) -> Response:
        """Show the form that takes a key or a token."""
        next_ = local_path(request.query_params.get("next", "/"))
        public = self.page.settings.url
        if self.provider and public and request.url.hostname != urlsplit(public).hostname:
            # The provider returns to the public URL, which gets no cookies of another host.
            here = link("/login", next="" if next_ == "/" else next_)
            return redirect(public.rstrip("/") + here)
        return self._show_form(request, next_=next_)

    async def log_in(self, request: Request) -> Response:
        """Start the session of a key or a token."""
        form = await self.page.read_form(request)
        next_ = local_path(form.get("next", "/"))
        try:
            _check_login_form(request, form)
            return await self.page.log_in(request, form.get("credential", "").strip(), next_=next_)
        except (AuthenticationError, RejectedError) as error:
            return self._show_form(request, next_=next_, error=error)

    async def log_in_at_provider(self, provider: ProviderLogin, request: Request) -> Response:
        """Send a person to the identity provider.

        Browsers check every redirect of a form against its page's policy, and providers redirect to
        further ones, which nothing here knows; so a page opens the provider instead of a redirect.
        """
        form = await self.page.read_form(request)
        next_ = local_path(form.get("next", "/"))
        try:
            _check_login_form(request, form)
            login = provider.start(next_=next_)
            url = await self.page.threads.run(partial(provider.authorization_url, login))
        except CommonbrainError as error:
            return self._show_form(request, next_=next_, error=error)
        values = {"url": url, "host": provider.host}
        response = self.page.render(request, "provider.html", values=values)
        # A strict cookie would not come back with a person who returns from another site.
        age = PROVIDER_LOGIN_MINUTES * 60
        self.page.settings.set_cookie(
            response, self._provider_cookie, value=str(login), age=age, samesite="lax"
        )
        return response

    async def return_from_provider(self, provider: ProviderLogin, request: Request) -> Response:
        """Start the session of a person who returns from the identity provider."""
        login = provider.pending(request.cookies.get(self._provider_cookie, ""))
        next_ = local_path(login.next) if login else "/"
        finish = partial(
            provider.finish, login, query=request.url.query, address=address_of(request)
        )
        try:
            session = await self.page.threads.run(finish)
        except CommonbrainError as error:
            if error.code == LOGIN_OVER:
                # Another login of this browser may be in progress, or it went back in its history.
                is_open = await self.page.login_of(request) is not None
                return (
                    redirect("/") if is_open else self._show_form(request, next_=next_, error=error)
                )
            response = self._show_form(request, next_=next_, error=error)
        else:
            # A redirect would still be part of the provider's, which sends no strict cookie.
            response = self.page.render(request, "reload.html", values={"url": next_})
            response = self.page.with_login(response, session)
        response.delete_cookie(
            self._provider_cookie, secure=self.page.settings.is_secure, httponly=True
        )
        return response

    def _show_form(
        self, request: Request, *, next_: str, error: CommonbrainError | None = None
    ) -> Response:
        token = secrets.token_urlsafe()
        host = self.provider.host if self.provider else None
        shown = self.page.settings.redact(error) if error else None
        values = {"next": local_path(next_), "error": shown, "csrf": token, "provider": host}
        status = to_transport_error(error).http_status if error else HTTPStatus.OK
        response = self.page.render(request, "login.html", values=values, status=status)
        self.page.settings.set_cookie(response, _LOGIN, value=token, age=_LOGIN_SECONDS)
        return response


async def _show_invitation(page: BrowserPages, request: Request, *, needs_key: bool) -> Response:
    """Tell who opens the link of an invitation what to do with it."""
    values = {"needs_key": needs_key, "url": page.settings.url}
    return page.render(request, "invitation.html", values=values)


def _check_login_form(request: Request, form: Form) -> None:
    """Check that the form of a login was made for this browser.

    Raises:
        RejectedError: `csrf`, the form's token is missing or another browser's.

    """
    sent, known = form.get(CSRF_FIELD, ""), request.cookies.get(_LOGIN, "")
    if not known or not hmac.compare_digest(sent.encode(), known.encode()):
        raise foreign_form()
