"""The web page as an application: its routes, its sessions and its errors.

Each screen has an address that can be shared; with `format=json`, or `Accept: application/json`,
the same address returns what the screen shows as JSON.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cache, partial
from http import HTTPStatus
from typing import Any, Final, Protocol
from urllib.parse import parse_qsl

from jinja2 import Environment
from pydantic import TypeAdapter
from starlette.applications import Starlette
from starlette.datastructures import ImmutableMultiDict
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from commonbrain.api.dispatch import authorize
from commonbrain.api.errors import describe_error, to_transport_error
from commonbrain.api.thread_limiter import ThreadLimiter, enter_lane
from commonbrain.client import Brain
from commonbrain.model.errors import (
    AuthenticationError,
    CommonbrainError,
    InvalidInputError,
    NotFoundError,
    RejectedError,
    UnavailableError,
)
from commonbrain.model.scope import Authority
from commonbrain.model.values import replace
from commonbrain.web import transfers
from commonbrain.web.actions import (
    CSRF_FIELD,
    Confirmation,
    Notice,
    local_path,
    read_notice,
    run_action,
    sign_notice,
)
from commonbrain.web.backups import Backups
from commonbrain.web.logins import PageLogin, PageLogins
from commonbrain.web.page_settings import PageSettings
from commonbrain.web.rendering import STATIC_FOLDERS
from commonbrain.web.request_guard import HEADERS, OriginPolicy, RequestGuard
from commonbrain.web.screens import Screen, all_screens
from commonbrain.web.screens.screen import NewSecret, page_environment
from commonbrain.web.transfers import IMPORT_PATH, TRANSFER_PATH, FormUploads
from commonbrain.web.visit import Visit, valid_fields

Form = ImmutableMultiDict[str, str]
"""The fields of a form; some have several values."""
NO_FORM: Final = Form()
Work = Callable[[Visit, Request], Response]
"""Answers a person's request."""
_LOG: Final = logging.getLogger(__name__)
BODY_BYTES_MAX: Final = 256 * 1024
"""The largest form: a text of 16 KiB, percent-encoded, and a hundred ids."""
LOGIN_BYTES_MAX: Final = 32 * 1024
"""The largest form of a login, which anyone may send: a token of 8 KiB, and a path in escapes."""
_FIELDS_MAX: Final = 500
_FORM_TIMEOUT_S: Final = 30
_NOTICE_SECONDS: Final = 60
_STATIC_AGE: Final = "public, max-age=31536000, immutable"
"""The address of a static file changes with its content."""


def make_page(
    brain: Brain,
    logins: PageLogins,
    *,
    threads: ThreadLimiter,
    settings: PageSettings | None = None,
    backups: Backups | None = None,
    login_screen: LoginScreen | None = None,
) -> Starlette:
    """Make the page of an open brain, which stays open when the page ends.

    Args:
        brain: the open store; each visitor acts as the caller of their login.
        logins: opens and finds the logins of browsers.
        threads: runs the operations.
        settings: how the page is served; on loopback by default.
        backups: makes backups of the store, if this page does.
        login_screen: lets browsers log in; by default the link that `brain ui` opens does.

    """
    settings, login_screen = settings or PageSettings(), login_screen or LinkLoginScreen()
    page = BrowserPages(
        brain=brain,
        logins=logins,
        threads=threads,
        settings=settings,
        uploads=FormUploads(settings.take_upload),
        backups=backups,
        login_screen=login_screen,
        environment=page_environment(*([login_screen.templates] if login_screen.templates else [])),
    )
    posted = {
        "/do/{operation}": page.act,
        "/transfer/export": page.change_transfer(transfers.start_export),
        "/transfer/previewed": page.change_transfer(transfers.import_previewed),
        "/transfer/backup": page.change_transfer(transfers.change_backup),
    }
    login_routes = login_screen.routes(page)
    routes = [
        *(
            Route(
                screen.path,
                partial(page.answer, partial(page.show, screen=screen)),
                name=screen.name,
            )
            for screen in all_screens()
        ),
        *(
            Route(path, partial(page.answer, work), methods=["POST"])
            for path, work in posted.items()
        ),
        Route(IMPORT_PATH, page.receive, methods=["POST"]),
        Route("/transfer/archive/{id}", partial(page.answer, page.fetch_archive)),
        *login_routes,
        Route("/logout", page.log_out, methods=["POST"]),
        *(
            Mount(f"/static/{name}", _CachedFiles(directory=folder))
            for name, folder in STATIC_FOLDERS.items()
        ),
    ]
    guard = Middleware(
        RequestGuard,
        policy=OriginPolicy(hosts=settings.hosts, url=settings.url, takes_links=True),
        bytes_max=BODY_BYTES_MAX,
        by_path={
            IMPORT_PATH: transfers.BODY_BYTES_MAX,
            **{route.path: LOGIN_BYTES_MAX for route in login_routes},
        },
    )
    handlers: dict[Any, Any] = dict.fromkeys(
        (CommonbrainError, HTTPException, Exception), page.show_error
    )
    return Starlette(routes=routes, middleware=[guard], exception_handlers=handlers)


