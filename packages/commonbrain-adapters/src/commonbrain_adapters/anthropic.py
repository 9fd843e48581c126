"""Anthropic's memory tool over a brain: the files of its folder are memories.

The commands and the texts of their replies are those of the documentation,
platform.claude.com/docs/en/agents-and-tools/tool-use/memory-tool; the interface is that of
anthropics/anthropic-sdk-python, `lib/tools/_beta_builtin_memory_tool.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import RLock
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from commonbrain.client import Brain
from commonbrain.extras import extra_missing
from commonbrain.model.errors import CommonbrainError
from commonbrain.model.limits import TEXT_BYTES_MAX
from commonbrain_adapters.keyed_values import KeyedValues, NewValue, Path, StoredValue

try:
    from anthropic.lib.tools import (
        BetaAbstractMemoryTool,
        BetaAsyncAbstractMemoryTool,
        ToolError,
    )
except ImportError as error:
    raise extra_missing("anthropic", extra="anthropic") from error

if TYPE_CHECKING:
    from anthropic.types.beta import (
        BetaMemoryTool20250818CreateCommand,
        BetaMemoryTool20250818DeleteCommand,
        BetaMemoryTool20250818InsertCommand,
        BetaMemoryTool20250818RenameCommand,
        BetaMemoryTool20250818StrReplaceCommand,
        BetaMemoryTool20250818ViewCommand,
    )

FRAMEWORK: Final = "claude-memory"
ROOT: Final = "/memories"
_TEXT: Final = "text"
"""The name of a file's text in its value."""
_LEVELS: Final = 2
"""Levels of folders that a view shows."""
_NUMBER_WIDTH: Final = 6
_AROUND: Final = 2
"""Lines shown before and after a replacement."""


class CommonbrainMemoryTool(BetaAbstractMemoryTool):
    """The memory tool whose files are memories of a brain; pass it to `tool_runner(tools=[...])`.

    A file is one memory, found by recall as others are. An edit supersedes it, deleting forgets
    it: both can be undone. Files belong to the project of the brain.

    Commands raise `ToolError` with a text for the model. Over a file that holds a secret or is
    larger than 256 KiB, nothing is stored.
    """

    def __init__(self, brain: Brain) -> None:
        """Create the tool; nothing is stored yet."""
        super().__init__()
        self._files = MemoryFiles(KeyedValues(brain.as_model(), FRAMEWORK))

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """Return a listing of a folder, or the numbered lines of a file."""
        return self._files.view(command.path, command.view_range)

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Create a file, which must not exist."""
        return self._files.create(command.path, command.file_text)

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace a text that occurs once in a file."""
        return self._files.str_replace(command.path, command.old_str, new=command.new_str)

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Insert lines after a line of a file; after line 0 means at its top."""
        return self._files.insert(command.path, command.insert_line, text=command.insert_text)

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Delete a file, or a folder with all that is in it."""
        return self._files.delete(command.path)

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Rename or move a file or folder to a path that does not exist."""
        return self._files.rename(command.old_path, command.new_path)

    def clear_all_memory(self) -> str:
        """Delete all files."""
        return self._files.clear()


class AsyncCommonbrainMemoryTool(BetaAsyncAbstractMemoryTool):
    """`CommonbrainMemoryTool` for asynchronous clients; its commands run in threads."""

    def __init__(self, brain: Brain) -> None:
        """Create the tool; nothing is stored yet."""
        super().__init__()
        self._tool = CommonbrainMemoryTool(brain)

    async def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """Return a listing of a folder, or the numbered lines of a file."""
        return await asyncio.to_thread(self._tool.view, command)

    async def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Create a file, which must not exist."""
        return await asyncio.to_thread(self._tool.create, command)

    async def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace a text that occurs once in a file."""
        return await asyncio.to_thread(self._tool.str_replace, command)

    async def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Insert lines after a line of a file; after line 0 means at its top."""
        return await asyncio.to_thread(self._tool.insert, command)

    async def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Delete a file, or a folder with all that is in it."""
        return await asyncio.to_thread(self._tool.delete, command)

    async def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Rename or move a file or folder to a path that does not exist."""
        return await asyncio.to_thread(self._tool.rename, command)

    async def clear_all_memory(self) -> str:
        """Delete all files."""
        return await asyncio.to_thread(self._tool.clear_all_memory)


