"""One server in this process and one on a port for most tests, each test in tenants of its own."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from commonbrain_server.guard import guard_of
from commonbrain_server.security.api_keys import ApiKeyAuthenticator
from commonbrain_server.security.authentication import Authenticator
from commonbrain_server.security.rate_limits import MovingWindowLimiter
from commonbrain_server.tenants import KeyRequest, NewKey, admin_of
from password_hashers import CountingPasswordHasher
from starlette.testclient import TestClient

from commonbrain.client import Brain
from commonbrain.model.scope import LOCAL_TENANT, NO_POLICY, Admission, Policy, Role
from commonbrain.testing.builders import (
    FakeClock,
)
from tests.conftest import command, embedder
from tests.guarded import a_guarded_brain, an_access
from tests.laid_out_stores import lay_out_store
from tests.security.conftest import owner
from tests.serving import Era, Hosted, Listening, MovingKeyRing, an_app, calling, listening

__all__ = ["command", "embedder", "owner"]

_NUMBERS = count(1)


@pytest.fixture
def brain(path: Path, clock: FakeClock) -> Iterator[Brain]:
    """A brain on a new file, guarded as on a server."""
    with a_guarded_brain(path, clock=clock) as brain:
        yield brain


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["auto", "legacy"])
def era(request: pytest.FixtureRequest) -> Era:
    return request.param


@pytest.fixture(scope="session")
def hosted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    path = tmp_path_factory.mktemp("hosted") / "brain.db"
    lay_out_store(path)
    brain, keys = a_guarded_brain(path), MovingKeyRing()
    with calling(an_app(brain, keys=keys)) as client:
        yield Hosted(brain=brain, keys=keys, client=client)


@pytest.fixture(scope="session")
def listening_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listening]:
    path = tmp_path_factory.mktemp("listening") / "brain.db"
    lay_out_store(path)
    brain, keys = a_guarded_brain(path), MovingKeyRing()
    with listening(an_app(brain, keys=keys)) as url:
        yield Listening(brain=brain, keys=keys, url=url)


@pytest.fixture
def ann(hosted: Hosted) -> Iterator[TestClient]:
    """A client of the server that bears the key of ann, a writer, in a new tenant."""
    hosted.keys.move(hosted.brain, next(_NUMBERS))
    headers = hosted.client.headers.copy()
    yield hosted.client
    hosted.client.headers = headers
    hosted.client.cookies.clear()


@pytest.fixture
def tenant(ann: TestClient, hosted: Hosted) -> str:  # noqa: ARG001 the client's tenants are new
    """The tenant of `ann`."""
    return hosted.keys.tenants[LOCAL_TENANT]


@pytest.fixture
def shared(listening_server: Listening) -> tuple[Brain, str]:
    """A brain of a new tenant, and where its server listens, which knows `CALLERS`."""
    brain = listening_server.brain
    tenant = listening_server.keys.move(brain, next(_NUMBERS))
    return Brain(brain.services, replace(brain.caller, tenant=tenant)), listening_server.url


@pytest.fixture
def url(shared: tuple[Brain, str]) -> str:
    """Where a server listens that knows the callers of `CALLERS`."""
    return shared[1]


@pytest.fixture
def new(brain: Brain) -> Callable[..., NewKey]:
    def make(agent: str = "bob", role: Role = Role.WRITER, **more: object) -> NewKey:
        return admin_of(brain).create_key(KeyRequest(agent=agent, role=role, **more))  # type: ignore[arg-type]

    return make


@pytest.fixture
def access(brain: Brain) -> Authenticator:
    return an_access(brain)


@pytest.fixture
def password_hasher() -> CountingPasswordHasher:
    return CountingPasswordHasher()


@pytest.fixture
def counted(brain: Brain, password_hasher: CountingPasswordHasher) -> ApiKeyAuthenticator:
    services = brain.services
    return ApiKeyAuthenticator(
        store=services.store,
        password_hasher=password_hasher,
        clock=services.clock,
        rates=MovingWindowLimiter(),
        refusals=guard_of(services).refusals,
    )


@pytest.fixture
def networked(brain: Brain) -> Callable[..., Brain]:
    """Return the brain as a caller with a credential sees it."""

    def see(
        policy: Policy = NO_POLICY,
        *,
        credential: str = "00000001",
        role: Role = Role.WRITER,
        own: Role | None = None,
        **more: Any,  # noqa: ANN401 a caller's fields are of any sort
    ) -> Brain:
        admission = Admission(credential=credential, role=own or role, policy=policy)
        caller = replace(brain.caller, agent="bob", role=role, admission=admission, **more)
        return Brain(brain.services, caller)

    return see
