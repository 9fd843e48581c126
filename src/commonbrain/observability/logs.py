"""The log of a server: JSON lines in rotating files, without a secret or a stored text."""

from __future__ import annotations

import json
import logging
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, Final, TextIO, cast

from filelock import FileLock, Timeout

from commonbrain.model import ids
from commonbrain.model.escaping import inert
from commonbrain.observability.interface import NoTelemetry
from commonbrain.observability.tool_events import ToolEvent

OURS: Final = "commonbrain"
"""The logger whose records go there; what other libraries write may hold anything."""
_BYTES_MAX: Final = 5 * 1024 * 1024
_FILES: Final = 5
_BROKEN: Final = 500
"""From this status on it is the server's fault."""
_PROCESSES_MAX: Final = 64
"""Files of one name side by side, one for each process that is at work."""
_CALLS: Final = f"{OURS}.calls"
_JSON: Final = json.JSONEncoder(ensure_ascii=False)


class JsonLinesFormatter(logging.Formatter):
    """Writes a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Write it; of an exception its sort and its places, for its message may repeat a text."""
        line: dict[str, Any] = {
            "at": _shown(datetime.fromtimestamp(record.created, UTC)),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info and record.exc_info[0] is not None:
            frames = traceback.extract_tb(record.exc_info[2])
            line["error"] = record.exc_info[0].__name__
            line["places"] = [f"{one.filename}:{one.lineno} {one.name}" for one in frames]
        return _JSON.encode(line)


class Plain(logging.Formatter):
    """Writes a record for a terminal; of an exception its sort alone, as in the file."""

    def format(self, record: logging.LogRecord) -> str:
        """Write it on one line."""
        sort = record.exc_info[0] if record.exc_info else None
        broken = f" ({sort.__name__})" if sort else ""
        return inert(f"{record.getMessage()}{broken}")


class Terminal(logging.StreamHandler[TextIO]):
    """Writes what matters to whoever reads stderr; what cannot be written is left out."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 as named there
        """Say nothing: the traceback that is usual there shows what the record holds."""


class _Owners(RotatingFileHandler):
    """Makes files that only their owner reads; what cannot be written is left out.

    Nothing raises into the call that logs, whatever it gave: a line is worth less than an answer.
    """

    _is_lost = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record; its lock is held by whoever calls this."""
        self._put(partial(self.format, record))

    def put(self, line: Mapping[str, object]) -> None:
        """Write a line that no record stands for, since to make one costs more than the line."""
        self.acquire()
        try:
            self._put(partial(_JSON.encode, line))
        finally:
            self.release()

    def _put(self, written: Callable[[], str]) -> None:
        """Write a line, in the next file where this one has no room; it is made once for both."""
        try:
            line = f"{written()}{self.terminator}"
            self.stream = self.stream or self._open()
            if self.stream.tell() + len(line) >= self.maxBytes:
                self.doRollover()
            # Rolled over, the next one is not open yet.
            self.stream = self.stream or self._open()
            self.stream.write(line)
            self.flush()
        except Exception:  # noqa: BLE001 a record holds what any caller gave
            self._tell_lost()
        else:
            self._is_lost = False

    def _tell_lost(self) -> None:
        """Say once that lines are lost: a full disk is no reason to fill what reads stderr.

        It is said again when lines are lost after one that was written.
        """
        error = sys.exc_info()[0]
        if self._is_lost:
            return
        self._is_lost = True
        # There may be nobody who reads it any more.
        with suppress(AttributeError, OSError, ValueError):
            sys.stderr.write(f"The log cannot be written ({error and error.__name__}).\n")

    def _open(self) -> TextIOWrapper:
        """Open the file; what no encoding has is written as its escape."""

        def make(path: str, flags: int) -> int:
            return os.open(path, flags, 0o600)

        name, mode, told = self.baseFilename, self.mode, (self.encoding, self.errors)
        # The handler closes it.
        return cast("TextIOWrapper", open(name, mode, -1, *told, opener=make))


class ServerLog(NoTelemetry):
    """One process's file in a folder; what it holds of calls are their events."""

    def __init__(self, folder: Path, name: str) -> None:
        """Open the first file of a name that no other process writes to.

        Raises:
            OSError: the folder cannot be written to.

        """
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock, self.path = _own(folder, name)
        self._handler = _Owners(
            self.path,
            maxBytes=_BYTES_MAX,
            backupCount=_FILES - 1,
            encoding="utf-8",
            delay=True,
            errors="backslashreplace",
        )
        self._handler.setFormatter(JsonLinesFormatter())
        self._errors: logging.Handler | None = None
        ours = logging.getLogger(OURS)
        if not (ours.handlers or logging.getLogger().handlers):
            # What went to stderr while there was no handler still does.
            self._errors = Terminal(sys.stderr)
            self._errors.setLevel(logging.WARNING)
            self._errors.setFormatter(Plain())
            ours.addHandler(self._errors)
        ours.addHandler(self._handler)

    def called(self, event: ToolEvent, *, http_status: int) -> None:
        """Write down a call: an error of ours as such, a slow one as a warning."""
        broken = http_status >= _BROKEN
        level = "ERROR" if broken else "WARNING" if event.is_slow else "INFO"
        # To the file alone: a client that reads stderr has been answered.
        line = {
            "at": _shown(datetime.now(UTC)),
            "level": level,
            "logger": _CALLS,
            "request": ids.show(ids.EVENT, event.id),
            "tenant": event.tenant,
            "agent": event.agent,
            "session": event.session,
            "tool": event.tool,
            "transport": event.transport,
            "duration_ms": event.duration_ms,
            "outcome": event.outcome,
            "args": event.args,
            **({"slow": True} if event.is_slow else {}),
        }
        self._handler.put(line)

    def close(self) -> None:
        """Let go of the file."""
        for handler in filter(None, (self._handler, self._errors)):
            logging.getLogger(OURS).removeHandler(handler)
            handler.close()
        self._lock.release()


def _own(folder: Path, name: str) -> tuple[FileLock, Path]:
    """Find a file that is nobody's; the lock on it is let go of when its process dies.

    Raises:
        OSError: there are too many processes.

    """
    for number in range(1, _PROCESSES_MAX + 1):
        stem = name if number == 1 else f"{name}-{number}"
        lock = FileLock(folder / f"{stem}.lock", mode=0o600, thread_local=False)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            continue
        return lock, folder / f"{stem}.jsonl"
    raise OSError(f"More than {_PROCESSES_MAX} processes log as {name} in {folder}.")


def _shown(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds")
