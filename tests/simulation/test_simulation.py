"""A few seeds of the simulation in every run; `just simulate` runs as many as you like."""

import threading
from pathlib import Path

import pytest

from tests.simulation.seeds import Outcome, shrink, simulate
from tests.simulation.world import World

SEEDS = range(2)
STEPS = range(60)


@pytest.mark.of_a_file
@pytest.mark.parametrize("seed", SEEDS)
def test_store_holds_what_was_acknowledged_in_any_order_of_steps(seed: int) -> None:
    outcome = simulate(seed, STEPS)

    if outcome.error is not None:
        outcome = shrink(outcome, STEPS)
        pytest.fail("\n".join([f"seed {seed}: {outcome.error}", *outcome.trace]))
    assert outcome.done["remember"] > 3


def test_seed_does_the_same_again() -> None:
    runs: list[Outcome] = [simulate(4, range(40)) for _ in range(2)]

    assert runs[0].trace == runs[1].trace


def test_no_thread_writes_between_the_statements_of_a_call(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    world = World(tmp_path, seed=1)
    brain = world.brains[0]

    brain.remember("The port is 5433")
    brain.recall("which port?")

    assert set(threading.enumerate()) == before
    world.close()