class _CachedFiles(StaticFiles):
    """Static files that a browser keeps."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:  # noqa: ANN401 as Starlette's
        """Return a file that may be cached."""
        response = super().file_response(*args, **kwargs)
        response.headers["Cache-Control"] = _STATIC_AGE
        return response


@dataclass(frozen=True, slots=True)
class BrowserPages:
    """Answers the requests of browsers."""

    _: KW_ONLY
    brain: Brain
    logins: PageLogins
    threads: ThreadLimiter
    settings: PageSettings
    uploads: FormUploads
    backups: Backups | None = None
    login_screen: LoginScreen
    environment: Environment

    async def answer(self, work: Work, request: Request) -> Response:
        """Answer a person's request in a thread, which acts as the caller of their login."""
        login = await self.login_of(request)
        if login is None:
            return await self._ask_to_log_in(request)
        form = NO_FORM
        if request.method == "POST":
            form = await self.read_form(request)
            _check_token(form.get(CSRF_FIELD, ""), login)

        def run() -> Response:
            return work(self._visit(login, request, form=form), request)

        return await self.threads.run(run)

    def show(self, visit: Visit, request: Request, *, screen: Screen) -> Response:
        """Show a screen, as HTML or as JSON."""
        if not visit.can(screen.role):
            raise RejectedError(
                f"{screen.title} is for the role {screen.role}.",
                code="insufficient_role",
                hint="Ask an admin.",
            )
        with valid_fields():
            view = screen.load(visit)
        if _wants_json(request):
            return JSONResponse(_adapter(type(view)).dump_python(view, mode="json"))
        if csv := getattr(view, "csv", None) if visit.text("format") == "csv" else None:
            return csv()
        notice = read_notice(request.cookies.get(_NOTICE, "."), key=request.state.login.token)
        values = {"view": view, "notice": notice, "screen": screen}
        response = self.render(request, screen.template, values=values)
        if notice is not None:
            response.delete_cookie(_NOTICE, httponly=True, samesite="strict")
        return response

    def act(self, visit: Visit, request: Request) -> Response:
        """Run the operation of a form, then return to the page that it came from."""
        form = visit.form
        done = run_action(visit, request.path_params["operation"], form=form)
        match done:
            case Confirmation():
                return self.render(request, "confirm.html", values={"view": done})
            case NewSecret():
                values = {"view": done, "next": local_path(form.get("next", "/"))}
                return self.render(request, "secret.html", values=values)
            case Notice():
                place = (done.back if done.is_refusal else done.next) or form.get("next", "/")
                response = redirect(local_path(place))
                self.settings.set_cookie(
                    response,
                    _NOTICE,
                    value=sign_notice(done, key=request.state.login.token),
                    age=_NOTICE_SECONDS,
                )
                return response

    async def receive(self, request: Request) -> Response:
        """Receive a file and create the job that imports it.

        The token is in the address, so that nothing is read of a form from elsewhere.
        """
        login = await self.login_of(request)
        if login is None:
            return await self._ask_to_log_in(request)
        _check_token(request.query_params.get(CSRF_FIELD, ""), login)
        visit = self._visit(login, request)
        await self.threads.run(partial(transfers.check_may_import, visit))
        try:
            async with self.uploads.receive(request, visit.brain.caller) as file:
                # The thread may read the file for longer than this request waits.
                close = file.resources.pop_all().close
                start = partial(transfers.start_import, visit, file.form)
                await self.threads.run(start, on_end=close)
        except ClientDisconnect:
            return Response(status_code=HTTPStatus.BAD_REQUEST)
        return redirect(TRANSFER_PATH)

    def change_transfer(self, change: Callable[[Visit, Form], None]) -> Work:
        """Return what makes the change of a form of the screen that moves files."""

        def work(visit: Visit, _request: Request) -> Response:
            change(visit, visit.form)
            return redirect(TRANSFER_PATH)

        return work

    def fetch_archive(self, visit: Visit, request: Request) -> Response:
        """Send the archive of an export."""
        return transfers.open_archive(visit, request.path_params["id"])

    async def log_out(self, request: Request) -> Response:
        """End the login."""
        login = await self.login_of(request)
        if login is not None:
            form = await self.read_form(request)
            _check_token(form.get(CSRF_FIELD, ""), login)
            await self.threads.run(partial(self.logins.end, login.token))
        response = redirect("/login")
        response.delete_cookie(self.settings.cookie, secure=self.settings.is_secure, httponly=True)
        return response

    async def show_error(self, request: Request, error: Exception) -> Response:
        """Show an error with its next step."""
        match error:
            case CommonbrainError():
                shown, status = error, to_transport_error(error).http_status
            case HTTPException(status_code=HTTPStatus.NOT_FOUND):
                shown, status = NotFoundError("There is no such page."), HTTPStatus.NOT_FOUND
            case HTTPException():
                shown, status = InvalidInputError(f"{error.detail}."), error.status_code
            case _:
                _LOG.error("a page failed", exc_info=error)
                shown, status = _INTERNAL, HTTPStatus.INTERNAL_SERVER_ERROR
        shown = self.settings.redact(shown)
        if _wants_json(request):
            response: Response = JSONResponse(describe_error(shown), status)
        else:
            values = {"error": shown}
            response = self.render(request, "error.html", values=values, status=status)
        # An internal error is answered outside the guard.
        response.headers.update(HEADERS)
        return response

    async def log_in(self, request: Request, credential: str, *, next_: str = "/") -> Response:
        """Log in with a credential, and go to a path."""
        enter_lane(None)
        start = partial(self.logins.open, credential, address=address_of(request))
        return self.with_login(redirect(next_), await self.threads.run(start))

    def with_login(self, response: Response, login: PageLogin) -> Response:
        """Let the browser keep a login."""
        age = int((login.ends_at - self.brain.services.clock.now()).total_seconds())
        self.settings.set_cookie(response, self.settings.cookie, value=login.token, age=age)
        return response

    async def login_of(self, request: Request) -> PageLogin | None:
        """Return the login of a request."""
        enter_lane(None)
        token = request.cookies.get(self.settings.cookie)
        if not token:
            return None
        resume = partial(self.logins.resume, token, address=address_of(request))
        login = await self.threads.run(resume)
        enter_lane(login.caller if login else None)
        request.state.login = login
        return login

    async def _ask_to_log_in(self, request: Request) -> Response:
        """Answer a request without a login."""
        path = f"{request.url.path}?{request.url.query}".rstrip("?")
        here = path if request.method == "GET" else "/"
        if _wants_json(request):
            error = AuthenticationError("Log in first.", code="missing_credential")
            return JSONResponse(describe_error(error), HTTPStatus.UNAUTHORIZED)
        if request.method == "GET" and request.headers.get("sec-fetch-site") == "cross-site":
            # A browser sends no strict cookie when it follows a link of another site, but does
            # when the page then opens itself.
            return self.render(request, "reload.html", values={"url": ""})
        return await self.login_screen.ask(self, request, next_=here)

    def _visit(self, login: PageLogin, request: Request, *, form: Form = NO_FORM) -> Visit:
        """Return the visit of a login; it counts against the caller's rate limit."""
        authorize(self.brain.services, login.caller)
        return Visit(
            # The page is for people, whatever the credential of the login.
            brain=Brain(self.brain.services, replace(login.caller, authority=Authority.PERSON)),
            parameters=request.query_params,
            form=form,
            path=request.path_params,
            backups=self.backups,
        )

    async def read_form(self, request: Request) -> Form:
        """Read a form without files; one of another encoding has no token.

        Raises:
            InvalidInputError: `limit_exceeded`, it has too many fields.
            UnavailableError: `deadline`.

        """
        try:
            async with asyncio.timeout(_FORM_TIMEOUT_S):
                body = (await request.body()).decode("utf-8", "replace")
        except (TimeoutError, ClientDisconnect):
            raise UnavailableError(
                "The form did not arrive in time.", code="deadline", hint="Send it again."
            ) from None
        if body.count("&") >= _FIELDS_MAX:
            raise InvalidInputError(
                f"The form has more than {_FIELDS_MAX} fields.",
                code="limit_exceeded",
                hint="Send it in parts.",
            )
        return Form(parse_qsl(body, keep_blank_values=True))

    def render(
        self,
        request: Request,
        template: str,
        *,
        values: Mapping[str, object],
        status: int = HTTPStatus.OK,
    ) -> Response:
        """Render a template."""
        login = getattr(request.state, "login", None)
        path = f"{request.url.path}?{request.url.query}".rstrip("?")
        known = {
            "caller": login.caller if login else None,
            "can": login.caller.role.covers if login else None,
            "csrf": csrf_token(login) if login else "",
            "notice": None,
            "now": self.brain.services.clock.now(),
            "path": path if request.method == "GET" else "/",
            "screens": all_screens(),
            "screen": None,
            "theme": theme if (theme := request.cookies.get(_THEME)) in _THEMES else None,
        }
        return HTMLResponse(
            self.environment.get_template(template).render(known | dict(values)), status
        )


