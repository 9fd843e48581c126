"""Failures with their fixes as memories: their text, and the marks by which they are found."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from commonbrain.model.attachments import attachment_in
from commonbrain.model.values import dataclass

if TYPE_CHECKING:
    from commonbrain.model.memory import Memory

FAILURE_LABEL: Final = "failure"
"""The label of failures that were captured with their fix."""
FAILURE_KEY: Final = "failure"
"""The member of their attachment."""
_ERROR_CHARS_MAX: Final = 240
_COMMAND_CHARS_MAX: Final = 120
_NAMED_MAX: Final = 3
_LINES_MAX: Final = 6
_NAME: Final = re.compile(r"[a-z0-9][\w-]{0,31}", re.ASCII | re.IGNORECASE)
"""A word that is no path, address, sentence or further command."""
_FILE_NAME: Final = re.compile(r"[\w.+-]{1,32}", re.ASCII)
_MANAGER: Final = (
    r"(?:pip3?|uv(?: pip)?|poetry|pipenv|pdm|conda|npm|pnpm|yarn|bun|go(?: mod)?|cargo|gem|bundle"
    r"|composer|brew|apt(?:-get)?|apk|dnf) "
    r"(?:install|i|ci|add|get|require|update|upgrade|sync|tidy|lock|download|restore|remove)"
)
_PACKAGE: Final = (
    rf"(?:-D|-U|-y|--dev|--save-dev|--upgrade|(?:@[a-z\d-]{{1,32}}/)?{_NAME.pattern})"
    r"(?=[ =<>~\[@]|$)"
)
_WORD: Final = r"[a-z][a-z\d-]{0,15}(?!\S)"
_COMMAND: Final = re.compile(
    # More than three words in a row may be a sentence.
    r"(?:cd \S+ && )?+((?:sudo )?"
    rf"(?:{_MANAGER}(?!\S)(?: {_PACKAGE}){{0,3}}|{_WORD}(?: {_WORD})?))(.*)",
    re.ASCII | re.IGNORECASE,
)
"""The program, what it does, and packages if it manages them; then the rest of a command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedFailure:
    """A command that failed, and what made it pass."""

    command: str = ""
    excerpt: str = ""
    """The lines that name the error, as they were printed."""
    files: tuple[str, ...] = ()
    """Files that were edited."""
    commands: tuple[str, ...] = ()
    """Commands that installed or configured something."""
    lines: tuple[str, ...] = ()
    """The first lines that the edits removed and added."""

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> FixedFailure:
        """Read one from JSON; what has another form is left out."""
        listed = (given.get(name) for name in ("files", "commands", "lines"))
        files, commands, lines = (
            tuple(map(str, cast("list[object]", one))) if isinstance(one, list | tuple) else ()
            for one in listed
        )
        return cls(
            command=str(given.get("command", "")),
            excerpt=str(given.get("excerpt", "")),
            files=files,
            commands=commands,
            lines=lines,
        )

    @property
    def text(self) -> str:
        """The text of its memory, for a reader who was not there."""
        error = self.excerpt.partition("\n")[0][:_ERROR_CHARS_MAX]
        command = self.command[:_COMMAND_CHARS_MAX]
        lines = self.lines[:_LINES_MAX]
        fix = f"It passed after {self._fix}{':' if lines else '.'}"
        return "\n".join([f"`{command}` failed: {error}", fix, *lines])

    @property
    def headline(self) -> str:
        """What failed, and what fixed it, in one line."""
        program = " ".join(self.command.split()[:3])
        return f"`{program}` failed, and passed after {self._fix}"

    @property
    def text_elsewhere(self) -> str:
        """What other projects are shown: names alone, as the rest may be written to mislead them.

        It is empty if there are none.
        """
        files = [name for name in map(_last_part, self.files) if _FILE_NAME.fullmatch(name)]
        commands = [name for name in map(_named_part, self.commands) if name]
        if not files and not commands:
            return ""
        return f"A command that failed like this passed after {_described(files, commands)}."

    @property
    def attachment(self) -> Mapping[str, object]:
        """What a program needs to know it again."""
        fix = {"files": list(self.files), "commands": list(self.commands)}
        return {FAILURE_KEY: {"command": self.command, "excerpt": self.excerpt, **fix}}

    def has_fix_of(self, other: FixedFailure) -> bool:
        """Return whether one of its edits or commands is one of another failure's, too."""
        names = {*map(_last_part, self.files), *self.commands}
        return not names.isdisjoint({*map(_last_part, other.files), *other.commands})

    @property
    def _fix(self) -> str:
        return _described(self.files, self.commands)


def name_elsewhere(name: str) -> str | None:
    """Return a name as other projects are shown it; None if it may mislead them."""
    return name if _NAME.fullmatch(name) else None


def failure_in(memory: Memory) -> FixedFailure:
    """Return the failure that a memory is about; an empty one if it is about none."""
    given = (attachment_in(memory.payload) or {}).get(FAILURE_KEY)
    if not isinstance(given, Mapping):
        return FixedFailure()
    return FixedFailure.read(cast("Mapping[str, Any]", given))


def failure_marks(attachment: Mapping[str, object] | None) -> Sequence[str]:
    """Return the topics under which a draft with this attachment is looked up; mostly none."""
    given = attachment.get(FAILURE_KEY) if attachment else None
    if not isinstance(given, Mapping):
        return ()
    # Most memories are about no failure.
    from commonbrain.text.failures import marks, read_failure  # noqa: PLC0415

    failure = read_failure(str(cast("Mapping[str, object]", given).get("excerpt", "")))
    return () if failure is None else marks(failure)


def _described(files: Sequence[str], commands: Sequence[str]) -> str:
    ran = [f"`{one}`" for one in commands[-_NAMED_MAX:]]
    edits = f"an edit of {_listed(files[-_NAMED_MAX:])}" if files else ""
    return _listed([*ran, *([edits] if edits else [])])


def _listed(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def _named_part(command: str) -> str:
    """Return a command up to the first word that other projects are not shown."""
    known = _COMMAND.match(" ".join(command.split()))
    if known is None:
        return ""
    return f"{known[1]} ..." if known[2] else known[1]


def _last_part(path: str) -> str:
    return path.rpartition("/")[2]
