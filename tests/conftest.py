from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from commonbrain.brain import Brain
from commonbrain.settings import Settings
from commonbrain.testing.builders import a_brain
from commonbrain.testing.clock import FakeClock
from tests.clients.selection import ClientsSelection, add_option

# A law holds however busy the machine is: no test reads the wall clock.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(ClientsSelection(config), "clients-selection")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "brain.db"


@pytest.fixture
def brain(path: Path, clock: FakeClock) -> Iterator[Brain]:
    """A brain on a new file, whose embedder compares words and whose clock stands still."""
    with a_brain(path, clock=clock) as brain:
        yield brain


@pytest.fixture(scope="session", autouse=True)
def no_settings_from_outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the settings of whoever runs the tests out of them, and the tests out of their state."""
    with pytest.MonkeyPatch.context() as patch:
        for name in Settings.model_fields:
            patch.delenv(f"COMMONBRAIN_{name.upper()}", raising=False)
        patch.setenv("COMMONBRAIN_STATE", str(tmp_path_factory.mktemp("state")))
        yield
