"""File systems of a test's own: small ones that fill up, and ones that cannot be written."""

import os
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.processes import TIMEOUT_S


@contextmanager
def small_disk(folder: Path, *, size: str) -> Generator[Path]:
    """Mount a memory disk of a size, or skip where that is not allowed."""
    folder.mkdir()
    _mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder))
    try:
        yield folder
    finally:
        _run("umount", "-l", str(folder))


@contextmanager
def made_read_only(folder: Path) -> Generator[None]:
    """Make a memory disk read-only for a while; root, too, may not write then."""
    assert _run("mount", "-o", "remount,ro", str(folder)).returncode == 0
    try:
        yield
    finally:
        _run("mount", "-o", "remount,rw", str(folder))


def _mount(*arguments: str) -> None:
    if shutil.which("mount") is None or os.geteuid() != 0:
        pytest.skip("only root may mount the small and read-only disks that this needs")
    done = _run("mount", *arguments)
    if done.returncode:
        pytest.skip(f"mounting is not allowed here: {done.stderr.strip()}")


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
