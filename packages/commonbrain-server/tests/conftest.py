"""One server in this process and one on a port for most tests, each test in tenants of its own."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

import pytest
from starlette.testclient import TestClient

from commonbrain.client import Brain
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.testing.builders import a_brain
from tests.laid_out_stores import lay_out_store
from tests.serving import Era, Hosted, Listening, MovingKeyRing, an_app, calling, listening

_NUMBERS = count(1)


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
    brain, keys = a_brain(path), MovingKeyRing()
    with calling(an_app(brain, keys=keys)) as client:
        yield Hosted(brain=brain, keys=keys, client=client)


@pytest.fixture(scope="session")
def listening_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listening]:
    path = tmp_path_factory.mktemp("listening") / "brain.db"
    lay_out_store(path)
    brain, keys = a_brain(path), MovingKeyRing()
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
