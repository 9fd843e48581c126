"""What was measured of the models on this machine: digests of files, dimensions, thresholds."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from filelock import FileLock, Timeout
from pydantic import TypeAdapter, ValidationError

from commonbrain.embeddings.interface import Thresholds
from commonbrain.model.errors import InvalidInputError, UnavailableError

Parsed = TypeVar("Parsed")

_LOCK_S: Final = 120.0
"""A model of a gigabyte is measured within a minute; a second process waits for the first."""
_CHUNK_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRecord:
    """The measurements of one model."""

    path: str
    """Where it was when it was measured."""
    digest: str
    """As in the name of its space."""
    dimensions: int
    thresholds: Thresholds


_Stamp = tuple[tuple[str, int, int], ...]
"""Path, size in bytes and time of change in nanoseconds of each file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _FileRecord:
    """The digest of files as they were."""

    stamp: _Stamp
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _CheckRecord:
    """A model that was used without harm."""

    path: str
    digest: str


_CHECK_FORM: Final = TypeAdapter(_CheckRecord)
_FORM: Final = TypeAdapter(ModelRecord)
_FILES_FORM: Final = TypeAdapter(_FileRecord)


class ModelRecords:
    """Keeps measurements in a folder; without one, for this process only.

    A file that cannot be read or written costs another measurement, nothing else.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._stamps: dict[tuple[Path, ...], _Stamp] = {}
        self._failures: dict[str, UnavailableError] = {}

    def digest(self, files: Sequence[Path]) -> str:
        """Return a digest of the content of files; it is read again only if they changed.

        Raises:
            InvalidInputError: a file cannot be read.

        """
        try:
            stamp = _stamp(files)
            name = f"files-{_hash(str([str(one) for one in files]))}.json"
            known = self._load(name, _FILES_FORM)
            if known is None or known.stamp != stamp:
                known = _FileRecord(stamp=stamp, digest=_digest(files))
                self._store(name, asdict(known))
        except OSError as error:
            raise InvalidInputError(
                f"{error.filename} cannot be read: {error.strerror}.",
                hint="Make it readable for this user.",
            ) from error
        self._stamps[tuple(files)] = stamp
        return known.digest

    def is_current(self, files: Sequence[Path]) -> bool:
        """Return whether files are as they were when their digest was made, if one was."""
        known = self._stamps.get(tuple(files))
        try:
            return known is None or known == _stamp(files)
        except OSError:
            return False

    def check_once(self, files: Sequence[Path], *, check: Callable[[], None]) -> None:
        """Check files unless files of this content passed; one that failed fails again at once.

        Raises:
            InvalidInputError: a file cannot be read, or as the check raises it.
            UnavailableError: as the check raises it, or raised it in this process.

        """
        digest = self.digest(files)
        name = f"checked-{digest}.json"
        if self._load(name, _CHECK_FORM) is not None:
            return
        if (known := self._failures.get(digest)) is not None:
            raise UnavailableError(known.message, code=known.code, hint=known.hint)
        try:
            check()
        except UnavailableError as error:
            if error.code == "embedder_down":
                self._failures[digest] = error
            raise
        self._store(name, asdict(_CheckRecord(path=str(files[0]), digest=digest)))

    def get(self, key: str, *, make: Callable[[], ModelRecord]) -> ModelRecord:
        """Return a record, making it if there is none; one process at a time measures a model."""
        name = f"model-{key}.json"
        if (known := self._load(name, _FORM)) is not None:
            return known
        with self._locked(key):
            # Another process may have made it meanwhile.
            record = self._load(name, _FORM) or make()
            self._store(name, asdict(record))
        return record

    def find(self, digest: str) -> ModelRecord | None:
        """Return the record of a model on this machine by the digest in its space's name."""
        paths = sorted(self._folder.glob("model-*.json")) if self._folder else []
        records = (self._load(path.name, _FORM) for path in paths)
        return next((one for one in records if one and one.digest == digest), None)

    def _load(self, name: str, form: TypeAdapter[Parsed]) -> Parsed | None:
        if self._folder is None:
            return None
        try:
            return form.validate_json((self._folder / name).read_bytes())
        except (OSError, ValidationError):
            return None

    def _store(self, name: str, content: dict[str, Any]) -> None:
        if self._folder is None:
            return
        part = self._folder / f"{name}.{os.getpid()}"
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            part.write_text(json.dumps(content), encoding="utf-8")
            part.replace(self._folder / name)

    @contextmanager
    def _locked(self, key: str) -> Generator[None]:
        if self._folder is None:
            yield
            return
        lock = FileLock(self._folder / f"model-{key}.lock", timeout=_LOCK_S)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        except (OSError, Timeout):
            # Two measurements of one model give the same result.
            yield
            return
        try:
            yield
        finally:
            lock.release()


def _stamp(files: Sequence[Path]) -> _Stamp:
    stats = ((one, one.stat()) for one in files)
    return tuple((str(one), stat.st_size, stat.st_mtime_ns) for one, stat in stats)


def _digest(files: Sequence[Path]) -> str:
    """Hash the content of files with their lengths; their names and folders do not count."""
    whole = hashlib.sha256()
    for one in files:
        own = hashlib.sha256()
        with one.open("rb") as opened:
            while chunk := opened.read(_CHUNK_BYTES):
                own.update(chunk)
        whole.update(own.digest())
    return whole.hexdigest()


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def find_folder(space: str, *, records: Path) -> str | None:
    """Return the folder of a local model by the name of its space, if this machine knows it."""
    record = ModelRecords(records).find(space.split("/")[1])
    return record.path if record else None
