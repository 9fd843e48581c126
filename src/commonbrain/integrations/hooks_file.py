"""Files that list a client's hooks; only our own entries are changed.

`HOOKS_FILES` is the table: to install hooks for another client, add a row.
"""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from commonbrain.hooks.table import HOOKS, LIMITS_S, Hook
from commonbrain.integrations.entry import SERVER
from commonbrain.integrations.json_clients import (
    QWEN_FILE,
    in_current_folder,
    in_home_folder,
    in_named_folder,
    object_member,
    parse_settings,
)
from commonbrain.integrations.json_text import JsonObject
from commonbrain.model.errors import InvalidInputError, RejectedError

_EVENTS: Final = "hooks"
"""The field that lists hooks by event, in all these files."""
_TIMEOUT_MARGIN_S: Final = 5
"""A hook ends in time by itself; the client's timeout is only a fallback."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookCommand:
    """The command with which a client starts our hooks."""

    brain: Sequence[str]
    options: Sequence[str] = ()
    """`--store` and `--agent`, if the user set them."""

    def words(self, hook: Hook) -> Sequence[str]:
        """Return the command line of one hook; the program expects `hook` as the first argument."""
        return (*self.brain, "hook", hook.client, hook.event, *self.options)


Shape = Callable[[Hook, Sequence[str]], Mapping[str, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class HooksFile:
    """Changes the hooks file of one client in place."""

    client: str
    files: Mapping[str, Callable[[], Path]]
    """The file of each scope."""
    shape: Shape
    """Formats an entry of an event's list."""
    head: Mapping[str, object] = field(default_factory=dict[str, object])
    """Other fields that the file must have."""
    has_comments: bool = False
    """Whether the client allows comments and trailing commas."""

    def add(self, text: str | None, command: HookCommand, *, path: Path) -> str:
        """Replace our entries and put them last in their lists.

        Raises:
            InvalidInputError: the text is not valid, or has an unexpected layout.

        """
        entries = {
            hook.native: self.shape(hook, command.words(hook))
            for hook in self.hooks
            if hook.is_installed
        }
        if text is None or not text.strip():
            new = {**self.head, _EVENTS: {name: [entry] for name, entry in entries.items()}}
            return json.dumps(new, ensure_ascii=False, indent=2) + "\n"
        members: Mapping[str, object] = {**self.head, _EVENTS: {}}
        for name, value in members.items():
            whole = self._parse(text, path)
            text = text if whole.find(name) else whole.with_member(name, value)
        for name in dict.fromkeys(hook.native for hook in self.hooks):
            text = self._with_event(text, name, entry=entries.get(name), path=path)
        return text

    def remove(self, text: str, *, path: Path) -> str:
        """Remove our entries, and lists that are then empty.

        Raises:
            InvalidInputError: the text is not valid, or has an unexpected layout.

        """
        if not text.strip() or self._parse(text, path).find(_EVENTS) is None:
            return text
        for hook in self.hooks:
            text = self._with_event(text, hook.native, entry=None, path=path)
        return text

    @property
    def hooks(self) -> Sequence[Hook]:
        """The hooks of this client."""
        every = (hook for hook in HOOKS.values() if hook.client == self.client)
        return [hook for hook in every if hook.is_installed]

    def _with_event(
        self, text: str, name: str, *, entry: Mapping[str, object] | None, path: Path
    ) -> str:
        events = object_member(self._parse(text, path), _EVENTS, path=path)
        current = events.find(name)
        if current is None:
            return events.with_member(name, [entry]) if entry else text
        value = current.value
        if not isinstance(value, list):
            raise InvalidInputError(
                f"{name} in {path} is not a list.", hint="The file is unchanged."
            )
        listed = cast("list[object]", value)
        expected = [*self._without_own(listed), *([entry] if entry else [])]
        if expected == listed:
            return text
        return events.with_value(current, expected) if expected else events.without(current)

    def _parse(self, text: str, path: Path) -> JsonObject:
        return parse_settings(text, path, has_comments=self.has_comments)

    def _without_own(self, listed: Sequence[object]) -> list[object]:
        """Remove our handlers from a list of handlers, or of groups of handlers."""
        remaining: list[object] = []
        for one in listed:
            group = _handlers(one)
            if group is None:
                remaining += [] if self._is_ours(one) else [one]
                continue
            other_handlers = [handler for handler in group if not self._is_ours(handler)]
            if len(other_handlers) == len(group):
                remaining.append(one)
            elif other_handlers:
                remaining.append({**cast("dict[str, object]", one), _EVENTS: other_handlers})
        return remaining

    def _is_ours(self, handler: object) -> bool:
        words = _command_words(handler)
        return any(
            words[position : position + 2] == ["hook", self.client] and _is_brain(words[:position])
            for position in range(1, len(words))
        )


def _is_brain(words: Sequence[str]) -> bool:
    return any(Path(word).stem in {"brain", "commonbrain"} for word in words)


