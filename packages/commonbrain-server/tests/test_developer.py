"""`brain dev`: a whole server in one folder, which leaves nothing behind."""

import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.processes import TIMEOUT_S, clean_environment
from tests.serving import free_port, until_ready

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")


@pytest.fixture
def folder() -> Generator[Path]:
    # Not under a test's own folder, which the user who runs Postgres may not enter.
    with tempfile.TemporaryDirectory(prefix="commonbrain-whole-") as made:
        Path(made).chmod(0o711)
        yield Path(made)


@contextmanager
def developing(folder: Path, *options: str) -> Generator[subprocess.Popen[bytes]]:
    port = free_port()
    line = [sys.executable, "-m", "commonbrain", "dev", str(folder), "--port", str(port)]
    with subprocess.Popen(
        [*line, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=clean_environment(PYTHONUNBUFFERED="1"),
    ) as process:
        try:
            until_ready(f"http://127.0.0.1:{port}", process)
            yield process
        finally:
            process.terminate()
            process.wait(TIMEOUT_S)


def assert_stops_cleanly(process: subprocess.Popen[bytes]) -> None:
    children = psutil.Process(process.pid).children(recursive=True)
    assert any("worker" in one.cmdline() for one in children)
    process.send_signal(signal.SIGTERM)
    _ended, left = psutil.wait_procs(children, timeout=TIMEOUT_S)
    assert left == []
    assert process.wait(TIMEOUT_S) == 0


def test_stopped_dev_server_leaves_no_process_and_its_restart_prints_a_command_for_a_key(
    folder: Path,
) -> None:
    with developing(folder, "--workers", "2") as process:
        first = (folder / "env").read_text()
        assert_stops_cleanly(process)
    with developing(folder) as process:
        file = folder / "env"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert file.read_text() != first
        output = read_output(process)
        made = subprocess.run(
            ["/bin/sh", "-c", output["First key"].partition("another: ")[2]],
            env=clean_environment(PATH=f"{Path(sys.executable).parent}:/usr/bin:/bin"),
            capture_output=True,
            check=True,
            timeout=TIMEOUT_S,
        )
        assert output["Environment"] == f". {file}"
        assert b"cb_default_" in made.stdout
        assert_stops_cleanly(process)


def read_output(process: subprocess.Popen[bytes]) -> dict[str, str]:
    """Read its output, whose last line is the key."""
    assert process.stdout
    output: dict[str, str] = {}
    while "First key" not in output:
        line = process.stdout.readline().decode().rstrip("\n")
        output[line[:11].rstrip()] = line[12:]
    return output
