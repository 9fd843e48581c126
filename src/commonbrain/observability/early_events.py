"""Events that came before their session was known, as JSON lines that several processes share."""

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
from commonbrain.model.limits import EARLY_EVENTS_KEPT_H, EARLY_EVENTS_MAX
from commonbrain.observability.tool_events import ToolEvent

_LOG: Final = logging.getLogger(__name__)
_OWNERS_ONLY: Final = 0o600
_WAIT_S: Final = 5.0
"""How long a process waits for others that are at the file: each is for some milliseconds."""
_POLL_S: Final = 0.005


@dataclass(frozen=True, slots=True)
class EarlyEventFile:
    """One file, which only its owner reads, under a lock that dies with its process."""

    path: Path
    clock: Clock

    def keep(self, event: ToolEvent) -> None:
        """Put an event behind the others, the oldest of which gives way when there are too many."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with self._locked():
                self._write([*self._waiting(), event][-EARLY_EVENTS_MAX:])
        except (OSError, TimeoutError) as error:
            _LOG.debug("an early event was lost: %s", type(error).__name__)

    def hand_over(
        self, tenant: str, agent: str, *, write: Callable[[Sequence[ToolEvent]], None]
    ) -> int:
        """Give an agent's events to what writes them, and forget them then; count them.

        Who dies in between leaves them to be written once more, which keeps each once.
        """
        if not self.path.exists():
            return 0
        try:
            with self._locked():
                waiting = self._waiting()
                own = [one for one in waiting if (one.tenant, one.agent) == (tenant, agent)]
                if own:
                    write(own)
                self._write([one for one in waiting if one not in own])
        except (OSError, TimeoutError) as error:
            _LOG.debug("early events wait on: %s", type(error).__name__)
            return 0
        return len(own)

    @contextmanager
    def _locked(self) -> Generator[None]:
        # Hardly ever is there anything to lock.
        from filelock import FileLock  # noqa: PLC0415

        with FileLock(
            f"{self.path}.lock", timeout=_WAIT_S, poll_interval=_POLL_S, mode=_OWNERS_ONLY
        ):
            yield

    def _waiting(self) -> list[ToolEvent]:
        """Read what is not too old; what another version or half a disk left is passed over."""
        if not self.path.exists():
            return []
        oldest = self.clock.now() - timedelta(hours=EARLY_EVENTS_KEPT_H)
        lines = self.path.read_text("utf-8", errors="replace").splitlines()
        events = [event for line in lines if (event := _read(line)) is not None]
        return [event for event in events if event.at >= oldest]

    def _write(self, events: Sequence[ToolEvent]) -> None:
        """Put the file in the place of the old one at once; no events, no file."""
        if not events:
            self.path.unlink(missing_ok=True)
            return
        beside = self.path.with_suffix(".new")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with os.fdopen(os.open(beside, flags, _OWNERS_ONLY), "w", encoding="utf-8") as file:
            file.writelines(f"{_line(event)}\n" for event in events)
        beside.replace(self.path)


def _line(event: ToolEvent) -> str:
    return json.dumps({**asdict(event), "at": event.at.isoformat()})


def _read(line: str) -> ToolEvent | None:
    try:
        given: dict[str, Any] = json.loads(line)
        given["at"] = datetime.fromisoformat(given["at"])
        return ToolEvent(**given)
    except (ValueError, TypeError, KeyError):
        return None
