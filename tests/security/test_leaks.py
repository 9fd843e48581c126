"""No reply shows content of another tenant, by any operation and any transport.

A transport is a function that takes an operation and arguments and returns the whole reply. The
engine is that of the fixture `world`. Every attempt is drawn from the table of operations.
"""

import json
import re
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import unified_diff
from pathlib import Path
from typing import Any, cast

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from sqlalchemy.exc import NoResultFound

from commonbrain.api.operations import load_operations
from commonbrain.client import Brain
from commonbrain.mcp.server import build_server
from commonbrain.model.memory import Memory, State
from commonbrain.model.scope import Role, Scope
from commonbrain.storage.repositories.memories import MemoryRepository
from commonbrain.storage.store import Store, Transaction
from tests.security.attempts import AnyOperation, Ask, drawn, mixed, spread
from tests.security.transports import TRANSPORTS, Tried, Way, asking, tried
from tests.security.watching import ROWS, statements
from tests.security.world import DEEP, ID, THEIRS, UNASSIGNED, World, rows_of

pytestmark = pytest.mark.part("server")
_OF_KIND = re.compile(r"SELECT (\w+)\.memory_id, \S+ AS \w+, \1\.body\b.*?UNION ALL ", re.DOTALL)
_NUMBER = re.compile(r"_\d+")


def _refused(results: Tried, *, transport: Way) -> set[str]:
    """Name the operations that a transport with all attempts refused every time."""
    here = {
        one.name
        for one in load_operations()
        if transport.of is None or transport.of in one.transports
    }
    return {one for one in here if not results.answered[one]} if transport.each is None else set()


@pytest.mark.requirement("ST-07", "ST-04")
def test_no_transport_shows_content_of_another_tenant_or_agent(
    world: World, record_property: Callable[[str, object], None], capsys: pytest.CaptureFixture[str]
) -> None:
    before = rows_of(world.owner.services.store, THEIRS)
    engine = world.owner.services.store.dialect.engine.name
    results: dict[str, Tried] = {}
    for name, transport in TRANSPORTS.items():
        among = list(drawn(world))
        if transport.each is not None:
            # Postgres differs from SQLite below the library, which is tried whole.
            among = spread(among, each=1 if engine == "postgresql" else transport.each)
        with transport.opened(world) as ask:
            results[name] = tried(world, ask, among=among, transport=transport.of)

    count = sum(one.count for one in results.values())
    leaks = [leak for one in results.values() for leak in one.leaks]
    record_property("attempts and leaks", f"{count} / {len(leaks)}")
    with capsys.disabled():
        transports = ", ".join(f"{name} {one.count}" for name, one in results.items())
        print(f"\n{engine}: {count} attempts, {len(leaks)} leaks ({transports})")  # noqa: T201
    assert leaks == []
    assert [one for transport in results.values() for one in transport.unlike] == []
    assert count >= 2000
    # A transport that refuses nearly everything would prove nothing, nor would an operation.
    assert min(one.answered.total() / one.count for one in results.values()) > 0.07
    refused = {name: _refused(one, transport=TRANSPORTS[name]) for name, one in results.items()}
    # Operations across tenants are for callers on the machine, over no other transport.
    assert {name: which for name, which in refused.items() if which} == {"library": {"tenant"}}
    assert rows_of(world.owner.services.store, THEIRS) == before


def test_id_of_another_tenant_takes_the_statements_of_an_unassigned_id(world: World) -> None:
    ask = asking(world.attacker)
    differ: list[str] = []
    compared = 0
    answered: dict[tuple[str, str], bool] = {}
    for one in drawn(world, seed=1):
        if one.control is None:
            continue
        key = (one.operation.name, json.dumps(one.control))
        if answered.get(key):
            continue
        # This also writes the events of earlier calls, which the compared calls would write.
        answered[key] = ask(one.operation, one.control).startswith("[")
        if answered[key]:
            continue
        with statements() as nobodys:
            ask(one.operation, one.control)
        with statements() as theirs:
            ask(one.operation, one.given)
        compared += bool(nobodys)
        if one.way == "private":
            # A private memory of the same tenant is read, and then not shown.
            theirs, nobodys = (
                [_NUMBER.sub("", _OF_KIND.sub("", line.partition(ROWS)[0])) for line in both]
                for both in (theirs, nobodys)
            )
        if nobodys != theirs:
            apart = "\n".join(unified_diff(nobodys, theirs, n=0, lineterm=""))
            differ.append(f"{one.operation.name} {one.way} {one.text}:\n{apart}")

    assert not differ, "\n".join(differ)
    assert compared > 100


@pytest.mark.requirement("OB-20")
def test_lists_neither_show_nor_count_memories_of_others(world: World) -> None:
    seen = world.seen_as(Role.READER).list(states=list(State), facets=True, limit=200)
    assert seen.facets is not None
    rita = world.owner.acting_as(agent="rita")
    theirs = Brain(rita.services, replace(rita.caller, tenant=THEIRS))
    cara = world.attacker.acting_as(agent="cara")

    assert not world.leaked(str(seen))
    assert world.own in {one.id for one in seen.memories}
    for facet in ("kind", "agent", "state", "month"):
        assert sum(one.count for one in getattr(seen.facets, facet)) == len(seen.memories)
    # Those who may see it are shown it, and it is counted for them.
    for brain in (theirs, cara):
        page = brain.list(states=list(State), facets=True, limit=200)
        assert DEEP.findall(str(page.memories))
        assert DEEP.findall(str(page.facets))


