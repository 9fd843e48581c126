"""Keys of a brain, what tells callers by them, and two tenants on each engine."""

from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path

import pytest

from commonbrain.administration.tenants import KeyRequest, NewKey
from commonbrain.client import Brain
from commonbrain.model.scope import Role
from commonbrain.security.api_keys import ApiKeyAuthenticator
from commonbrain.security.authentication import Authenticator
from commonbrain.security.rate_limits import MovingWindowLimiter
from commonbrain.testing.builders import FakeClock, a_brain, an_access, use_store_opener
from tests.postgres import databases
from tests.security.keys import CountingPasswordHasher
from tests.security.world import World, a_world

ENGINES = ("sqlite", "postgres")


@pytest.fixture
def new(brain: Brain) -> Callable[..., NewKey]:
    def make(agent: str = "bob", role: Role = Role.WRITER, **more: object) -> NewKey:
        return brain.govern.create_key(KeyRequest(agent=agent, role=role, **more))  # type: ignore[arg-type]

    return make


@pytest.fixture
def access(brain: Brain) -> Authenticator:
    return an_access(brain)


@pytest.fixture
def password_hasher(brain: Brain) -> CountingPasswordHasher:
    return CountingPasswordHasher(brain.services.password_hasher())


@pytest.fixture
def counted(brain: Brain, password_hasher: CountingPasswordHasher) -> ApiKeyAuthenticator:
    services = brain.services
    return ApiKeyAuthenticator(
        store=services.store,
        password_hasher=password_hasher,
        clock=services.clock,
        rates=MovingWindowLimiter(),
        refusals=services.refusals,
    )


@pytest.fixture(params=ENGINES)
def owner(request: pytest.FixtureRequest, path: Path) -> Generator[Brain]:
    """The owner's brain on a new store of each engine."""
    with ExitStack() as stack:
        if request.param == "postgres":
            opener = stack.enter_context(databases(request.getfixturevalue("postgres")))
            stack.enter_context(use_store_opener(opener))
        elif request.config.getoption("--engine") != "sqlite":
            pytest.skip("the engine is another one")
        yield stack.enter_context(a_brain(path, clock=FakeClock()))


@pytest.fixture
def world(owner: Brain, path: Path) -> World:
    return a_world(owner, path)
