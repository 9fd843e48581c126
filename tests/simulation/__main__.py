"""Simulate a store by seed: `python -m tests.simulation SEEDS [--seed FIRST] [--steps STEPS]`.

Prints each seed that breaks a promise with the fewest of its steps that still do. With one seed,
prints its steps: `python -m tests.simulation 1 --seed 27`.
"""

import argparse
import gc
import os
import sys
import time
from collections import Counter
from multiprocessing import get_context

from tests.simulation.seeds import simulate_and_shrink

STEPS = 200
PROCESSES = 2


def main() -> int:
    """Simulate; return 1 if a promise was broken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("seeds", type=int)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--steps", type=int, default=STEPS)
    given = parser.parse_args()
    steps, began, done = range(given.steps), time.monotonic(), Counter[str]()
    failed = 0
    # Sets are walked in the same order in every process.
    os.environ["PYTHONHASHSEED"] = "0"
    # Each seed collects its garbage at its end; a tenth of the time would go into looking for it.
    with get_context("spawn").Pool(min(PROCESSES, given.seeds), gc.disable) as pool:
        jobs = ((seed, steps) for seed in range(given.seed, given.seed + given.seeds))
        for outcome in pool.imap_unordered(simulate_and_shrink, jobs):
            done += outcome.done
            failed += outcome.error is not None
            if outcome.error is not None or given.seeds == 1:
                lines = "\n  ".join(outcome.trace)
                sys.stdout.write(f"seed {outcome.seed}: {outcome.error or 'ok'}\n  {lines}\n")
                sys.stdout.flush()
    took_s = time.monotonic() - began
    sys.stdout.write(
        f"{given.seeds} seeds of {given.steps} steps in {took_s:.0f} s: {failed} failed\n"
    )
    sys.stdout.write(f"{', '.join(f'{name} {count:,}' for name, count in done.most_common())}\n")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
