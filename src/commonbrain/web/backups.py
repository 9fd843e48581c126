"""Backups that a person makes on the page of this machine's store, into a folder of it."""

import shutil
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Final, Self

from commonbrain.client import Brain
from commonbrain.model.errors import CommonbrainError, InvalidInputError, RejectedError
from commonbrain.storage.interface import Backup

_COPIES: Final = 2
"""Copies of the store for which there must be space: the backup, and its compaction."""
_CLOSE_TIMEOUT_S: Final = 60.0
"""A cancelled backup stops between its steps; checking a copy of some GB takes this long."""
_SIDES: Final = ("", "-wal")


class BackupState(StrEnum):
    """The state of a backup."""

    RUNNING = "running"
    WRITTEN = "written"
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupRun:
    """The last backup that was started: its progress and its outcome."""

    started_at: datetime
    state: BackupState = BackupState.RUNNING
    progress: float = 0.0
    done: Backup | None = None
    error: str | None = None
    hint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupEstimate:
    """The size of the next backup, before it is made."""

    size_bytes: int
    """The size of the store; a backup has no free pages, so it may be smaller."""
    folder: str
    """The folder of the store, into which it is written unless another is named."""
    free_bytes: int
    """Free space there."""


class _StoppedError(Exception):
    """The backup was cancelled."""


@dataclass(slots=True)
class Backups:
    """Makes one backup at a time of a store in a file."""

    store: Path
    _run: BackupRun | None = None
    _thread: Thread | None = None
    _stop: Event = field(default_factory=Event)
    _lock: Lock = field(default_factory=Lock)

    @classmethod
    def of(cls, brain: Brain) -> Self | None:
        """Return the backups of a brain's store; None if the store is not a file."""
        path = Path(brain.services.store.location)
        return cls(path) if path.is_file() else None

    @property
    def last(self) -> BackupRun | None:
        """The backup that is being made, or that was made last."""
        return self._run

    def estimate(self) -> BackupEstimate:
        """Return how large a backup will be, and how much space there is."""
        folder = self.store.absolute().parent
        free = shutil.disk_usage(folder).free
        return BackupEstimate(size_bytes=self._size(), folder=str(folder), free_bytes=free)

    def start(self, brain: Brain, *, folder: str) -> BackupRun:
        """Start a backup into a folder of this machine.

        Raises:
            InvalidInputError: the folder does not exist.
            RejectedError: a backup is being made, or the disk has too little space.

        """
        target = _checked_folder(folder)
        with self._lock:
            if self._run is not None and self._run.state is BackupState.RUNNING:
                raise RejectedError(
                    "A backup is being made.", code="busy", hint="Wait for its end, or cancel it."
                )
            self._check_space(target)
            now = brain.services.clock.now()
            self._run = BackupRun(started_at=now)
            self._stop = Event()
            path = target / f"commonbrain-{now:%Y%m%dT%H%M%SZ}.db"
            make = partial(self._make, brain, path, stop=self._stop)
            self._thread = Thread(target=make, daemon=True, name="backup")
            self._thread.start()
            return self._run

    def cancel(self) -> None:
        """Cancel the backup that is being made."""
        self._stop.set()

    def close(self) -> None:
        """Stop the backup that is being made."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_CLOSE_TIMEOUT_S)

    def _make(self, brain: Brain, path: Path, *, stop: Event) -> None:
        def on_progress(progress: float) -> None:
            if stop.is_set():
                raise _StoppedError
            self._move(progress=progress)

        ended: dict[str, object] = {
            "state": BackupState.FAILED,
            "error": "An internal error occurred.",
            "hint": "The command shows its cause.",
        }
        try:
            done = brain.backup(path, on_progress=on_progress)
            ended = {"state": BackupState.WRITTEN, "progress": 1.0, "done": done}
        except _StoppedError:
            ended = {"state": BackupState.CANCELLED}
        except CommonbrainError as error:
            ended["error"], ended["hint"] = error.message, error.hint
        finally:
            self._move(**ended)

    def _move(self, **changes: object) -> None:
        with self._lock:
            if self._run is not None:
                self._run = replace(self._run, **changes)  # pyright: ignore[reportArgumentType]

    def _check_space(self, folder: Path) -> None:
        needed, free = _COPIES * self._size(), shutil.disk_usage(folder).free
        if free < needed:
            raise RejectedError(
                f"The backup needs {needed:,} bytes while it is made, and {free:,} are free.",
                code="disk_full",
                hint="Free some space, or name a folder on another disk.",
            )

    def _size(self) -> int:
        size = 0
        for side in _SIDES:
            with suppress(FileNotFoundError):
                size += self.store.with_name(self.store.name + side).stat().st_size
        return size


def _checked_folder(text: str) -> Path:
    try:
        folder = Path(text).expanduser()
    except RuntimeError:
        folder = Path(text)
    if not folder.is_absolute():
        raise InvalidInputError(
            f"{text[:100]!r} is not a whole path.", hint="Start it with / or ~, or a drive."
        )
    if not folder.is_dir():
        raise InvalidInputError(
            f"There is no folder {text[:100]!r}.", hint="Create it first, or name another one."
        )
    return folder