@dataclass(frozen=True, slots=True)
class MemoryFiles:
    """The commands of the memory tool on text files, which are keyed values."""

    values: KeyedValues
    _lock: RLock = field(default_factory=RLock)

    def view(self, path: str, lines: Sequence[int] | None) -> str:
        """List a folder, or show the lines from the first to the second of `lines`."""
        place = _place(path)
        text = self._text(place)
        if text is not None:
            shown = "\n".join(_numbered(text.split("\n"), lines))
            return f"Here's the content of {path} with line numbers:\n{shown}"
        files = self._below(place)
        if place and not files:
            raise ToolError(f"The path {path} does not exist. Please provide a valid path.")
        heading = (
            f"Here're the files and directories up to {_LEVELS} levels deep in {path}, "
            "excluding hidden items and node_modules:"
        )
        return "\n".join([heading, *_listing(_path(place), files, depth=len(place))])

    def create(self, path: str, text: str) -> str:
        """Store a new file."""
        place = _place(path)
        with self._lock:
            if self._exists(place):
                raise ToolError(f"Error: File {path} already exists")
            self._check_parents(place)
            self._put([(place, text)])
        return f"File created successfully at: {path}"

    def str_replace(self, path: str, old: str, *, new: str) -> str:
        """Replace the only occurrence of a text."""
        place = _place(path)
        with self._lock:
            text = self._text(place)
            if text is None:
                raise ToolError(
                    f"Error: The path {path} does not exist. Please provide a valid path."
                )
            begins = list(_occurrences(text, old))
            if not begins:
                raise ToolError(
                    f"No replacement was performed, old_str `{old}` did not appear verbatim in "
                    f"{path}."
                )
            numbers = [text.count("\n", 0, begin) + 1 for begin in begins]
            if len(begins) > 1:
                raise ToolError(
                    f"No replacement was performed. Multiple occurrences of old_str `{old}` in "
                    f"lines: {', '.join(map(str, numbers))}. Please ensure it is unique"
                )
            [begin] = begins
            changed = text[:begin] + new + text[begin + len(old) :]
            self._put([(place, changed)])
        around = [max(1, numbers[0] - _AROUND), numbers[0] + new.count("\n") + _AROUND]
        snippet = "\n".join(_numbered(changed.split("\n"), around))
        return (
            "The memory file has been edited. Here is the snippet showing the change "
            f"(with line numbers):\n{snippet}"
        )

    def insert(self, path: str, line: int, *, text: str) -> str:
        """Insert lines after a line."""
        place = _place(path)
        with self._lock:
            before = self._text(place)
            if before is None:
                raise ToolError(f"Error: The path {path} does not exist")
            lines = before.removesuffix("\n").split("\n") if before else []
            if not 0 <= line <= len(lines):
                raise ToolError(
                    f"Error: Invalid `insert_line` parameter: {line}. It should be within the "
                    f"range of lines of the file: [0, {len(lines)}]"
                )
            lines.insert(line, text.removesuffix("\n"))
            self._put([(place, "\n".join(lines) + "\n")])
        return f"The file {path} has been edited."

    def delete(self, path: str) -> str:
        """Delete a file, or all files of a folder."""
        place = _place(path)
        if not place:
            raise ToolError(f"Error: Cannot delete the {ROOT} directory itself")
        with self._lock:
            known = self._known(place)
            if not known:
                raise ToolError(f"Error: The path {path} does not exist")
            self._delete(known)
        return f"Successfully deleted {path}"

    def rename(self, old_path: str, new_path: str) -> str:
        """Move a file, or all files of a folder."""
        old, new = _place(old_path), _place(new_path)
        if not old:
            raise ToolError(f"Error: Cannot rename the {ROOT} directory itself")
        with self._lock:
            known = self._known(old)
            if not known:
                raise ToolError(f"Error: The path {old_path} does not exist")
            if self._exists(new):
                raise ToolError(f"Error: The destination {new_path} already exists")
            if new[: len(old)] == old:
                raise ToolError(f"Error: Cannot move {old_path} into itself")
            self._check_parents(new)
            self._put([(new + _name(one)[len(old) :], _text_of(one)) for one in known])
            self._delete(known)
        return f"Successfully renamed {old_path} to {new_path}"

    def clear(self) -> str:
        """Delete all files."""
        with self._lock:
            self._delete(self._below(()))
        return "All memory cleared"

    def _text(self, place: Path) -> str | None:
        stored = self.values.get(place[:-1], place[-1], bump=True) if place else None
        return None if stored is None else _text_of(stored)

    def _exists(self, place: Path) -> bool:
        return not place or bool(self._known(place))

    def _known(self, place: Path) -> list[StoredValue]:
        """Return the file at a place, or else the files of the folder there."""
        stored = self.values.get(place[:-1], place[-1])
        return self._below(place) if stored is None else [stored]

    def _below(self, place: Path) -> list[StoredValue]:
        return sorted(self.values.below(place), key=_name)

    def _check_parents(self, place: Path) -> None:
        for depth in range(1, len(place)):
            if self.values.get(place[: depth - 1], place[depth - 1]) is not None:
                raise ToolError(f"Error: {_path(place[:depth])} is a file, not a directory")

    def _put(self, files: Sequence[tuple[Path, str]]) -> None:
        new = [
            NewValue(path=place[:-1], key=place[-1], value={_TEXT: text}, text=_findable(text))
            for place, text in files
        ]
        _for_model(lambda: self.values.put(new))

    def _delete(self, files: Sequence[StoredValue]) -> None:
        for one in files:
            _for_model(lambda one=one: self.values.delete(one.path, one.key))