class LoginScreen(Protocol):
    """Lets browsers log in."""

    @property
    def templates(self) -> str | None:
        """The package whose folder `templates` has those of its routes; None for the page's."""
        ...

    def routes(self, page: BrowserPages) -> list[Route]:
        """Return its routes."""
        ...

    async def ask(self, page: BrowserPages, request: Request, *, next_: str) -> Response:
        """Answer a request without a session; `next_` is the path to open with one."""
        ...


class LinkLoginScreen:
    """Logs in by a link that works once, which `brain ui` opens.

    The link leads to a form, so that a preview or a prefetch of it does not spend it.
    """

    templates = None

    def routes(self, page: BrowserPages) -> list[Route]:
        """Return the route of the link, and the place that leaving the page leads to."""

        async def show_link(request: Request) -> Response:
            if await page.login_of(request):
                return redirect("/")
            values = {"token": request.query_params.get("token", "")}
            return page.render(request, "open.html", values=values)

        async def open_link(request: Request) -> Response:
            form = await page.read_form(request)
            return await page.log_in(request, form.get("token", ""))

        async def show_login(request: Request) -> Response:
            return await self.ask(page, request, next_="/")

        return [
            Route("/open", show_link),
            Route("/open", open_link, methods=["POST"]),
            Route("/login", show_login),
        ]

    async def ask(self, page: BrowserPages, request: Request, *, next_: str) -> Response:  # noqa: ARG002 the protocol gives it
        """Say how to get a link."""
        return page.render(request, "no_session.html", values={}, status=HTTPStatus.UNAUTHORIZED)


