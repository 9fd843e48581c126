"""Transports that an attacker uses: each takes an operation and arguments, and returns a text.

What is answered begins with a bracket; what is refused does not, errors and all.
"""

import json
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from commonbrain_server.http.app import make_app
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.types import TextContent
from pydantic import ValidationError
from sqlalchemy.exc import DBAPIError
from starlette.testclient import TestClient

from commonbrain.api.dispatch import dispatch
from commonbrain.api.operations import Profile, Transport
from commonbrain.client import Brain
from commonbrain.mcp.server import build_server
from commonbrain.model.errors import CommonbrainError
from commonbrain.model.scope import Role
from commonbrain.testing.builders import FakeClock, SeededRandom
from tests.guarded import a_guarded_brain, an_access
from tests.security.attempts import AnyOperation, Ask, Attempt
from tests.security.world import ID, World


def asking(brain: Brain) -> Ask:
    """Return what calls operations as every transport does."""

    def ask(operation: AnyOperation, given: dict[str, Any]) -> str:
        try:
            reply = dispatch(operation, brain, request=operation.request.model_validate(given))
        except ValidationError as error:
            return f"invalid: {[one['msg'] for one in error.errors(include_input=False)]}"
        except CommonbrainError as error:
            return f"{error.code}: {error}"
        except DBAPIError as error:
            # A transport shows less of such an error.
            return f"fault: {error}"
        renderings = [
            operation.to_json(reply),
            operation.to_agent_json(reply),
            operation.render_text(reply),
        ]
        return json.dumps(renderings, ensure_ascii=False, default=str)

    return ask


@contextmanager
def library(world: World) -> Generator[Ask]:
    """Call as an admin, as every transport does."""
    yield asking(world.attacker)


@contextmanager
def reading(world: World) -> Generator[Ask]:
    """Call as a reader, as every transport does."""
    yield asking(world.seen_as(Role.READER))


@contextmanager
def mcp(world: World) -> Generator[Ask]:
    """Call by MCP, with the profile that shows most."""
    with anyio.from_thread.start_blocking_portal() as portal:
        server = build_server(
            lambda: world.attacker, agent="mallory", is_owner=True, profile=Profile.OPERATOR
        )
        with portal.wrap_async_context_manager(Client(server)) as client:

            def ask(operation: AnyOperation, given: dict[str, Any]) -> str:
                return portal.call(_called, client, operation.name, given)

            yield ask


async def _called(client: Client, name: str, given: dict[str, Any]) -> str:
    try:
        result = await client.call_tool(name, given)
    except MCPError as error:
        return f"error: {error}"
    texts = [part.text for part in result.content if isinstance(part, TextContent)]
    if result.is_error:
        return f"error: {texts}"
    return json.dumps([texts, result.structured_content], ensure_ascii=False)


@contextmanager
def rest(world: World) -> Generator[Ask]:
    """Call by REST with an API key."""
    with serving(world) as client:

        def ask(operation: AnyOperation, given: dict[str, Any]) -> str:
            reply = client.post(f"/v1/{operation.name}", content=json.dumps(given))
            text = f"{reply.text} {[*reply.headers.items()]}"
            return f"[{text}" if reply.is_success else f"{reply.status_code} {reply.text}"

        yield ask


@contextmanager
def mcp_http(world: World) -> Generator[Ask]:
    """Call by MCP over HTTP with an API key, message by message."""
    with serving(world) as client:

        def ask(operation: AnyOperation, given: dict[str, Any]) -> str:
            call = {"name": operation.name, "arguments": given}
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
            reply = client.post("/mcp", content=json.dumps(message))
            is_answer = '"isError":false' in reply.text.replace(" ", "")
            return f"[{reply.text}" if is_answer else f"{reply.status_code} {reply.text}"

        yield ask


@contextmanager
def serving(world: World) -> Generator[TestClient]:
    """Serve the store in this process to a client with the attacker's key."""
    # As another process would: an application closes its brain when it ends.
    brain = a_guarded_brain(world.path, clock=FakeClock(), random_source=SeededRandom(8377))
    app = make_app(brain, an_access(brain), hosts=frozenset({"localhost"}))
    headers = {
        "Authorization": f"Bearer {world.key}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "Commonbrain-Session": "mallorys",
    }
    with TestClient(app, "http://localhost", raise_server_exceptions=False) as client:
        client.headers.update(headers)
        yield client


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A way in: how it is opened, and what goes through it."""

    opened: Callable[[World], AbstractContextManager[Ask]]
    of: Transport | None = None
    """The operations that it has; all of the table where it is None."""
    each: int | None = None
    """Attempts of each operation that are made here: another way is over the same code."""


TRANSPORTS: dict[str, Way] = {
    "library": Way(opened=library),
    "library, as a reader": Way(opened=reading, each=4),
    "MCP": Way(opened=mcp, of=Transport.MCP, each=4),
    "MCP over HTTP": Way(opened=mcp_http, of=Transport.MCP, each=4),
    "REST": Way(opened=rest, of=Transport.REST, each=4),
}


@dataclass
class Tried:
    """How many attempts were made, and what leaked."""

    count: int = 0
    answered: Counter[str] = field(default_factory=Counter[str])
    """How many of each operation were answered, and not refused."""
    leaks: list[tuple[str, str, set[str]]] = field(default_factory=list[tuple[str, str, set[str]]])
    unlike: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])

    def note(self, one: Attempt, *, reply: str, nobodys: str, leaked: set[str]) -> None:
        """Record the replies to an attempt and to its control."""
        self.count += 1
        self.answered[one.operation.name] += reply.startswith("[")
        if leaked:
            self.leaks.append((one.operation.name, one.text, leaked))
        if not is_alike(reply, nobodys):
            self.unlike.append((one.text, reply, nobodys))


def is_alike(reply: str, nobodys: str) -> bool:
    """Whether a reply is that for an id that is not assigned, where that is refused.

    What is answered, and not refused, is different for every call.
    """
    return nobodys.startswith("[") or ID.sub("ID", reply) == ID.sub("ID", nobodys)


def tried(
    world: World,
    ask: Ask,
    *,
    among: Iterable[Attempt],
    transport: Transport | None = None,
    is_first_enough: bool = False,
) -> Tried:
    """Make attempts over a transport, all or those up to the first leak."""
    results = Tried()
    # Attempts for several ids have the same control: its reply is asked for once, and again where
    # the replies differ.
    controls: dict[tuple[str, str], str] = {}
    for one in among:
        if is_first_enough and results.leaks:
            break
        if transport and transport not in one.operation.transports:
            continue
        if one.control is None:
            reply, nobodys = ask(one.operation, one.given), "["
        else:
            key = (one.operation.name, json.dumps(one.control))
            if key not in controls:
                controls[key] = ask(one.operation, one.control)
            reply, nobodys = ask(one.operation, one.given), controls[key]
            if not is_alike(reply, nobodys):
                nobodys = controls[key] = ask(one.operation, one.control)
        leaked = world.leaked(reply, is_audit=one.operation.name == "audit")
        results.note(one, reply=reply, nobodys=nobodys, leaked=leaked)
    return results
