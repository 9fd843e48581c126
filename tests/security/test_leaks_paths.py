"""Paths of REST that are not those of operations: ids in paths, files, the mirror.

Every path that the server describes is tried, so that a new one is covered by being there.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from urllib.parse import quote, urlencode

import pytest
from commonbrain_server.tenants import KeyRequest, admin_of
from starlette.testclient import TestClient

from commonbrain.api.operations import load_operations
from commonbrain.client import Brain
from commonbrain.model.scope import Role
from tests.security.attempts import INJECTIONS, drawn
from tests.security.transports import serving
from tests.security.world import ID, OURS, THEIRS, UNASSIGNED, World, neighbours, rows_of
from tests.serving import AS_FILE
from tests.working import a_worker

pytestmark = pytest.mark.part("server")

_EACH = 8
"""Requests of each path by those who are refused before a store is asked."""
_TRICKS = (*INJECTIONS, f"..%2f..%2f{THEIRS}", "%00", "a" * 5000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One request, and the same for an id that is not assigned where it names one."""

    method: str
    path: str
    at: str
    """The path as it is described."""
    body: str = ""
    nobodys: tuple[str, str] | None = None
    """The path and the body of the same for an id that is not assigned."""
    is_own: bool = False
    """Whether the id is the attacker's own."""


def sent(client: TestClient, world: World, *, own: dict[str, str]) -> Iterator[Sent]:
    """Draw what is tried at every path that is none of an operation."""
    described = client.get("/openapi.json").json()["paths"]
    operations = {f"/v1/{one.name}" for one in load_operations()}
    for at, methods in described.items():
        for method in methods if at not in operations else ():
            if "{id}" in at:
                yield from _by_id(method, at, world, own=own)
            elif at == "/v1/import":
                yield from _files(method, at, world)
            else:
                yield from _given(method, at, world)


def _by_id(method: str, at: str, world: World, *, own: dict[str, str]) -> Iterator[Sent]:
    # Some of the memories, of the team and private ones in turn.
    ids = (*world.of("mem")[::3], *world.of("job")[:3], *world.of("thr"), *world.private[1:])
    for shown in (*ids, *neighbours(world.of("job")[0]), *_TRICKS, own[at]):
        prefix, _, digits = shown.partition("_")
        is_id = len(digits) == len(UNASSIGNED) and shown != own[at]
        control = at.format(id=f"{prefix}_{UNASSIGNED}") if is_id else None
        yield Sent(
            method=method,
            path=at.format(id=quote(shown, safe="")),
            at=at,
            nobodys=(control, "") if control else None,
            is_own=shown == own[at],
        )


def _files(method: str, at: str, world: World) -> Iterator[Sent]:
    """Send what was exported, with ids of theirs in the place of one's own, under odd names."""
    file = world.path.with_name("own.jsonl")
    world.attacker.export(file)
    text = file.read_text("utf-8")
    bodies = [text, *(text.replace(world.own, shown) for shown in world.of("mem")[:3])]
    for number, body in enumerate(bodies):
        for name in ("own.jsonl", f"../../{THEIRS}/{number}")[number % 2 :]:
            query = urlencode({"format": "commonbrain", "name": name})
            yield Sent(method=method, path=f"{at}?{query}", at=at, body=body)
    for trick in INJECTIONS:
        query = urlencode({"format": "conversations", "name": trick, "project": trick})
        yield Sent(method=method, path=f"{at}?{query}", at=at, body=trick)


def _given(method: str, at: str, world: World) -> Iterator[Sent]:
    """Ask what is asked of the operation that the path is named after."""
    name = at.rpartition("/")[2]
    yield Sent(method=method, path=at, at=at, body="{}")
    for one in drawn(world):
        if one.operation.name == name:
            control = None if one.control is None else (at, json.dumps(one.control))
            yield Sent(method=method, path=at, at=at, body=json.dumps(one.given), nobodys=control)


