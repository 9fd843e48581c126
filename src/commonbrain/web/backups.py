"""Backups that a person makes on the page of this machine's store.

A backup for download is in a temporary folder until it is fetched once, for a quarter of an hour at
most; it contains every tenant's memories, so nothing of it outlives the process.
"""

import shutil
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from threading import Event, Lock, Thread, Timer
from typing import Final, Self

from commonbrain.client import Brain
from commonbrain.model.errors import (
    CommonbrainError,
    InvalidInputError,
    NotFoundError,
    RejectedError,
)
from commonbrain.storage.interface import Backup

_COPIES: Final = 2
"""Copies of the store for which there must be space: the backup, and its compaction."""
_RETENTION_S: Final = 900.0
"""Seconds for which a backup waits for its download."""
_CLOSE_TIMEOUT_S: Final = 60.0
"""A cancelled backup stops between its steps; checking a copy of some GB takes this long."""
_SIDES: Final = ("", "-wal")


class BackupState(StrEnum):
    """The state of a backup."""

    RUNNING = "running"
    READY = "ready"
    """It waits for its download."""
    FETCHED = "fetched"
    WRITTEN = "written"
    """It is in the folder that the person named."""
    EXPIRED = "expired"
    """It was not downloaded in time."""
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupRun:
    """The last backup that was started: its progress and its outcome."""

    name: str
    folder: str | None
    """The folder that the person named; None for a download."""
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
    free_bytes: int
    """Free space for a download, on the disk of temporary files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupFile:
    """A backup that is being downloaded; `close` deletes it."""

    path: Path
    folder: TemporaryDirectory[str]

    def close(self) -> None:
        """Delete the file."""
        self.folder.cleanup()


class _StoppedError(Exception):
    """The backup was cancelled."""


@dataclass(slots=True)
class Backups:
    """Makes one backup at a time of a store in a file."""

    store: Path
    retention_s: float = _RETENTION_S
    _run: BackupRun | None = None
    _held: BackupFile | None = None
    """The finished backup that waits for its download."""
    _timer: Timer | None = None
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
        free = shutil.disk_usage(gettempdir()).free
        return BackupEstimate(size_bytes=self._size(), free_bytes=free)

    def start(self, brain: Brain, *, folder: str | None = None) -> BackupRun:
        """Start a backup into a folder of this machine, or for a download.

        Raises:
            InvalidInputError: the folder does not exist.
            RejectedError: a backup is being made, or the disk has too little space.

        """
        target = None if folder is None else _checked_folder(folder)
        with self._lock:
            if self._run is not None and self._run.state is BackupState.RUNNING:
                raise RejectedError(
                    "A backup is being made.", code="busy", hint="Wait for its end, or cancel it."
                )
            self._discard()
            self._check_space(target or Path(gettempdir()))
            held = None if target else TemporaryDirectory(prefix="commonbrain-")
            now = brain.services.clock.now()
            name = f"commonbrain-{now:%Y%m%dT%H%M%SZ}.db"
            self._run = BackupRun(name=name, folder=str(target) if target else None, started_at=now)
            self._stop = Event()
            path = (Path(held.name) if held else target or Path()) / name
            make = partial(self._make, brain, path, held=held, stop=self._stop)
            self._thread = Thread(target=make, daemon=True, name="backup")
            self._thread.start()
            return self._run

    def cancel(self) -> None:
        """Cancel the backup that is being made, or delete the one that waits for its download."""
        self._stop.set()
        with self._lock:
            if self._held is not None:
                self._discard()
                self._move(state=BackupState.CANCELLED)

    def take(self) -> BackupFile:
        """Return the backup that waits for its download; the caller closes it.

        Raises:
            NotFoundError: none waits: it was downloaded, has expired, or is not finished.

        """
        with self._lock:
            held, self._held = self._held, None
            if held is None:
                raise NotFoundError(
                    "No backup waits for a download.", hint="Make one; it can be downloaded once."
                )
            self._cancel_timer()
            self._move(state=BackupState.FETCHED)
            return held

    def close(self) -> None:
        """Stop the backup that is being made, and delete what waits for a download."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_CLOSE_TIMEOUT_S)
        with self._lock:
            self._discard()

    def _make(
        self, brain: Brain, path: Path, *, held: TemporaryDirectory[str] | None, stop: Event
    ) -> None:
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
            state = BackupState.READY if held else BackupState.WRITTEN
            ended = {"state": state, "progress": 1.0, "done": done}
        except _StoppedError:
            ended = {"state": BackupState.CANCELLED}
        except CommonbrainError as error:
            ended["error"], ended["hint"] = error.message, error.hint
        finally:
            with self._lock:
                if held and "done" in ended:
                    self._held = BackupFile(path=path, folder=held)
                    self._timer = Timer(self.retention_s, self._expire)
                    self._timer.daemon = True
                    self._timer.start()
                elif held:
                    held.cleanup()
                self._move(**ended)

    def _expire(self) -> None:
        with self._lock:
            if self._held is not None:
                self._discard()
                self._move(state=BackupState.EXPIRED)

    def _discard(self) -> None:
        held, self._held = self._held, None
        self._cancel_timer()
        if held is not None:
            held.close()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _move(self, **changes: object) -> None:
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
