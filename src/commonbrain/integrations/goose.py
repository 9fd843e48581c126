"""Goose: `extensions.commonbrain` in `config.yaml`.

The entry is lines of its own at the end of the extensions, or those lines are cut out; every other
byte stays. Only files of the layout that Goose writes are changed: `extensions` in block style, or
empty, and one document. Its file is the only one in YAML, for which a library is not worth it.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from platformdirs import user_config_path

from commonbrain.integrations.entry import (
    SERVER,
    Remote,
    ServerTarget,
    merge_entry,
    proxy_entry,
)
from commonbrain.integrations.json_clients import command_and_args, in_named_folder
from commonbrain.model.errors import RejectedError

_EXTENSIONS: Final = re.compile(r"""(["']?)extensions\1\s*:(?P<value>.*)""")
_EMPTY: Final = re.compile(r"\s*(?:\{\s*\}|null|~)?\s*(?:#.*)?$")
_OWN: Final = re.compile(rf"""\s*(["']?){SERVER}\1\s*:""")
_MEMBER: Final = re.compile(r"""(?:-\s+)?(["']?)(?P<name>[\w.-]+)\1\s*:\s*(?P<value>.*)""")
_FIELDS: Final = {"cmd": "command", "args": "args", "envs": "env"}
"""The fields of an entry that others call differently."""
_NOTHING: Final = re.compile(r"\s*(?:#.*)?$")
_MARK: Final = re.compile(r"(?:---|\.\.\.)(?:\s|$)")
_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")
_INDENT: Final = 2


@dataclass(frozen=True, slots=True)
class GooseConfig:
    """Changes the YAML file of Goose in place."""

    name: str = "goose"
    scopes: tuple[str, ...] = ("user",)

    def path(self, scope: str) -> Path:
        """Return the file of https://block.github.io/goose/docs/guides/config-file."""
        del scope
        if sys.platform == "win32":
            return user_config_path("goose", "Block", roaming=True) / "config" / "config.yaml"
        return in_named_folder("XDG_CONFIG_HOME", ".config", "goose", "config.yaml")()

    def add(self, text: str | None, entry: ServerTarget, *, path: Path, force: bool) -> str:
        """Add the entry at the end of the extensions, or replace it there."""
        started = proxy_entry(entry.url) if isinstance(entry, Remote) else entry
        layout = _read(text or "", path)
        ours = dict(command_and_args(started))
        if layout.own is not None:
            existing = _fields_of(layout.lines[slice(*layout.own)])
            ours = dict(merge_entry(existing, ours, path=path, force=force))
            if ours == existing:
                return text or ""
            layout = _read("".join(layout.without_own()), path)
        return "".join(layout.with_own(_render(ours)))

    def remove(self, text: str, *, path: Path) -> str:
        """Remove the entry."""
        layout = _read(text, path)
        return text if layout.own is None else "".join(layout.without_own())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """The lines of a file, and which of them are the extensions and the entry."""

    lines: Sequence[str]
    head: int | None
    """The line `extensions:`."""
    end: int
    """The line after the last extension."""
    indent: int
    own: tuple[int, int] | None

    def with_own(self, entry: Sequence[str]) -> list[str]:
        """Return the lines with an entry added."""
        line_end = "\r\n" if "\r\n" in "".join(self.lines) else "\n"
        block = [f"{' ' * self.indent}{line}{line_end}" for line in entry]
        if self.head is None:
            last = [] if not self.lines or self.lines[-1].endswith("\n") else [line_end]
            return [*self.lines, *last, f"extensions:{line_end}", *block]
        # `extensions: {}` gets its first entry in block style.
        head = re.sub(r":\s*(?:\{\s*\}|null|~)", ":", self.lines[self.head], count=1)
        between = [head, *self.lines[self.head + 1 : self.end]]
        if not between[-1].endswith("\n"):
            between[-1] += line_end
        return [*self.lines[: self.head], *between, *block, *self.lines[self.end :]]

    def without_own(self) -> list[str]:
        """Return the lines without the entry; extensions that are then empty are `{}`."""
        assert self.own is not None  # noqa: S101 callers check
        assert self.head is not None  # noqa: S101 the entry is below it
        start, end = self.own
        rest = [*self.lines[:start], *self.lines[end:]]
        others = rest[self.head + 1 : self.end - (end - start)]
        if all(_NOTHING.match(line) for line in others):
            rest[self.head] = re.sub(r":\s*?(?=\s*#|\s*$)", ": {}", rest[self.head], count=1)
        return rest


def _read(text: str, path: Path) -> _Layout:
    """Find the extensions and the entry.

    Raises:
        RejectedError: the layout is not one that Goose writes.

    """
    lines = _LINE.findall(text)
    heads = [n for n, line in enumerate(lines) if _EXTENSIONS.match(line)]
    marks = [n for n, line in enumerate(lines) if _MARK.match(line)]
    is_flow = any(line.startswith(("{", "[", "- ", "? ", "%", "\t")) for line in lines)
    if len(heads) > 1 or is_flow or any(not _is_first(lines, n) for n in marks):
        raise _unsafe(path)
    if not heads:
        return _Layout(lines=lines, head=None, end=len(lines), indent=_INDENT, own=None)
    head = heads[0]
    match = _EXTENSIONS.match(lines[head])
    below = _block_end(lines, head + 1, above=0)
    members = [line for line in lines[head + 1 : below] if not _NOTHING.match(line)]
    is_block = match is not None and _EMPTY.match(match["value"])
    if not is_block:
        raise _unsafe(path)
    indent = _depth(members[0]) if members else _INDENT
    starts = (n for n in range(head + 1, below) if _depth(lines[n]) == indent)
    start = next((n for n in starts if _OWN.match(lines[n])), None)
    if start is not None and not _NOTHING.match(lines[start].partition(":")[2]):
        raise _unsafe(path)
    own = None if start is None else (start, _block_end(lines, start + 1, above=indent))
    return _Layout(lines=lines, head=head, end=below, indent=indent, own=own)


def _is_first(lines: Sequence[str], at: int) -> bool:
    return all(_NOTHING.match(line) for line in lines[:at]) and lines[at].strip() == "---"


def _block_end(lines: Sequence[str], at: int, *, above: int) -> int:
    """Return the line after the last that is indented deeper; comments that follow stay outside."""
    end = at
    for n in range(at, len(lines)):
        if _NOTHING.match(lines[n]):
            continue
        if _depth(lines[n]) <= above:
            break
        end = n + 1
    return end


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _fields_of(lines: Sequence[str]) -> dict[str, object]:
    """Read the command of an entry, as Goose or this program wrote it."""
    members = [line.rstrip("\r\n") for line in lines[1:] if not _NOTHING.match(line)]
    depth = _depth(members[0]) if members else 0
    starts = [n for n, one in enumerate(members) if _depth(one) == depth and one[depth] != "-"]
    read: dict[str, object] = {"command": "", "args": []}
    for start, end in zip(starts, [*starts[1:], len(members)], strict=True):
        match = _MEMBER.match(members[start].lstrip())
        name = _FIELDS.get(match["name"]) if match else None
        if match and name:
            below = [one.strip() for one in members[start + 1 : end]]
            read[name] = _value(match["value"].strip(), below)
    return read


def _value(text: str, below: Sequence[str]) -> object:
    """Read a scalar, JSON, or the lines of a list or mapping below its name."""
    if text[:1] in {"[", "{"}:
        try:
            return json.loads(text)
        except ValueError:
            return text
    if text or not below:
        return _scalar(text)
    if below[0].startswith("-"):
        return [_scalar(one.removeprefix("-").strip()) for one in below]
    pairs = filter(None, map(_MEMBER.match, below))
    return {one["name"]: _scalar(one["value"].strip()) for one in pairs}


def _scalar(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    try:
        return str(json.loads(text)) if text.startswith('"') else text
    except ValueError:
        return text


def _render(fields: Mapping[str, object]) -> list[str]:
    """Format the entry; JSON is YAML."""
    values = {
        "cmd": fields["command"],
        "args": fields["args"],
        "envs": fields.get("env", {}),
    }
    shown = (f"  {name}: {json.dumps(one, ensure_ascii=False)}" for name, one in values.items())
    return [
        f"{SERVER}:",
        f"  name: {SERVER}",
        "  type: stdio",
        "  enabled: true",
        *shown,
        "  timeout: 300",
    ]


def _unsafe(path: Path) -> RejectedError:
    return RejectedError(
        f"The layout of {path} does not allow a safe change.",
        code="connect_layout",
        hint=f"Add the extension {SERVER} by `goose configure`; the file is unchanged.",
    )
