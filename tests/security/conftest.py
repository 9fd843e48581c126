"""Keys of a brain, and what tells callers by them."""

from collections.abc import Callable

import pytest

from commonbrain.adapters.access.keys import KeyAccess
from commonbrain.adapters.access.rates import WindowRates
from commonbrain.brain import Brain
from commonbrain.domain.scope import Role
from commonbrain.flows.governing import KeyWish, NewKey
from commonbrain.ports.access import Access
from commonbrain.testing.builders import an_access
from tests.security.keys import CountingSeals


@pytest.fixture
def new(brain: Brain) -> Callable[..., NewKey]:
    def make(agent: str = "bob", role: Role = Role.WRITER, **more: object) -> NewKey:
        return brain.govern.create_key(KeyWish(agent=agent, role=role, **more))  # type: ignore[arg-type]

    return make


@pytest.fixture
def access(brain: Brain) -> Access:
    return an_access(brain)


@pytest.fixture
def seals(brain: Brain) -> CountingSeals:
    return CountingSeals(brain.house.seals())


@pytest.fixture
def counted(brain: Brain, seals: CountingSeals) -> KeyAccess:
    house = brain.house
    return KeyAccess(
        store=house.store,
        seals=seals,
        clock=house.clock,
        rates=WindowRates(),
        refusals=house.refusals,
    )
