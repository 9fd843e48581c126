"""Search for new counterexamples: run the property tests with random seeds until time is up."""

import subprocess
import sys
import time
from pathlib import Path
from random import SystemRandom

TESTS = Path(__file__).parent


def explore(seconds: float) -> int:
    """Run the files with property tests over and over; give pytest's status of the first failure.

    A run that has begun is finished, so the search takes longer than asked by up to one run.
    """
    paths = sorted(TESTS.rglob("test_*.py"))
    files = [str(path) for path in paths if "@given" in path.read_text("utf-8")]
    pytest = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "2", "--hypothesis-profile=explore"]
    seeds = SystemRandom()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        seed = f"--hypothesis-seed={seeds.getrandbits(32)}"
        done = subprocess.run([*pytest, seed, *files], check=False)
        if done.returncode:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(explore(float(sys.argv[1])))
