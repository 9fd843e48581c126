"""The store of most tests of the page, and a person who visits it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from commonbrain.client import Brain
from commonbrain.testing.builders import FakeClock, SeededRandom, a_brain
from tests.laid_out_stores import lay_out_store
from tests.web.demo import Demo, fill
from tests.web.review_items import Queue, fill_queue
from tests.web.visitors import Visitor, visitor

AFTER_THE_COPY = 1
"""A seed for the brain on a copy: it must not draw the ids of the memories that are there."""


@pytest.fixture(scope="session")
def filled_shop(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Demo]:
    """The file of the shop, made once; tests get copies."""
    file = tmp_path_factory.mktemp("shop") / "brain.db"
    lay_out_store(file)
    with a_brain(file) as brain:
        return file, fill(brain)


@pytest.fixture(scope="session")
def filled_queue(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Queue]:
    """The file of the review queue, made once; tests get copies."""
    file = tmp_path_factory.mktemp("queue") / "brain.db"
    lay_out_store(file)
    with a_brain(file) as brain:
        return file, fill_queue(brain)


@pytest.fixture
def brain(request: pytest.FixtureRequest, path: Path, clock: FakeClock) -> Iterator[Brain]:
    """A brain on a copy of the shop or the queue if the test asks for it, else on a new file."""
    source = {"demo": "filled_shop", "queue": "filled_queue"}
    names = [fixture for name, fixture in source.items() if name in request.fixturenames]
    seed = 0
    for name in names:
        shutil.copy(request.getfixturevalue(name)[0], path)
        seed = AFTER_THE_COPY
    with a_brain(path, clock=clock, random_source=SeededRandom(seed)) as brain:
        yield brain


@pytest.fixture
def demo(filled_shop: tuple[Path, Demo]) -> Demo:
    return filled_shop[1]


@pytest.fixture
def queue(filled_queue: tuple[Path, Queue]) -> Queue:
    return filled_queue[1]


@pytest.fixture
def ann(brain: Brain, demo: Demo) -> Visitor:  # noqa: ARG001 the store is the shop's
    return visitor(brain)
