"""The store of most tests of the page, and a person who visits it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from commonbrain.client import Brain
from commonbrain.testing.builders import FakeClock, a_brain
from tests.web.demo import Demo, fill
from tests.web.visitors import Visitor, visitor


@pytest.fixture
def brain(path: Path, clock: FakeClock) -> Iterator[Brain]:
    with a_brain(path, clock=clock) as brain:
        yield brain


@pytest.fixture
def demo(brain: Brain) -> Demo:
    return fill(brain)


@pytest.fixture
def ann(brain: Brain, demo: Demo) -> Visitor:  # noqa: ARG001 the store is filled first
    return visitor(brain)
