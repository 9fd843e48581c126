"""Codex: `[mcp_servers.commonbrain]` in `config.toml`, below CODEX_HOME or `~/.codex`.

An entry is added at the end of the text or cut out of it, which preserves every comment. If the
layout does not allow it (servers in one inline table), the TOML editor changes it. The result is
parsed again: only this entry may differ.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, cast

import tomlkit
from tomlkit.exceptions import TOMLKitError

from commonbrain.integrations.entry import (
    SERVER,
    Remote,
    ServerTarget,
    invalid_file_error,
    merge_entry,
)
from commonbrain.integrations.json_clients import in_named_folder
from commonbrain.model.errors import InvalidInputError, RejectedError

_SERVERS: Final = "mcp_servers"
_OWN_TABLE: Final = re.compile(rf"\s*\[\s*{_SERVERS}\s*\.\s*([\"']?){SERVER}\1\s*[\].]")
_ANY_TABLE: Final = re.compile(r"\s*\[")
_REMARK: Final = re.compile(r"\s*(?:#.*)?$")
_LINE: Final = re.compile(r"line (\d+)")

Toml = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CodexConfig:
    """Changes the TOML file of Codex in place."""

    name: str = "codex"
    scopes: tuple[str, ...] = ("user",)

    def path(self, scope: str) -> Path:
        """Return the file, with CODEX_HOME as in Codex; all scopes share it."""
        del scope
        return in_named_folder("CODEX_HOME", ".codex", "config.toml")()

    def add(self, text: str | None, entry: ServerTarget, *, path: Path, force: bool) -> str:
        """Add the entry's table at the end, or change it in place."""
        existing = text or ""
        before = _read(existing, path)
        servers = _servers(before, path)
        ours = _to_toml(entry)
        value = ours
        if SERVER in servers:
            value = dict(merge_entry(servers[SERVER], ours, path=path, force=force))
        if servers.get(SERVER) == value:
            return existing
        expected = {**before, _SERVERS: {**servers, SERVER: value}}
        edits = (_with_table, _edited) if SERVER not in servers else (_edited,)
        return _choose_equivalent(
            [partial(edit, existing, value) for edit in edits], expected, path=path
        )

    def remove(self, text: str, *, path: Path) -> str:
        """Remove the entry's tables."""
        before = _read(text, path)
        servers = _servers(before, path)
        if SERVER not in servers:
            return text
        rest = {name: server for name, server in servers.items() if name != SERVER}
        expected = {**before, _SERVERS: rest}
        edits = (_without_tables, _edited)
        return _choose_equivalent(
            [partial(edit, text, None) for edit in edits], expected, path=path
        )


def _to_toml(entry: ServerTarget) -> Toml:
    if isinstance(entry, Remote):
        bearer = {"bearer_token_env_var": entry.variable} if entry.variable else {}
        return {"url": entry.url, **bearer}
    shown: Toml = {"command": entry.command, "args": list(entry.args)}
    return {**shown, "env": dict(entry.env)} if entry.env else shown


def _read(text: str, path: Path) -> Toml:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = _LINE.search(str(error))
        raise invalid_file_error(path, "TOML", line=int(line.group(1)) if line else None) from error


def _servers(whole: Toml, path: Path) -> Toml:
    servers = whole.get(_SERVERS, {})
    if not isinstance(servers, dict):
        raise InvalidInputError(
            f"{_SERVERS} in {path} is not a table.", hint="The file is unchanged."
        )
    return cast("Toml", servers)


def _with_table(text: str, value: Mapping[str, object]) -> str:
    """Append the entry as a table at the end of the text."""
    line_end = "\r\n" if "\r\n" in text else "\n"
    table = tomlkit.dumps({_SERVERS: {SERVER: value}}).replace("\n", line_end)
    if not text.strip():
        return text + table
    gap = line_end if text.endswith("\n") else line_end * 2
    return f"{text}{gap}{table}"


def _without_tables(text: str, _: None) -> str:
    """Remove the lines from the header of the entry's table to the next header.

    Comments and empty lines before the next header belong to that one, and stay.
    """
    lines = text.splitlines(keepends=True)
    heads = [n for n, line in enumerate(lines) if n and _ANY_TABLE.match(line)]
    remaining: list[str] = []
    for start, end in zip([0, *heads], [*heads, len(lines)], strict=True):
        own = lines[start:end]
        if _OWN_TABLE.match("".join(own[:1])):
            remarks = takewhile(_REMARK.match, reversed(own))
            own = own[len(own) - sum(1 for _ in remarks) :]
        remaining += own
    return "".join(remaining)


def _edited(text: str, value: Mapping[str, object] | None) -> str:
    """Set or remove the entry with the TOML editor."""
    whole: Any = tomlkit.parse(text)
    if value is None:
        del whole[_SERVERS][SERVER]
    elif SERVER in whole.setdefault(_SERVERS, tomlkit.table(is_super_table=True)):
        existing = whole[_SERVERS][SERVER]
        for servers_left in existing.keys() - value.keys():
            del existing[servers_left]
        existing.update(value)
    else:
        whole[_SERVERS][SERVER] = value
    return tomlkit.dumps(whole)


def _choose_equivalent(
    candidates: Iterable[Callable[[], str]], expected: Toml, *, path: Path
) -> str:
    """Return the first candidate text that parses to the expected values."""
    for candidate in candidates:
        try:
            text = candidate()
            hint = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, TOMLKitError):
            continue
        if {_SERVERS: {}, **hint} == expected:
            return text
    raise RejectedError(
        f"The layout of {path} does not allow a safe change.",
        code="connect_layout",
        hint=f"Change [{_SERVERS}.{SERVER}] by hand; the file is unchanged.",
    )