_NOTICE: Final = "commonbrain-notice"
_THEME: Final = "commonbrain-theme"
"""The cookie of the theme, which a script of the page sets; the system's without it.

Ports share cookies, so that `brain ui` remembers it on another port.
"""
_THEMES: Final = frozenset({"light", "dark"})
_INTERNAL: Final = CommonbrainError(
    "An internal error occurred.", code="internal", hint="The log shows the cause."
)


def csrf_token(login: PageLogin) -> str:
    """Return the token that each form of a login must contain."""
    return hmac.digest(login.token.encode(), b"csrf", "sha256").hex()


def _check_token(given: str, login: PageLogin) -> None:
    """Check that this session's page made a form.

    Raises:
        RejectedError: `csrf`, the form's token is missing or another session's.

    """
    if not hmac.compare_digest(given.encode(), csrf_token(login).encode()):
        raise foreign_form()


def foreign_form() -> RejectedError:
    """Return the error for a form that another login, or another site, made."""
    return RejectedError(
        "This form belongs to another session.",
        code="csrf",
        hint="Go back, reload the page, and send it again.",
    )


def _wants_json(request: Request) -> bool:
    chosen = request.query_params.get("format")
    accepted = request.headers.get("accept", "")
    return chosen == "json" or (
        chosen is None and "application/json" in accepted and "text/html" not in accepted
    )


@cache
def _adapter(view_type: type) -> TypeAdapter[Any]:
    return TypeAdapter(view_type)


def address_of(request: Request) -> str | None:
    """Return the IP address of the browser, if known."""
    return request.client.host if request.client else None


def redirect(path: str) -> Response:
    """Let the browser get another page."""
    return RedirectResponse(path, HTTPStatus.SEE_OTHER)