@pytest.mark.requirement("ST-07")
def test_no_path_shows_or_changes_content_of_another_tenant(
    world: World, subtests: pytest.Subtests
) -> None:
    a_worker(world.owner).sweep()
    export = _exported(world)
    own = {"/v1/exports/{id}": export, "/v1/memories/{id}": world.own, "/v0/memory/{id}": world.own}
    before = rows_of(world.owner.services.store, THEIRS)
    # What the first two are refused is refused before a store is asked.
    is_sqlite = world.owner.services.store.dialect.engine.name == "sqlite"
    roles = (None, Role.READER, Role.ADMIN) if is_sqlite else (Role.ADMIN,)
    with serving(world) as client:
        every = list(sent(client, world, own=own))
        for role in roles:
            with subtests.test(role=role):
                _authenticate(client, world, role)
                among = every if role is Role.ADMIN else _spread(every)

                results = _try(client, world, among, role=role)

                assert results.leaks == []
                assert results.unlike == []
                assert {at for at in own if not results.answered[at]} == _refused(own, role)
                assert results.count > (100 if role is Role.ADMIN else 50)
    a_worker(world.owner).sweep()

    assert not world.leaked(str(world.attacker.jobs(limit=100)))
    assert rows_of(world.owner.services.store, THEIRS) == before


@dataclass
class Results:
    """How many requests were sent, those that were answered by path, and what leaked."""

    count: int = 0
    answered: Counter[str] = field(default_factory=Counter[str])
    leaks: list[tuple[str, set[str]]] = field(default_factory=list[tuple[str, set[str]]])
    unlike: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])


def _try(client: TestClient, world: World, among: Iterable[Sent], *, role: Role | None) -> Results:
    results = Results()
    # Requests for several ids have the same control: it is sent once, and again where the replies
    # differ.
    controls: dict[tuple[str, str, str], str] = {}
    for one in among:
        reply = _reply(client, one.method, one.path, one.body)
        results.count += 1
        results.answered[one.at] += reply.startswith("2")
        # An admin's own export holds what agents of the tenant keep private.
        is_own = one.at == "/v1/exports/{id}" and one.is_own and role is Role.ADMIN
        leaked = _theirs(world, reply) if is_own else world.leaked(reply)
        if leaked:
            results.leaks.append((one.path, leaked))
        if one.nobodys is None:
            continue
        control = (one.method, *one.nobodys)
        if control not in controls:
            controls[control] = _reply(client, *control)
        if not _is_alike(reply, controls[control]):
            controls[control] = _reply(client, *control)
        if not _is_alike(reply, controls[control]):
            results.unlike.append((one.path, reply, controls[control]))
    return results


def _is_alike(reply: str, nobodys: str) -> bool:
    return nobodys.startswith("2") or ID.sub("ID", reply) == ID.sub("ID", nobodys)


def _spread(among: Iterable[Sent]) -> list[Sent]:
    """Select some requests of each method and path, among them those for one's own ids."""
    by_path: dict[tuple[str, str], list[Sent]] = defaultdict(list)
    for one in among:
        by_path[one.method, one.at].append(one)
    step = {path: max(len(alike) // _EACH, 1) for path, alike in by_path.items()}
    return [
        one
        for path, alike in by_path.items()
        for number, one in enumerate(alike)
        if one.is_own or number % step[path] == 0
    ]


def _theirs(world: World, reply: str) -> set[str]:
    """Find what is of the other tenant."""
    return {one.lower() for one in ID.findall(reply)} & {one.lower() for one in world.theirs}


def _exported(world: World) -> str:
    """Have the attacker's own tenant exported; give the job's id."""
    id_ = world.attacker.jobs.run("export").id
    a_worker(world.attacker).sweep()
    return id_


def _refused(own: Iterable[str], role: Role | None) -> set[str]:
    """Return the paths of one's own ids that a role is refused."""
    if role is None:
        return set(own)
    return {"/v1/exports/{id}"} if role is Role.READER else set()


def _authenticate(client: TestClient, world: World, role: Role | None) -> None:
    """Send the attacker's key, that of a mere reader, or none."""
    client.headers.pop("Authorization", None)
    if role is None:
        return
    key = world.key
    if role is not Role.ADMIN:
        governing = admin_of(Brain(world.owner.services, replace(world.owner.caller, tenant=OURS)))
        key = governing.create_key(KeyRequest(agent="eve", role=role, label="a reader's")).text
    client.headers["Authorization"] = f"Bearer {key}"


def _reply(client: TestClient, method: str, path: str, body: str) -> str:
    """Return all that comes back but the name of the request."""
    kind = AS_FILE if path.startswith("/v1/import") else {"Content-Type": "application/json"}
    reply = client.request(method, path, content=body.encode("utf-8", "replace"), headers=kind)
    # A test before this one may have let this process trace.
    own = {"x-request-id", "traceparent"}
    headers = {name: value for name, value in reply.headers.items() if name not in own}
    return f"{reply.status_code} {reply.text} {headers}"
