"""What a record says about where and on what it was made: commit, machine, digest of the data."""

import hashlib
import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import commonbrain
from commonbrain_evals.retrieval.record import Machine

_WAIT_S = 10
"""Seconds for git to answer."""


def commit() -> str | None:
    """Give the commit of the tree that this code lies in; a `+` says that it was changed since."""
    package = Path(commonbrain.__file__).parent
    root = _git(package, "rev-parse", "--show-toplevel")
    # An installed package may lie in a folder of some other project.
    if root is None or Path(root) / "src" / package.name != package:
        return None
    head = _git(package, "rev-parse", "HEAD")
    return f"{head}+" if head and _git(package, "status", "--porcelain", str(package)) else head


def _git(folder: Path, *arguments: str) -> str | None:
    program = shutil.which("git")
    if program is None:
        return None
    command = [program, "-C", str(folder), *arguments]
    try:
        ran = subprocess.run(  # noqa: S603 a fixed program, in the folder of this package
            command, capture_output=True, check=False, text=True, timeout=_WAIT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return ran.stdout.strip() if ran.returncode == 0 else None


def machine() -> Machine:
    """Describe this machine, as far as it tells."""
    return Machine(
        processor=_processor(),
        cores=os.cpu_count() or 1,
        platform=platform.platform(),
        python=platform.python_version(),
    )


def _processor() -> str:
    try:
        processor_lines = Path("/proc/cpuinfo").read_text("utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    names = [
        line.partition(":")[2].strip()
        for line in processor_lines.splitlines()
        if "model name" in line
    ]
    return names[0] if names else platform.machine()


def digest(files: Sequence[Path]) -> str:
    """Give the SHA-256 of a file, or of the digests of several, in their order."""
    each = [_digest(path) for path in files]
    return each[0] if len(each) == 1 else hashlib.sha256("".join(each).encode()).hexdigest()


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
