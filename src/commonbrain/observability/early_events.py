"""Events that precede their session, as JSON lines that several processes share."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from commonbrain.clock import Clock
from commonbrain.model.limits import EARLY_EVENTS_MAX, EARLY_EVENTS_RETENTION_H
from commonbrain.observability.tool_events import ToolEvent

_LOG: Final = logging.getLogger(__name__)
_OWNER_ONLY: Final = 0o600
_WAIT_S: Final = 5.0
"""Timeout for the lock; each process holds it for some milliseconds."""
_POLL_S: Final = 0.005


@dataclass(frozen=True, slots=True)
class EarlyEventFile:
    """A file that only its owner can read, under a lock that ends with its process."""

    path: Path
    clock: Clock

    def put(self, event: ToolEvent) -> None:
        """Append an event; when the file is full, the oldest is dropped."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with self._lock():
                self._write([*self._read_events(), event][-EARLY_EVENTS_MAX:])
        except (OSError, TimeoutError) as error:
            _LOG.debug("an early event was lost: %s", type(error).__name__)

    def drain(
        self, tenant: str, agent: str, *, write: Callable[[Sequence[ToolEvent]], None]
    ) -> int:
        """Pass an agent's events to `write`, remove them and return their number.

        If the process dies in between, they are written again; the store ignores repeated events.
        """
        if not self.path.exists():
            return 0
        try:
            with self._lock():
                queued = self._read_events()
                own = [one for one in queued if (one.tenant, one.agent) == (tenant, agent)]
                if own:
                    write(own)
                self._write([one for one in queued if one not in own])
        except (OSError, TimeoutError) as error:
            _LOG.debug("early events stay queued: %s", type(error).__name__)
            return 0
        return len(own)

    @contextmanager
    def _lock(self) -> Generator[None]:
        # Most calls find no file and need no lock.
        from filelock import FileLock  # noqa: PLC0415

        with FileLock(
            f"{self.path}.lock", timeout=_WAIT_S, poll_interval=_POLL_S, mode=_OWNER_ONLY
        ):
            yield

    def _read_events(self) -> list[ToolEvent]:
        """Read the recent events; lines that cannot be parsed are skipped."""
        if not self.path.exists():
            return []
        oldest = self.clock.now() - timedelta(hours=EARLY_EVENTS_RETENTION_H)
        lines = self.path.read_text("utf-8", errors="replace").splitlines()
        events = [event for line in lines if (event := _parse_line(line)) is not None]
        return [event for event in events if event.at >= oldest]

    def _write(self, events: Sequence[ToolEvent]) -> None:
        """Replace the file atomically; without events, delete it."""
        if not events:
            self.path.unlink(missing_ok=True)
            return
        new = self.path.with_suffix(".new")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with os.fdopen(os.open(new, flags, _OWNER_ONLY), "w", encoding="utf-8") as file:
            file.writelines(f"{_format_line(event)}\n" for event in events)
        new.replace(self.path)


def _format_line(event: ToolEvent) -> str:
    return json.dumps({**asdict(event), "at": event.at.isoformat()})


def _parse_line(line: str) -> ToolEvent | None:
    try:
        given: dict[str, Any] = json.loads(line)
        given["at"] = datetime.fromisoformat(given["at"])
        return ToolEvent(**given)
    except (ValueError, TypeError, KeyError):
        return None
