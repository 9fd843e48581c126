"""Two tenants on each engine."""

import shutil
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from commonbrain.client import Brain
from commonbrain.clock import Clock
from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.storage.store import Store
from commonbrain.testing.builders import (
    FakeClock,
    Opener,
    SeededRandom,
    use_store_opener,
)
from tests.guarded import a_guarded_brain
from tests.postgres import Database, Server
from tests.security.engines import ENGINES
from tests.security.world import Contents, World, fill


@pytest.fixture
def brain(path: Path, clock: FakeClock) -> Iterator[Brain]:
    """A brain on a new file, guarded as on a server."""
    with a_guarded_brain(path, clock=clock) as brain:
        yield brain


@pytest.fixture
def owner(request: pytest.FixtureRequest, path: Path) -> Generator[Brain]:
    """The owner's brain on a new store, of each engine in a test for `both_engines`."""
    engine = getattr(request, "param", None)
    with ExitStack() as stack:
        if engine == "postgres":
            # Of its own: credentials name their tenant, and must find it under that name.
            database = stack.enter_context(request.getfixturevalue("postgres").database())
            stack.enter_context(use_store_opener(opener_of(database)))
        elif engine and request.config.getoption("--engine") != engine:
            pytest.skip("the engine is another one")
        yield stack.enter_context(a_guarded_brain(path, clock=FakeClock()))


@pytest.fixture(scope="session")
def filled_file(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Contents]:
    """A folder with a file of both tenants, which tests copy, and what is in it."""
    folder = tmp_path_factory.mktemp("filled")
    with a_guarded_brain(folder / "brain.db", clock=FakeClock()) as owner:
        return folder, fill(owner)


@pytest.fixture(scope="session")
def filled_database(
    postgres: Server, tmp_path_factory: pytest.TempPathFactory
) -> Generator[tuple[Path, Contents, str]]:
    """The same in a database, which tests copy; its artifacts are in the folder."""
    folder = tmp_path_factory.mktemp("filled")
    with postgres.database() as database:
        with (
            use_store_opener(opener_of(database)),
            a_guarded_brain(folder / "brain.db", clock=FakeClock()) as owner,
        ):
            contents = fill(owner)
        postgres.seal(database.name)
        yield folder, contents, database.name


@pytest.fixture
def world_file(filled_file: tuple[Path, Contents], path: Path) -> Generator[World]:
    """Both tenants in a file of this test."""
    folder, contents = filled_file
    shutil.copytree(folder, path.parent, dirs_exist_ok=True)
    with a_guarded_brain(path, clock=FakeClock(), random_source=SeededRandom(1)) as owner:
        yield contents.world(owner, path)


@pytest.fixture
def world_database(
    postgres: Server, filled_database: tuple[Path, Contents, str], path: Path
) -> Generator[tuple[World, Database]]:
    """Both tenants in a database of this test, which is a copy of the filled one."""
    folder, contents, template = filled_database
    shutil.copytree(folder, path.parent, dirs_exist_ok=True)
    with (
        copied(postgres, template) as database,
        use_store_opener(opener_of(database)),
        a_guarded_brain(path, clock=FakeClock(), random_source=SeededRandom(1)) as owner,
    ):
        yield contents.world(owner, path), database


@pytest.fixture(params=ENGINES)
def world(request: pytest.FixtureRequest) -> World:
    """Both tenants on each engine."""
    if request.param == "postgres":
        world, _ = request.getfixturevalue("world_database")
        return world
    if request.config.getoption("--engine") != "sqlite":
        pytest.skip("the engine is another one")
    return request.getfixturevalue("world_file")


@contextmanager
def copied(server: Server, template: str) -> Generator[Database]:
    """Give a copy of a database."""
    name = f"copy_{server.mark}_{next(server.numbers)}"
    server.create(name, template=template)
    try:
        yield server.roles_of(name)
    finally:
        server.drop(name)


def opener_of(database: Database) -> Opener:
    """Return what opens one database in place of every file."""

    def opened(path: Path, *, space: EmbeddingSpace, clock: Clock) -> Store:  # noqa: ARG001 one database
        return database.opened(space=space, clock=clock)

    return opened
