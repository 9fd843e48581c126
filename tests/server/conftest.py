from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from commonbrain.testing.builders import a_brain
from tests.server.serving import Era, an_app, calling, listening


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["auto", "legacy"])
def era(request: pytest.FixtureRequest) -> Era:
    return request.param


@pytest.fixture
def ann(path: Path) -> Iterator[TestClient]:
    """A client of the server that bears the key of ann, a writer."""
    with calling(an_app(a_brain(path))) as client:
        yield client


@pytest.fixture
def url(path: Path) -> Iterator[str]:
    """Where a server listens that knows the callers of `CALLERS`."""
    with listening(an_app(a_brain(path))) as url:
        yield url
