"""The end of a process by a signal."""

import signal
import subprocess
import sys

import pytest

from tests.processes import TIMEOUT_S, clean_environment

_INTERRUPTED = """
import signal, sys, threading, weakref
from commonbrain.runtime.signals import stopped_by_signals

class Dropped:
    pass

class Finalized:
    def __del__(self):
        signal.raise_signal(signal.{end})

with stopped_by_signals(3):
    try:
        {interrupted}
        threading.Event().wait()
    finally:
        print("cleaned up")
"""


@pytest.mark.parametrize("end", ["SIGTERM", "SIGHUP"])
@pytest.mark.parametrize(
    "interrupted",
    ["Finalized()", "weakref.finalize(Dropped(), lambda: signal.raise_signal(signal.{end}))"],
)
def test_a_signal_that_arrives_in_a_finalizer_ends_the_process(end: str, interrupted: str) -> None:
    assert hasattr(signal, end)
    script = _INTERRUPTED.replace("{interrupted}", interrupted).replace("{end}", end)

    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env=clean_environment(),
        check=False,
    )

    assert (done.returncode, done.stdout) == (3, "cleaned up\n"), done.stderr
