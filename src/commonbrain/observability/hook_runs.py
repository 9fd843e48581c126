"""Runs of hooks: what each showed, as a tool event; when they ran here, and what they searched.

Most hooks find nothing to do before they open the store, so that only files can say that they ran.
Nothing here may stop a hook: what cannot be written is not recorded.
"""

import os
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from time import time
from typing import Final

from commonbrain.folders import default_state, make_private_folder, name_digest
from commonbrain.model import ids
from commonbrain.model.limits import EVENT_ARGS_CHARS_MAX
from commonbrain.model.values import dataclass
from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.tokens import estimate

HOOK_TRANSPORT: Final = "hook"
"""The transport of the events of hooks."""
_PREFIX: Final = "hook."
_MEMORY: Final = lazy_pattern(rf"\b{ids.MEMORY}_[0-9A-HJKMNP-TV-Z]{{13}}\b")
_ARGS: Final = lazy_pattern(r"(?:shown=(\d+) )?tokens=(\d+)(?: ids=([\w,]+))?")
_IDS_MAX: Final = 3


def hook_tool(client: str, event: str) -> str:
    """Return the name of a hook as a tool."""
    return f"{_PREFIX}{client}.{event}"


def hook_of(tool: str) -> tuple[str, str]:
    """Return client and event of the name of a hook."""
    client, _, event = tool.removeprefix(_PREFIX).partition(".")
    return client, event


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCounts:
    """What one run of a hook showed, or of another call how many tokens."""

    memories: int = 0
    tokens: int = 0
    ids: tuple[str, ...] = ()
    """The first three of them."""

    @classmethod
    def of(cls, text: str) -> "ShownCounts":
        """Read it from the text that the client's model gets."""
        named = tuple(dict.fromkeys(_MEMORY.findall(text)))
        tokens = estimate(text) if text else 0
        return cls(memories=len(named), tokens=tokens, ids=named[:_IDS_MAX])

    @classmethod
    def read(cls, args: str) -> "ShownCounts":
        """Read it from the arguments of an event; nothing if they are of another form."""
        match = _ARGS.match(args)
        if match is None:
            return cls()
        memories, tokens, named = match.groups()
        return cls(
            memories=int(memories or 0),
            tokens=int(tokens),
            ids=tuple(named.split(",")) if named else (),
        )

    @property
    def args(self) -> str:
        """The arguments of its event, in `EVENT_ARGS_CHARS_MAX` characters."""
        line = f"shown={self.memories} tokens={self.tokens}"
        for count in range(len(self.ids), 0, -1):
            whole = f"{line} ids={','.join(self.ids[:count])}"
            if len(whole) <= EVENT_ARGS_CHARS_MAX:
                return whole
        return line


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
_FAILURES: Final = "failures"
_SHOWN: Final = ".shown"
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
                drop_old(path.parent)
            with path.open("a", encoding="ascii") as lines:
                lines.writelines(f"{_digest(file)}\n" for file in files)

    def add_shown(self, session: str, memories: int) -> None:
        """Record that a session was shown memories: a byte for each."""
        path = self._session(session)
        if path is None or not memories:
            return
        with suppress(OSError):
            make_private_folder(path.parent)
            with path.with_suffix(_SHOWN).open("ab") as file:
                file.write(b"." * memories)

    def shown(self, session: str) -> int:
        """Count the memories that a session was shown."""
        path = self._session(session)
        with suppress(OSError):
            return path.with_suffix(_SHOWN).stat().st_size if path else 0
        return 0

    def forget(self, session: str) -> None:
        """Let a session search for every file again."""
        path = self._session(session)
        if path is not None:
            with suppress(OSError):
                path.unlink(missing_ok=True)

    def failures(self, session: str) -> Path | None:
        """Return the file of the failed commands of a session; None if none is kept."""
        return self.folder / _FAILURES / _digest(session) if self.folder and session else None

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


def drop_old(folder: Path) -> None:
    """Delete the files of sessions of which nothing was heard for a week."""
    oldest = time() - _SESSION_S_MAX
    for entry in list(os.scandir(folder))[:_SESSIONS_MAX]:
        if entry.stat().st_mtime < oldest:
            Path(entry.path).unlink(missing_ok=True)


def _digest(text: str) -> str:
    return name_digest(text, chars=24)


def state_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder of the marks, before the settings are loaded."""
    given = environment.get("COMMONBRAIN_STATE", "")
    return (Path(given).expanduser() if given else default_state()) / HOOKS_FOLDER
