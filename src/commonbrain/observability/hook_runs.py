"""When hooks of clients ran on this machine, and which files a session has searched for.

Most hooks find nothing to do before they open the store, so that only files can say that they ran.
Nothing here may stop a hook: what cannot be written is not recorded.
"""

import hashlib
import os
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from time import time
from typing import Final

from commonbrain.folders import make_private_folder
from commonbrain.model.values import dataclass

HOOKS_FOLDER: Final = "hooks"
"""The folder of the marks, in that of the state."""
_CONNECTED: Final = "connected"
"""The name of the mark that `brain connect --hooks` sets, in place of an event's."""
TIMED_OUT: Final = "timed-out"
"""The outcome of a hook whose time was over before it had an answer."""
BY_WORDS: Final = "by-words"
"""The outcome of a prompt that was searched by words alone, because the model was not loaded."""
_OUTCOMES: Final = "outcomes"
"""The file of the outcomes, without a dot as marks have it."""
_SESSIONS: Final = "sessions"
_SESSION_S_MAX: Final = 7 * 86_400
_SESSIONS_MAX: Final = 1000
"""Files of sessions that one call may delete."""
_BYTES_MAX: Final = 65_536
"""Of the files that a session has searched for, and of outcomes, which fill two such files."""


@dataclass(frozen=True, slots=True)
class HookRuns:
    """Marks of the hooks of one user on this machine; without a folder, none are kept."""

    folder: Path | None = None

    def note(self, client: str, event: str) -> None:
        """Record that a hook runs now."""
        self._touch(f"{client}.{event}")

    def connected(self, client: str) -> None:
        """Record that a client was connected with hooks now."""
        self._touch(f"{client}.{_CONNECTED}")

    def disconnected(self, client: str) -> None:
        """Remove the marks of a client."""
        with suppress(OSError):
            for path in self._marks(client):
                path.unlink(missing_ok=True)

    def last(self) -> Mapping[tuple[str, str], datetime]:
        """Return when each hook last ran, by client and event."""
        return {key: at for key, at in self._times().items() if key[1] != _CONNECTED}

    def clients(self) -> Mapping[str, datetime]:
        """Return when each client was connected or last ran a hook, whichever is later."""
        latest: dict[str, datetime] = {}
        for (client, _), at in self._times().items():
            latest[client] = max(at, latest.get(client, at))
        return latest

    def count(self, client: str, event: str, *, outcome: str) -> None:
        """Record the outcome of a hook now; the oldest are dropped once there are thousands."""
        if self.folder is None:
            return
        path = self.folder / _OUTCOMES
        with suppress(OSError):
            make_private_folder(self.folder)
            if path.exists() and path.stat().st_size >= _BYTES_MAX:
                path.replace(path.with_name(f"{_OUTCOMES}-before"))
            with path.open("a", encoding="ascii") as lines:
                lines.write(f"{time():.0f} {client} {event} {outcome}\n")

    def outcomes(self, since: datetime) -> Counter[tuple[str, str, str]]:
        """Count what was recorded since a time, by client, event and outcome."""
        counts: Counter[tuple[str, str, str]] = Counter()
        if self.folder is None:
            return counts
        for path in (self.folder / _OUTCOMES, self.folder / f"{_OUTCOMES}-before"):
            with suppress(OSError, ValueError), path.open(encoding="ascii") as lines:
                for line in lines:
                    at, client, event, outcome = line.split()
                    counts[client, event, outcome] += float(at) >= since.timestamp()
        return counts

    def has_searched(self, session: str, file: str) -> bool:
        """Return whether a session has searched for a file."""
        path = self._session(session)
        if path is None:
            return False
        with suppress(OSError), path.open("rb") as lines:
            return _digest(file).encode() in lines.read(_BYTES_MAX).split()
        return False

    def mark_searched(self, session: str, files: tuple[str, ...]) -> None:
        """Record that a session has searched for files."""
        path = self._session(session)
        if path is None or not session:
            return
        with suppress(OSError):
            make_private_folder(path.parent)
            if not path.exists():
                self._drop_old(path.parent)
            with path.open("a", encoding="ascii") as lines:
                lines.writelines(f"{_digest(file)}\n" for file in files)

    def forget(self, session: str) -> None:
        """Let a session search for every file again."""
        path = self._session(session)
        if path is not None:
            with suppress(OSError):
                path.unlink(missing_ok=True)

    def _touch(self, name: str) -> None:
        if self.folder is None:
            return
        with suppress(OSError):
            make_private_folder(self.folder)
            (self.folder / name).touch()

    def _marks(self, client: str = "") -> list[Path]:
        if self.folder is None:
            return []
        with suppress(OSError):
            return [one for one in self.folder.glob(f"{client or '*'}.*") if one.is_file()]
        return []

    def _times(self) -> Mapping[tuple[str, str], datetime]:
        times: dict[tuple[str, str], datetime] = {}
        for path in self._marks():
            client, _, event = path.name.partition(".")
            with suppress(OSError):
                times[client, event] = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        return times

    def _session(self, session: str) -> Path | None:
        return self.folder / _SESSIONS / _digest(session) if self.folder and session else None

    def _drop_old(self, folder: Path) -> None:
        oldest = time() - _SESSION_S_MAX
        for entry in list(os.scandir(folder))[:_SESSIONS_MAX]:
            if entry.stat().st_mtime < oldest:
                Path(entry.path).unlink(missing_ok=True)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:24]


def state_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder of the marks, before the settings are loaded."""
    given = environment.get("COMMONBRAIN_STATE", "")
    if given:
        return Path(given).expanduser() / HOOKS_FOLDER
    # Only needed without a setting.
    from platformdirs import user_state_path  # noqa: PLC0415

    return user_state_path("commonbrain", appauthor=False) / HOOKS_FOLDER
