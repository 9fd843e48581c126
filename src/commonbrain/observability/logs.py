"""The server log: JSON lines in rotating files, without secrets or memory text."""

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

from commonbrain.folders import make_private_folder
from commonbrain.model import ids
from commonbrain.model.escaping import inert
from commonbrain.observability.interface import Telemetry
from commonbrain.observability.tool_events import ToolEvent

ROOT_LOGGER: Final = "commonbrain"
"""The logger whose records are written; those of other libraries may contain user text."""
_BYTES_MAX: Final = 5 * 1024 * 1024
_FILES: Final = 5
_SERVER_ERROR: Final = 500
"""Statuses from here on are server errors."""
_PROCESSES_MAX: Final = 64
"""Log files of one name, one for each running process."""
_CALLS: Final = f"{ROOT_LOGGER}.calls"
_JSON: Final = json.JSONEncoder(ensure_ascii=False)


class JsonLinesFormatter(logging.Formatter):
    """Formats a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record; exceptions by type and location, since messages may repeat user text."""
        line: dict[str, Any] = {
            "at": _timestamp(datetime.fromtimestamp(record.created, UTC)),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info and record.exc_info[0] is not None:
            frames = traceback.extract_tb(record.exc_info[2])
            line["error"] = record.exc_info[0].__name__
            line["places"] = [f"{one.filename}:{one.lineno} {one.name}" for one in frames]
        return _JSON.encode(line)


class TerminalFormatter(logging.Formatter):
    """Formats a record for a terminal; exceptions by type only, as in the file."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record as one line."""
        exception = record.exc_info[0] if record.exc_info else None
        is_server_error = f" ({exception.__name__})" if exception else ""
        return inert(f"{record.getMessage()}{is_server_error}")


class TerminalHandler(logging.StreamHandler[TextIO]):
    """Writes warnings to stderr; records that cannot be written are dropped."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 as named there
        """Do nothing: the default traceback shows the contents of the record."""


class _PrivateFileHandler(RotatingFileHandler):
    """Creates files that only their owner can read; lines that cannot be written are dropped.

    Logging never raises into the call: an answer matters more than a log line.
    """

    _is_lost = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record; `Handler.handle` holds the lock."""
        self._put(partial(self.format, record))

    def put(self, line: Mapping[str, object]) -> None:
        """Write a line without creating a `LogRecord`, which costs more than the line."""
        self.acquire()
        try:
            self._put(partial(_JSON.encode, line))
        finally:
            self.release()

    def _put(self, written: Callable[[], str]) -> None:
        """Write a line, after rolling over if the file is full; formats it once."""
        try:
            line = f"{written()}{self.terminator}"
            self.stream = self.stream or self._open()
            if self.stream.tell() + len(line) >= self.maxBytes:
                self.doRollover()
            # After a rollover the next file is not open yet.
            self.stream = self.stream or self._open()
            self.stream.write(line)
            self.flush()
        except Exception:  # noqa: BLE001 a record holds what any caller gave
            self._warn_lost()
        else:
            self._is_lost = False

    def _warn_lost(self) -> None:
        """Warn once on stderr that lines are lost, and again after a line was written."""
        error = sys.exc_info()[0]
        if self._is_lost:
            return
        self._is_lost = True
        # Stderr may be closed.
        with suppress(AttributeError, OSError, ValueError):
            sys.stderr.write(f"The log cannot be written ({error and error.__name__}).\n")

    def _open(self) -> TextIOWrapper:
        """Open the file; characters without an encoding are written as escapes."""

        def make(path: str, flags: int) -> int:
            return os.open(path, flags, 0o600)

        name, mode, coding = self.baseFilename, self.mode, (self.encoding, self.errors)
        # The handler closes it.
        return cast("TextIOWrapper", open(name, mode, -1, *coding, opener=make))


class ServerLog(Telemetry):
    """The log file of one process in a shared folder."""

    def __init__(self, folder: Path, name: str) -> None:
        """Open the first file of this name that no other process uses.

        Raises:
            OSError: The folder is not writable.

        """
        make_private_folder(folder)
        self._lock, self.path = _lock_file(folder, name)
        self._handler = _PrivateFileHandler(
            self.path,
            maxBytes=_BYTES_MAX,
            backupCount=_FILES - 1,
            encoding="utf-8",
            delay=True,
            errors="backslashreplace",
        )
        self._handler.setFormatter(JsonLinesFormatter())
        self._errors: logging.Handler | None = None
        ours = logging.getLogger(ROOT_LOGGER)
        if not (ours.handlers or logging.getLogger().handlers):
            # Warnings that went to stderr before a handler was added still do.
            self._errors = TerminalHandler(sys.stderr)
            self._errors.setLevel(logging.WARNING)
            self._errors.setFormatter(TerminalFormatter())
            ours.addHandler(self._errors)
        ours.addHandler(self._handler)

    def called(self, event: ToolEvent, *, http_status: int) -> None:
        """Log a call: a server error as ERROR, a slow call as WARNING."""
        is_server_error = http_status >= _SERVER_ERROR
        level = "ERROR" if is_server_error else "WARNING" if event.is_slow else "INFO"
        # To the file only: a client that reads stderr has its answer already.
        line = {
            "at": _timestamp(datetime.now(UTC)),
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
        """Remove the handlers and release the file."""
        for handler in filter(None, (self._handler, self._errors)):
            logging.getLogger(ROOT_LOGGER).removeHandler(handler)
            # A stream on a full disk still has the lines that it could not write.
            with suppress(OSError):
                handler.close()
        self._lock.release()


def _lock_file(folder: Path, name: str) -> tuple[FileLock, Path]:
    """Lock the first unused file; the system releases the lock at process exit.

    Raises:
        OSError: Too many processes use this name.

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


def _timestamp(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds")