def _command_words(handler: object) -> list[str]:
    command_line = cast("dict[str, Any]", handler) if isinstance(handler, dict) else {}
    command, arguments = command_line.get("command"), command_line.get("args", [])
    if not isinstance(command, str) or not isinstance(arguments, list):
        return []
    if arguments:
        return [command, *map(str, cast("list[object]", arguments))]
    try:
        return shlex.split(command, posix=os.name != "nt")
    except ValueError:
        return []


def _handlers(one: object) -> list[object] | None:
    nested = cast("dict[str, object]", one).get(_EVENTS) if isinstance(one, dict) else None
    return cast("list[object]", nested) if isinstance(nested, list) else None


_STATUS_LINE: Final = "statusLine"
STATUS_COMMAND: Final = "statusline"


def with_status_line(text: str | None, brain: Sequence[str], *, path: Path, force: bool) -> str:
    """Add our status line to the settings of Claude Code.

    Raises:
        InvalidInputError: the text is not valid.
        RejectedError: there is another one, and `force` is not set.

    """
    ours = {"type": "command", "command": _shell([*brain, STATUS_COMMAND])}
    if text is None or not text.strip():
        return json.dumps({_STATUS_LINE: ours}, ensure_ascii=False, indent=2) + "\n"
    settings = parse_settings(text, path, has_comments=False)
    existing = settings.find(_STATUS_LINE)
    if existing is None:
        return settings.with_member(_STATUS_LINE, ours)
    if existing.value == ours:
        return text
    if not (force or _is_own_status(existing.value)):
        raise RejectedError(
            f"{path} has a status line of yours.",
            code="connect_conflict",
            hint="Use --force to replace it, or leave out --status-line.",
        )
    return settings.with_value(existing, ours)


def without_status_line(text: str, *, path: Path) -> str:
    """Remove our status line, and leave another one."""
    if not text.strip():
        return text
    settings = parse_settings(text, path, has_comments=False)
    existing = settings.find(_STATUS_LINE)
    return settings.without(existing) if existing and _is_own_status(existing.value) else text


def _is_own_status(value: object) -> bool:
    words = _command_words(value)
    return words[-1:] == [STATUS_COMMAND] and _is_brain(words[:-1])


def _timeout_s(hook: Hook) -> int:
    return int(LIMITS_S[hook.action][1]) + _TIMEOUT_MARGIN_S


def _shell(words: Sequence[str]) -> str:
    """Quote a command line for the client's shell; all its words are ours."""
    return subprocess.list2cmdline(words) if sys.platform == "win32" else shlex.join(words)


def _without_shell(hook: Hook, words: Sequence[str]) -> Mapping[str, object]:
    handler = {
        "type": "command",
        "command": words[0],
        "args": list(words[1:]),
        "timeout": _timeout_s(hook),
    }
    return _group(hook, handler)


def _grouped(hook: Hook, words: Sequence[str]) -> Mapping[str, object]:
    handler = {"type": "command", "command": _shell(words), "timeout": _timeout_s(hook)}
    return _group(hook, handler)


def _in_milliseconds(hook: Hook, words: Sequence[str]) -> Mapping[str, object]:
    handler = {
        "name": SERVER,
        "type": "command",
        "command": _shell(words),
        "timeout": _timeout_s(hook) * 1000,
    }
    return _group(hook, handler)


def _group(hook: Hook, handler: Mapping[str, object]) -> Mapping[str, object]:
    return {**({"matcher": hook.tools} if hook.tools else {}), "hooks": [handler]}


def _as_is(hook: Hook, words: Sequence[str]) -> Mapping[str, object]:
    return {"command": _shell(words), **({"matcher": hook.tools} if hook.tools else {})}


def _in_seconds(hook: Hook, words: Sequence[str]) -> Mapping[str, object]:
    return {"type": "command", **_as_is(hook, words), "timeoutSec": _timeout_s(hook)}


_ROWS: Final = (
    HooksFile(
        client="claude-code",
        files={
            "user": in_named_folder("CLAUDE_CONFIG_DIR", ".claude", "settings.json"),
            "project": in_current_folder(".claude", "settings.json"),
        },
        shape=_without_shell,
    ),
    HooksFile(
        client="codex",
        files={"user": in_named_folder("CODEX_HOME", ".codex", "hooks.json")},
        shape=_grouped,
    ),
    HooksFile(
        client="cursor",
        files={
            "user": in_home_folder(".cursor", "hooks.json"),
            "project": in_current_folder(".cursor", "hooks.json"),
        },
        shape=_as_is,
        head={"version": 1},
    ),
    HooksFile(
        client="gemini",
        files={
            "user": in_home_folder(".gemini", "settings.json"),
            "project": in_current_folder(".gemini", "settings.json"),
        },
        shape=_in_milliseconds,
        has_comments=True,
    ),
    HooksFile(
        client="qwen",
        files={"user": QWEN_FILE, "project": in_current_folder(".qwen", "settings.json")},
        shape=_in_milliseconds,
        has_comments=True,
    ),
    HooksFile(
        client="copilot",
        files={"user": in_named_folder("COPILOT_HOME", ".copilot", "hooks", f"{SERVER}.json")},
        shape=_in_seconds,
        head={"version": 1},
    ),
)
HOOKS_FILES: Final[Mapping[str, HooksFile]] = {row.client: row for row in _ROWS}
