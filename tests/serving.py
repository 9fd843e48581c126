"""Servers for tests: in this process on a free port, or as people start them."""

import asyncio
import secrets
import socket
import subprocess
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Thread
from typing import Literal, Protocol

import httpx2
import uvicorn
from commonbrain_server.http.app import BodyLimits, make_app
from commonbrain_server.http.authentication import ProtectedResource
from fastapi import FastAPI
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import Implementation
from starlette.testclient import TestClient
from starlette.types import ASGIApp

from commonbrain.client import Brain
from commonbrain.model.errors import AuthenticationError
from commonbrain.model.scope import LOCAL_TENANT, Authority, Caller, Role, Trust
from tests.processes import TIMEOUT_S, clean_environment, command
from tests.tenant_rows import add_tenant

Era = Literal["auto", "legacy"]
AS_FILE: Mapping[str, str] = {"Content-Type": "application/octet-stream"}
"""The headers of a body that is a file."""
ISSUER = "https://login.example.org"
CALLERS: Mapping[str, Caller] = {
    "key-of-ann": Caller(agent="ann", role=Role.WRITER),
    "key-of-ben": Caller(agent="ben", role=Role.WRITER),
    "key-of-rea": Caller(agent="rea", role=Role.READER),
    "key-of-web": Caller(agent="web", role=Role.WRITER, trust_ceiling=Trust.UNTRUSTED_WEB),
    "key-of-zoe": Caller(tenant="other", agent="zoe", role=Role.ADMIN, authority=Authority.PERSON),
    "key-of-ira": Caller(
        agent="ira",
        role=Role.ADMIN,
        trust_ceiling=Trust.USER_CLAIM,
        authority=Authority.PERSON,
    ),
    "key-of-ada": Caller(
        agent="ada", role=Role.ADMIN, tenant=LOCAL_TENANT, authority=Authority.PERSON
    ),
}


@dataclass(slots=True)
class KeyRing:
    """Tells callers by keys that a test made up."""

    callers: Mapping[str, Caller] = field(default_factory=lambda: CALLERS)

    def admit(self, credential: str | None, *, address: str | None) -> Caller:
        if credential is None:
            raise AuthenticationError(
                "No credential.", code="missing_credential", hint="Give a key."
            )
        if credential not in self.callers or address is None:
            raise AuthenticationError("This credential is not known.", hint="Give another one.")
        return self.callers[credential]

    def invited(self, credential: str | None, *, address: str | None) -> Caller:
        self.admit(credential, address=address)
        raise AuthenticationError("No key of the test is an invitation.", hint="Call with it.")

    def known(self, credential: str | None, *, address: str | None) -> Caller | None:
        return self.callers.get(credential or "") if address is not None else None


@dataclass(slots=True)
class MovingKeyRing(KeyRing):
    """Tells the same callers, in the tenants of the test that runs."""

    tenants: dict[str, str] = field(default_factory=dict[str, str])
    """The tenant of this test for each tenant that `CALLERS` names."""

    def move(self, brain: Brain, number: int) -> str:
        """Let the callers be of new tenants, and return the one of most of them."""
        for tenant in {caller.tenant for caller in self.callers.values()}:
            self.tenants[tenant] = f"{tenant}-{number}"
            add_tenant(brain, self.tenants[tenant])
        return self.tenants[LOCAL_TENANT]

    def admit(self, credential: str | None, *, address: str | None) -> Caller:
        caller = KeyRing.admit(self, credential, address=address)
        return replace(caller, tenant=self.tenants[caller.tenant])

    def known(self, credential: str | None, *, address: str | None) -> Caller | None:
        caller = KeyRing.known(self, credential, address=address)
        return caller and replace(caller, tenant=self.tenants[caller.tenant])


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosted:
    """A server that the tests of a session share."""

    brain: Brain
    keys: MovingKeyRing
    client: TestClient


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """A server on a port that the tests of a session share."""

    brain: Brain
    keys: MovingKeyRing
    url: str


def an_app(
    brain: Brain,
    *,
    issuer: str | None = None,
    limits: BodyLimits | None = None,
    keys: KeyRing | None = None,
) -> FastAPI:
    resource = ProtectedResource(url="http://127.0.0.1:8377", issuer=issuer)
    return make_app(brain, keys or KeyRing(), resource=resource, limits=limits)


@contextmanager
def calling(app: FastAPI, key: str | None = "key-of-ann") -> Generator[TestClient]:
    """A client in this process, which bears a key."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    with TestClient(app, "http://localhost", raise_server_exceptions=False) as client:
        client.headers.update(headers)
        yield client


@contextmanager
def listening(app: ASGIApp) -> Generator[str]:
    """Serve on a free port in a thread; give the URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1, http="h11")
        server = uvicorn.Server(config)
        thread = Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(TIMEOUT_S)


@asynccontextmanager
async def client_at(
    url: str, *, key: str, era: Era = "auto", name: str = "codex", session: str | None = None
) -> AsyncGenerator[Client]:
    """An MCP client that bears a key, and may name its session."""
    headers = {"Authorization": f"Bearer {key}"}
    headers |= {"Commonbrain-Session": session} if session else {}
    async with httpx2.AsyncClient(headers=headers, timeout=TIMEOUT_S) as http:
        transport = streamable_http_client(f"{url}/mcp", http_client=http)
        named = Implementation(name=name, version="1")
        async with Client(transport, mode=era, client_info=named) as client:
            yield client


def free_port() -> int:
    """Return a port that nothing listens on, below those that systems give out on their own.

    Of those, a server of another test could get it before the one that it is for.
    """
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


@contextmanager
def started(
    store: Path | str, *options: str, port: int, is_open: bool = True, **settings: str
) -> Generator[subprocess.Popen[bytes]]:
    """Start `brain serve` as people do, for all of this machine, and wait until it is ready."""
    reach = ["--open"] if is_open else []
    line = command(store, "serve", *reach, "--port", str(port), *options)
    with subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment(**settings)
    ) as process:
        try:
            until_ready(f"http://127.0.0.1:{port}", process)
            yield process
        finally:
            process.terminate()
            process.wait(TIMEOUT_S)


class Running(Protocol):
    """A program that was started."""

    def poll(self) -> int | None:
        """Return its exit code once it has ended."""
        ...

    def communicate(self) -> object:
        """Return its output once it has ended."""
        ...


def until_ready(url: str, process: Running) -> None:
    """Wait until a server that was started answers."""
    asyncio.run(_ready(url, process))


async def _ready(url: str, process: Running) -> None:
    transport = httpx2.AsyncHTTPTransport(retries=0)
    async with asyncio.timeout(TIMEOUT_S), httpx2.AsyncClient(transport=transport) as http:
        while process.poll() is None:
            try:
                if (await http.get(f"{url}/readyz", timeout=TIMEOUT_S)).is_success:
                    return
            except httpx2.TransportError:
                # It does not listen yet; nothing tells when it does.
                await asyncio.to_thread(_pause)
    raise AssertionError(process.communicate())


def _pause() -> None:
    """Wait a moment for something that cannot be waited for."""
    with socket.create_server(("127.0.0.1", 0)) as idle:
        idle.settimeout(0.05)
        try:
            idle.accept()
        except TimeoutError:
            return
