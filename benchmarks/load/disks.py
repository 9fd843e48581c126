"""Copies of a store that a fault may spoil, and disks of a size that can be filled."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

_PIECE: Final = 1 << 20
_DISK_BYTES_MAX: Final = 3 << 30
"""A disk in memory: a store that is larger is not copied there."""


class NotHere(Exception):
    """A fault cannot be made on this machine, or of this store; the message says why."""


@dataclass(frozen=True, slots=True)
class Disk:
    """A disk of fixed size, in memory."""

    root: Path

    @property
    def _ballast(self) -> Path:
        return self.root / "ballast"

    def fill(self) -> None:
        """Take all the space that is left."""
        with self._ballast.open("ab", buffering=0) as ballast:
            for size in (_PIECE, 4096):
                _write_until_full(ballast.fileno(), bytes(size))

    def free(self) -> None:
        """Return it back."""
        self._ballast.unlink(missing_ok=True)


@contextmanager
def disk(root: Path, *, bytes_: int) -> Generator[Disk]:
    """Mount a disk of a size.

    Raises:
        NotHere: it would be too large, or mounting is not allowed.

    """
    if bytes_ > _DISK_BYTES_MAX:
        raise NotHere(f"its disk would take {bytes_ >> 20:,} MB of memory")
    if shutil.which("mount") is None or os.geteuid() != 0:
        raise NotHere("only root may mount the small disk that it needs")
    root.mkdir(exist_ok=True)
    options = f"size={bytes_},mode=0755"
    result = _run("mount", "-t", "tmpfs", "-o", options, "tmpfs", str(root))
    if result.returncode:
        raise NotHere(f"mounting is not allowed here: {result.stderr.strip()}")
    try:
        yield Disk(root)
    finally:
        _run("umount", "-l", str(root))


def copy(store: Path, to: Path) -> None:
    """Copy a store that no process has open, with its keys; owners stay who they are."""
    for one in ("postgres", "keys.json"):
        if (store / one).exists():
            result = _run("cp", "-a", str(store / one), str(to))
            if result.returncode:
                raise NotHere(f"the store could not be copied: {result.stderr.strip()}")


def size_of(folder: Path) -> int:
    """Count the bytes below a folder."""
    return sum(one.lstat().st_blocks * 512 for one in folder.rglob("*"))


def move_log(data: Path, to: Path) -> None:
    """Let the log that Postgres writes ahead lie on another disk than its data."""
    moved = to / "pg_wal"
    result = _run("cp", "-a", str(data / "pg_wal"), str(moved))
    if result.returncode:
        raise NotHere(f"the log could not be copied: {result.stderr.strip()}")
    shutil.rmtree(data / "pg_wal")
    (data / "pg_wal").symlink_to(moved)


def _write_until_full(file: int, piece: bytes) -> None:
    try:
        while os.write(file, piece) == len(piece):
            """There is still space."""
    except OSError:
        """There is none."""


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 fixed
