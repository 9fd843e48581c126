"""Fixtures and options of all tests: of the core, and of every package."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import disk_usage, rmtree
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.optional import Selection, add_options
from tests.parts import PartSelection, add_option

if TYPE_CHECKING:
    from commonbrain.client import Brain
    from commonbrain.testing.builders import FakeClock
    from tests.postgres import Database, Server
    from tests.replicas import Pair

# Laws hold however busy the machine is: no deadline. The examples are few and the same in every
# run, so that a red run is a change's fault; `just explore` looks for new ones, by the thousand.
settings.register_profile("fixed", deadline=None, derandomize=True, max_examples=15)
settings.register_profile("explore", deadline=None, print_blob=True, max_examples=1_000)
settings.load_profile("fixed")

TEST_OPTIONS = ("COMMONBRAIN_TEST_", "COMMONBRAIN_DATA")
"""Variables that configure the tests: servers to use instead of their own, and datasets."""
MEMORY_FOLDER = Path("/dev/shm")  # noqa: S108 pytest makes private folders in it
"""Where Linux keeps files in memory: a durable commit there need not wait for a disk."""
MEMORY_FOLDER_FREE_MIN = 4 * 1024**3
"""In bytes; containers often have 64 MiB there, and a run of all tests uses less than one GiB."""
CITUS_PROGRAMS = "COMMONBRAIN_TEST_CITUS"
"""Names the folder of a Postgres with Citus, as `tests.citus_build` prints it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)
    add_option(parser)
    parser.addoption(
        "--engine",
        choices=["sqlite", "postgres"],
        default="sqlite",
        help="What the brains of tests remember in: files, or databases of a real Postgres.",
    )
    parser.addoption("--explore", type=float, help="Run only laws, and begin none after this time.")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--engine") == "postgres":
        of_files = pytest.mark.skip(reason="it is about the file of a store")
        for item in items:
            if item.get_closest_marker("of_a_file"):
                item.add_marker(of_files)
    if CITUS_PROGRAMS in os.environ:
        of_one_server = pytest.mark.skip(reason="it is about partitions or plans of one server")
        for item in items:
            if item.get_closest_marker("of_one_server"):
                item.add_marker(of_one_server)


def pytest_configure(config: pytest.Config) -> None:
    # Set before the first temporary folder is made; workers get theirs from the controller.
    if MEMORY_FOLDER.is_dir() and disk_usage(MEMORY_FOLDER).free >= MEMORY_FOLDER_FREE_MIN:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY_FOLDER))
    config.pluginmanager.register(Selection(config), "optional-tests")
    if part := config.getoption("--part"):
        config.pluginmanager.register(PartSelection(part), "part-of-the-tests")
    if until := config.getoption("--explore"):
        from tests.explore import Exploration

        seed = config.getoption("--hypothesis-seed")
        config.pluginmanager.register(Exploration(int(seed or 0), until=until), "exploration")


def pytest_collection_finish() -> None:
    # What was collected lives to the end: the garbage collector need not walk it again and again.
    gc.collect()
    gc.freeze()


@pytest.fixture
def clock() -> FakeClock:
    from commonbrain.testing.builders import FakeClock

    return FakeClock()


@pytest.fixture
def tmp_path(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """A new folder whose path is short enough for the sockets of stores in it.

    The socket of a store with a longer path is in a folder that all tests of a user would share.
    """
    failed = request.session.testsfailed
    folder = tmp_path_factory.mktemp("t")
    yield folder
    if request.session.testsfailed == failed:
        rmtree(folder, ignore_errors=True)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "brain.db"


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A real Postgres, or a Citus cluster, started for the first test that asks for it."""
    if CITUS_PROGRAMS in os.environ:
        from tests.citus import running
    else:
        from tests.postgres import running

    with running() as server:
        yield server


@pytest.fixture
def database(postgres: Server) -> Iterator[Database]:
    """A database of its own, as an upgrade leaves it."""
    with postgres.database() as made:
        yield made


@pytest.fixture(scope="session")
def primary() -> Iterator[Server]:
    """A real Postgres of its own, for a replica to follow."""
    from tests.replicas import run_primary

    with run_primary() as server:
        yield server


@pytest.fixture(scope="session")
def standby(primary: Server) -> Iterator[str]:
    """A replica of it; the URL of its superuser."""
    from tests.replicas import run_replica

    with run_replica(primary.url) as url:
        yield url


@pytest.fixture
def pair(primary: Server, standby: str) -> Iterator[Pair]:
    """A database of its own, there and on the replica."""
    from tests.replicas import Pair

    with primary.database() as database:
        made = Pair(server=primary, database=database, standby=standby)
        made.catch_up()
        yield made


@pytest.fixture
def lays_out_stores() -> bool:
    """Whether brains of this process on new files get a copy of an empty store."""
    return True


@pytest.fixture(autouse=True)
def engine(request: pytest.FixtureRequest, *, lays_out_stores: bool) -> Iterator[None]:
    """Let brains remember in Postgres when that is asked for, a database for every path."""
    if request.config.getoption("--engine") == "sqlite":
        # Tests that open brains have imported it; for the others it takes a second.
        if not lays_out_stores or "commonbrain.testing.builders" not in sys.modules:
            yield
            return
        from commonbrain.testing.builders import use_store_opener
        from tests.laid_out_stores import open_laid_out

        with use_store_opener(open_laid_out):
            yield
        return
    from commonbrain.testing.builders import use_store_opener
    from tests.postgres import tenants_by_path

    with tenants_by_path(request.getfixturevalue("postgres")) as opener, use_store_opener(opener):
        yield


@pytest.fixture
def brain(path: Path, clock: FakeClock) -> Iterator[Brain]:
    """A brain on a new file, whose embedder compares words and whose clock stands still."""
    from commonbrain.testing.builders import a_brain

    with a_brain(path, clock=clock) as brain:
        yield brain


@pytest.fixture(scope="session", autouse=True)
def no_settings_from_outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the settings of whoever runs the tests out of them, and the tests out of their store.

    Without a setting, this process and those that it starts open a store and keep a state in
    temporary folders.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith("COMMONBRAIN_") and not name.startswith(TEST_OPTIONS):
                patch.delenv(name)
        patch.setenv("COMMONBRAIN_STATE", str(tmp_path_factory.mktemp("state")))
        for name in ("XDG_DATA_HOME", "XDG_STATE_HOME"):
            patch.setenv(name, str(tmp_path_factory.mktemp(name.lower())))
        if sys.platform == "darwin":
            # There, the folders of a user's data are not set by variables of their own.
            patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        yield
