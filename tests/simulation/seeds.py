"""Runs of a seed, and the fewest steps of one that breaks a promise."""

import gc
import logging
import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.simulation.simulation import Simulation, SimulationError

SHRINKS_MAX = 60
"""Runs to find fewer steps."""
MEMORY_FOLDER = Path("/dev/shm")  # noqa: S108 a private folder is made in it


@dataclass(frozen=True)
class Outcome:
    """What a seed did: its calls by name, and its failure if it broke a promise."""

    seed: int
    done: Counter[str]
    trace: Sequence[str]
    error: str | None = None


def simulate(seed: int, steps: Sequence[int]) -> Outcome:
    """Run some steps of a seed on a new store."""
    place = MEMORY_FOLDER if MEMORY_FOLDER.is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="simulation", dir=place))
    simulation = Simulation(seed, folder)
    logging.disable()
    try:
        return Outcome(seed, simulation.run(steps).done, simulation.trace)
    except SimulationError as error:
        return Outcome(seed, Counter(), simulation.trace, str(error))
    finally:
        logging.disable(logging.NOTSET)
        gc.collect()
        shutil.rmtree(folder)


def shrink(failed: Outcome, steps: Sequence[int]) -> Outcome:
    """Leave out steps as long as a promise is still broken."""
    last = failed.trace[-1].split()[0]
    failing = [one for one in steps if last == "end" or one <= int(last)]
    size, runs = len(failing) // 2, 0
    while size and runs < SHRINKS_MAX:
        for at in range(0, len(failing), size):
            fewer, runs = failing[:at] + failing[at + size :], runs + 1
            outcome = simulate(failed.seed, fewer)
            if outcome.error is not None:
                failing, failed = fewer, outcome
                break
        else:
            size //= 2
    return failed


def simulate_and_shrink(job: tuple[int, Sequence[int]]) -> Outcome:
    """Run the steps of a seed; if a promise is broken, find the fewest that break it."""
    outcome = simulate(*job)
    return outcome if outcome.error is None else shrink(outcome, job[1])
