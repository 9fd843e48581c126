"""What REST has beside an operation at its own path: ids in paths, files, the mirror.

Every path that the server describes is tried, so that a new one is covered by being there.
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from urllib.parse import quote, urlencode

import pytest
from starlette.testclient import TestClient

from commonbrain.administration.tenants import KeyRequest
from commonbrain.api.operations import load_operations
from commonbrain.client import Brain
from commonbrain.model.scope import Role
from tests.flows.working import a_worker
from tests.security.attempts import INJECTIONS, drawn
from tests.security.doors import serving
from tests.security.world import ID, NOBODY, OURS, THEIRS, World, neighbours, rows_of

_TRICKS = (*INJECTIONS, f"..%2f..%2f{THEIRS}", "%00", "a" * 5000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One request, and the same for what is nobody's where it names an id."""

    method: str
    path: str
    at: str
    """The path as it is described."""
    body: str = ""
    nobodys: tuple[str, str] | None = None
    """Its path and its body."""


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
    ids = (*world.of("mem"), *world.of("job"), *world.of("thr"), *world.private[1:])
    for shown in (*ids, *neighbours(world.of("job")[0]), *_TRICKS, own[at]):
        prefix, _, digits = shown.partition("_")
        is_id = len(digits) == len(NOBODY) and shown != own[at]
        nobody = at.format(id=f"{prefix}_{NOBODY}") if is_id else None
        yield Sent(
            method=method,
            path=at.format(id=quote(shown, safe="")),
            at=at,
            nobodys=(nobody, "") if nobody else None,
        )


def _files(method: str, at: str, world: World) -> Iterator[Sent]:
    """Send what was exported, with ids of theirs in the place of one's own, under odd names."""
    file = world.path.with_name("own.jsonl")
    world.attacker.export(file)
    text = file.read_text("utf-8")
    bodies = [text, *(text.replace(world.own, shown) for shown in world.of("mem")[:3])]
    for number, body in enumerate(bodies):
        for name in ("own.jsonl", f"../../{THEIRS}/{number}"):
            asked = urlencode({"format": "commonbrain", "name": name})
            yield Sent(method=method, path=f"{at}?{asked}", at=at, body=body)
    for trick in INJECTIONS:
        asked = urlencode({"format": "conversations", "name": trick, "project": trick})
        yield Sent(method=method, path=f"{at}?{asked}", at=at, body=trick)


def _given(method: str, at: str, world: World) -> Iterator[Sent]:
    """Ask what is asked of the operation that the path is named after."""
    name = at.rpartition("/")[2]
    yield Sent(method=method, path=at, at=at, body="{}")
    for one in drawn(world):
        if one.operation.name == name:
            control = None if one.control is None else (at, json.dumps(one.control))
            yield Sent(method=method, path=at, at=at, body=json.dumps(one.given), nobodys=control)


@pytest.mark.requirement("ST-07")
@pytest.mark.parametrize(
    ("owner", "role"),
    [
        ("sqlite", Role.ADMIN),
        ("postgres", Role.ADMIN),
        # What these two are refused is refused before a store is asked.
        ("sqlite", Role.READER),
        ("sqlite", None),
    ],
    indirect=["owner"],
)
def test_no_path_shows_or_changes_what_is_anothers(world: World, role: Role | None) -> None:
    a_worker(world.owner).sweep()
    export = _exported(world)
    own = {"/v1/exports/{id}": export, "/v1/memories/{id}": world.own, "/v0/memory/{id}": world.own}
    before = rows_of(world.owner.services.store, THEIRS)
    answered, tried = Counter[str](), 0
    leaks: list[tuple[str, set[str]]] = []
    unlike: list[tuple[str, str, str]] = []

    with serving(world) as client:
        _know_as(client, world, role)
        for one in sent(client, world, own=own):
            reply = _asked(client, one.method, one.path, one.body)
            tried += 1
            answered[one.at] += reply.startswith("2")
            # An admin's own export holds what agents of the tenant keep private.
            is_own = one.path.endswith(export) and role is Role.ADMIN
            leaked = _theirs(world, reply) if is_own else world.leaked(reply)
            if leaked:
                leaks.append((one.path, leaked))
            if one.nobodys is not None:
                nobodys = _asked(client, one.method, *one.nobodys)
                told = ID.sub("ID", reply), ID.sub("ID", nobodys)
                if not nobodys.startswith("2") and told[0] != told[1]:
                    unlike.append((one.path, *told))
    a_worker(world.owner).sweep()

    assert leaks == []
    assert unlike == []
    assert tried > 100
    assert not world.leaked(str(world.attacker.jobs(limit=100)))
    assert rows_of(world.owner.services.store, THEIRS) == before
    refused = {at for at in own if not answered[at]}
    assert refused == (
        {*own} if role is None else {"/v1/exports/{id}"} if role is Role.READER else set()
    )


def _theirs(world: World, reply: str) -> set[str]:
    """Find what is of the other tenant."""
    return {one.lower() for one in ID.findall(reply)} & {one.lower() for one in world.theirs}


def _exported(world: World) -> str:
    """Have the attacker's own tenant exported; give the job's id."""
    id_ = world.attacker.jobs.run("export").id
    a_worker(world.attacker).sweep()
    return id_


def _know_as(client: TestClient, world: World, role: Role | None) -> None:
    """Call with the attacker's key, with that of a mere reader, or with none."""
    if role is None:
        del client.headers["Authorization"]
    elif role is not Role.ADMIN:
        governing = Brain(world.owner.services, replace(world.owner.caller, tenant=OURS)).govern
        key = governing.create_key(KeyRequest(agent="eve", role=role, label="a reader's"))
        client.headers["Authorization"] = f"Bearer {key.text}"


def _asked(client: TestClient, method: str, path: str, body: str) -> str:
    """Give all that comes back but the name of the request."""
    reply = client.request(method, path, content=body.encode("utf-8", "replace"))
    # A test before this one may have let this process trace.
    own = {"x-request-id", "traceparent"}
    headers = {name: told for name, told in reply.headers.items() if name not in own}
    return f"{reply.status_code} {reply.text} {headers}"