async def test_resources_of_another_tenant_are_reported_as_missing(world: World) -> None:
    server = build_server(lambda: world.attacker, agent="mallory", is_owner=True)
    errors: set[str] = set()
    async with Client(server) as client:
        for shown in (*world.theirs, *world.private, f"mem_{UNASSIGNED}", f"thr_{UNASSIGNED}"):
            scheme = "thread" if shown.startswith("thr") else "memory"
            with pytest.raises(MCPError) as error:
                await client.read_resource(f"{scheme}://{shown}")
            errors.add(ID.sub("ID", str(error.value)))
        boot = await client.read_resource("boot://projectz")
    assert len(errors) <= 3, errors
    assert not world.leaked(str(boot))


def test_export_contains_one_tenant(world: World, tmp_path: Path) -> None:
    file = tmp_path / "all.jsonl"
    world.attacker.export(file)
    text = file.read_text("utf-8")

    # An export is for admins and holds what agents of the tenant keep private.
    theirs = {one.lower() for one in world.theirs}
    assert not {one.lower() for one in ID.findall(text)} & theirs
    assert "kettle" in text


class EveryTenants(MemoryRepository):
    """A repository without its filter by tenant."""

    def get(self, ids: Sequence[int]) -> dict[int, Memory]:
        """Fetch memories of this tenant and of theirs."""
        return MemoryRepository(replace(self.work, tenant=THEIRS)).get(ids) | super().get(ids)


class Unveiled(MemoryRepository):
    """A repository that shows private memories as the team's."""

    def get(self, ids: Sequence[int]) -> dict[int, Memory]:
        """Fetch memories as if all could see them."""
        known = super().get(ids)
        return {id_: replace(memory, scope=Scope.TEAM) for id_, memory in known.items()}


def _planted(tx: Transaction, **repositories: object) -> Transaction:
    """Return a transaction with other repositories, as if they were made already."""
    planted = Transaction(tx.work)
    vars(planted).update(repositories)
    return planted


def _theirs(tx: Transaction) -> Transaction:
    return Transaction(replace(tx.work, tenant=THEIRS))


def _of_packages(tx: Transaction) -> Transaction:
    """Return a transaction whose hole is in what packages store, such as keys."""
    planted = _theirs(tx)
    names = (name for name in vars(Transaction) if not name.startswith("_"))
    vars(planted).update({name: getattr(tx, name) for name in names})
    return planted


HOLES: dict[str, Callable[[Transaction], Transaction]] = {
    "memories": lambda tx: _planted(tx, memories=EveryTenants(tx.work)),
    "private": lambda tx: _planted(tx, memories=Unveiled(tx.work)),
    "lists": lambda tx: _planted(tx, listing=_theirs(tx).listing),
    "sessions": lambda tx: _planted(tx, sessions=_theirs(tx).sessions),
    "notes": lambda tx: _planted(tx, scratchpad=_theirs(tx).scratchpad),
    "jobs": lambda tx: _planted(tx, jobs=_theirs(tx).jobs),
    "ledger": lambda tx: _planted(tx, recall_log=_theirs(tx).recall_log),
    "registry": lambda tx: _planted(tx, models=_theirs(tx).models),
    "keys": _of_packages,
    "everything": _theirs,
}
"""Each leaves out one filter of one repository.

Holes in the repositories of threads and messages are not among them: the keys, which begin with
the tenant, stop what would be written through them before anything is answered. Evaluations are
shown by the command alone, which no transport has.
"""


THROUGH: dict[str, str] = {
    "lists": "list",
    "sessions": "session",
    "notes": "session",
    "jobs": "job",
    "ledger": "recalls",
    "registry": "model",
    "keys": "admin",
}
"""The operation whose attempts are made first, as they use the repository with the hole."""


@dataclass(frozen=True, slots=True)
class Holed:
    """A store with one hole."""

    real: Store
    hole: str

    @contextmanager
    def begin(self, tenant: str) -> Generator[Transaction]:
        """Open a transaction through the hole."""
        with self.real.begin(tenant) as tx:
            yield HOLES[self.hole](tx)

    @contextmanager
    def snapshot(self, tenant: str) -> Generator[Transaction]:
        """Read through the hole."""
        with self.real.snapshot(tenant) as tx:
            yield HOLES[self.hole](tx)

    def read(self, tenant: str, ask: Callable[[Transaction], object]) -> object:
        """Ask through the hole."""
        with self.snapshot(tenant) as tx:
            return ask(tx)

    def __getattr__(self, name: str) -> object:
        """Do all else as the real one does."""
        return getattr(self.real, name)


def _asking_on(ask: Ask) -> Ask:
    """Return what goes on where a hole leads to a row that its keys stop: that is no leak."""

    def ask_on(operation: AnyOperation, given: dict[str, Any]) -> str:
        try:
            return ask(operation, given)
        except NoResultFound:
            return "[internal]"

    return ask_on


def with_hole(world: World, hole: str) -> World:
    """Let the attacker's store have a hole."""
    attacker = world.attacker
    store = cast("Store", Holed(attacker.services.store, hole))
    brain = Brain(replace(attacker.services, store=store), attacker.caller)
    return replace(world, attacker=brain)


# In Postgres row-level security stops most of them: see `test_leaks_postgres`.
@pytest.mark.parametrize("world", ["sqlite"], indirect=True)
@pytest.mark.parametrize("hole", HOLES)
def test_attempts_find_a_planted_hole(world: World, hole: str) -> None:
    world = with_hole(world, hole)
    among = sorted(mixed(world), key=lambda one: one.operation.name != THROUGH.get(hole))
    ask = _asking_on(asking(world.attacker))
    results = tried(world, ask, among=among, is_first_enough=True)

    assert results.leaks, f"{results.count} attempts found nothing"
