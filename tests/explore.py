"""Search for new counterexamples: run the laws with random examples until time is up.

`python -m tests.explore SECONDS` prints what it finds with the seed that finds it again. The laws
run in random order, a thousand examples each; one that has begun when time is up is ended soon
after, and a counterexample that is still being made simpler then is lost. With a number after the
seconds it reads so many changed sources of each kind instead, see `tests.explore_sources`.
"""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from random import Random, SystemRandom
from types import FrameType
from typing import NoReturn

import pytest
from hypothesis.errors import Flaky

from tests.explore_sources import explore_sources
from tests.parts import files_with_tests

LAW = re.compile(r"@given|RuleBasedStateMachine")
"""What a file with a law contains."""
LAST_LAWS_S = 10.0
"""Laws that have begun when time is up may take this long; then they are ended."""
COLLECTORS = frozenset({"gc_callback", "__del__"})
"""Functions that the garbage collector calls; what they raise is lost, and fails a test."""
RETRY_S = 0.02
STOP_S = 60.0
"""A search that goes on for so much longer hangs."""


class Exploration:
    """The pytest hooks that run nothing but laws, in an order drawn by a seed, until time is up."""

    def __init__(self, seed: int, *, until: float) -> None:
        self._seed = seed
        self._until = until

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Keep the laws, in the same order in every worker."""
        others = [item for item in items if not is_law(item)]
        laws = [item for item in items if is_law(item)]
        Random(self._seed).shuffle(laws)  # noqa: S311 an order, no secret
        items[:] = laws
        config.hook.pytest_deselected(items=others)

    def pytest_runtest_setup(self) -> None:
        """Begin no law when time is up."""
        if time.time() > self._until:
            end_law()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None]:
        """End a law that goes on for too long."""
        signal.signal(signal.SIGALRM, interrupt_law)
        began = time.time()
        rest_s = self._until + LAST_LAWS_S - began
        signal.setitimer(signal.ITIMER_REAL, max(rest_s, 0.1))
        try:
            return (yield)
        except Flaky:
            # Where a law is ended within Hypothesis, that takes its data for inconsistent.
            if rest_s > time.time() - began:
                raise
            end_law()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


def interrupt_law(_signal: int, frame: FrameType | None) -> None:
    """End a law where it is, or a little later if garbage is collected: nothing is raised there."""
    while frame is not None:
        if frame.f_code.co_name in COLLECTORS:
            signal.setitimer(signal.ITIMER_REAL, RETRY_S)
            return
        frame = frame.f_back
    end_law()


def end_law() -> NoReturn:
    """End a law without a result."""
    pytest.skip("time is up")


def is_law(item: pytest.Item) -> bool:
    """Return whether hypothesis gives the examples of a test."""
    return bool(getattr(getattr(item, "obj", None), "is_hypothesis_test", False))


def explore(seconds: float) -> int:
    """Run the laws for some seconds; return pytest's status: 0 if no law failed, 1 if one did.

    A search that hangs is ended, with the status of an interrupted one.
    """
    seed = SystemRandom().getrandbits(32)
    files = [path for path in files_with_tests() if LAW.search(path.read_text("utf-8"))]
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-n", "2", "--no-header", "-r", "fE"),
        *("--hypothesis-profile=explore", f"--hypothesis-seed={seed}"),
        f"--explore={time.time() + seconds}",
        *map(str, files),
    ]
    sys.stdout.write(f"explore: seed {seed}, {seconds:g} s, {len(files)} files with laws\n")
    sys.stdout.flush()
    try:
        code = subprocess.run(command, timeout=seconds + STOP_S, check=False).returncode
    except subprocess.TimeoutExpired:
        sys.stdout.write(f"explore: a law went on for {STOP_S:g} s after the time was up\n")
        code = pytest.ExitCode.INTERRUPTED
    again = f"pytest --hypothesis-profile=explore --hypothesis-seed={seed} FILE"
    sys.stdout.write(f"explore: to repeat a law with these examples: {again}\n")
    return code


if __name__ == "__main__":
    time_s, *counts = sys.argv[1:]
    sys.exit(explore_sources(float(time_s), int(counts[0])) if counts else explore(float(time_s)))