def _place(path: str) -> Path:
    """Return the names of a path below the root.

    Raises:
        ToolError: it is outside the root, or has a part such as `..`, encoded or not.

    """
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise ToolError(f"Error: Path must start with {ROOT}, got: {path}")
    names = tuple(name for name in path.removeprefix(ROOT).split("/") if name)
    for name in names:
        plain = unquote(unquote(name))
        if plain.strip() in {".", ".."} or set(plain) & set("/\\\0"):
            raise ToolError(f"Error: Path {path} would escape {ROOT} directory")
    return names


def _path(place: Path) -> str:
    return "/".join((ROOT, *place))


def _name(file: StoredValue) -> Path:
    return (*file.path, file.key)


def _text_of(file: StoredValue) -> str:
    return str(file.value.get(_TEXT, ""))


def _listing(root: str, files: Sequence[StoredValue], *, depth: int) -> Iterator[str]:
    """Yield lines of size and path: the folder, then what it holds, by name."""
    sizes: dict[Path, int] = {}
    folders: set[Path] = set()
    total = 0
    for file in files:
        inside = _name(file)[depth:]
        size = len(_text_of(file).encode("utf-8", "replace"))
        total += size
        for level in range(1, min(len(inside), _LEVELS) + 1):
            shown = inside[:level]
            if shown[-1].startswith(".") or shown[-1] == "node_modules":
                break
            sizes[shown] = sizes.get(shown, 0) + size
            if level < len(inside):
                folders.add(shown)
    yield f"{_size(total)}\t{root}"
    for shown, size in sorted(sizes.items()):
        yield f"{_size(size)}\t{root}/{'/'.join(shown)}{'/' if shown in folders else ''}"


def _size(count: int) -> str:
    """Return a number of bytes as `du -h` does: 0B, 512B, 1.5K, 2M."""
    size, unit = float(count), "B"
    for larger in "KMG":
        if size < 1024:  # noqa: PLR2004 bytes of a kilobyte, kilobytes of a megabyte
            break
        size, unit = size / 1024, larger
    return f"{size:.1f}".removesuffix(".0") + unit


def _numbered(lines: Sequence[str], given: Sequence[int] | None) -> Iterator[str]:
    """Yield the lines of a range, numbered from 1; the end -1 means the last one."""
    first, last = given if given is not None and len(given) == 2 else (1, -1)  # noqa: PLR2004 a pair
    first = max(first, 1)
    for number, line in enumerate(lines[first - 1 : None if last == -1 else last], first):
        yield f"{number:{_NUMBER_WIDTH}}\t{line}"


def _occurrences(text: str, part: str) -> Iterator[int]:
    place = text.find(part) if part else -1
    while place >= 0:
        yield place
        place = text.find(part, place + 1)


def _findable(text: str) -> str:
    """Return the beginning of a text that is too long for a memory; the value has all of it."""
    return text.encode("utf-8", "replace")[:TEXT_BYTES_MAX].decode("utf-8", "ignore")


def _for_model(change: Callable[[], None]) -> None:
    """Make a change; a refusal becomes a text that the model reads.

    Raises:
        ToolError: the brain refuses the change.

    """
    try:
        change()
    except CommonbrainError as error:
        raise ToolError(f"Error: {error}") from error
