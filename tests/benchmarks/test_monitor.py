"""The monitor's figures of processes under load."""

import subprocess
import sys

from benchmarks.load.monitor import uses

WORK_S = 0.5
"""Much more than Python takes to start."""
PARENT = """
import subprocess, sys
subprocess.run([sys.executable, "-c", sys.argv[1]], check=True)
print("ended", flush=True)
sys.stdin.read()
"""
CHILD = f"""
import time
while time.process_time() < {WORK_S}:
    pass
"""


def test_processor_time_of_a_child_that_has_ended_is_counted() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline().strip() == b"ended"
        used = uses({"server": parent.pid})["server"]

        assert used.processor_s >= WORK_S
