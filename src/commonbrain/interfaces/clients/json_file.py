"""Clients that list their servers in a JSON file, each in a shape of its own."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from commonbrain.domain.errors import Invalid
from commonbrain.interfaces.clients.entry import SERVER, Entry, Reach, merged, not_valid
from commonbrain.interfaces.clients.json_text import JsonObject, plain, read_object


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonFile:
    """Changes the JSON file of one client in place."""

    name: str
    files: Mapping[str, Callable[[], Path]]
    """Where the file of each scope lies."""
    servers: str
    """The member that lists the servers by name."""
    shape: Callable[[Reach], Mapping[str, object]]
    """How the client has an entry."""
    environment: str = "env"
    """The member of an entry that holds its environment."""
    has_comments: bool = True
    """Whether the client reads comments and last commas in its file."""

    @property
    def scopes(self) -> tuple[str, ...]:
        """For whom it can be told; each has a file."""
        return tuple(self.files)

    def path(self, scope: str) -> Path:
        """Say where the file of a scope lies, whether it exists or not."""
        return self.files[scope]()

    def add(self, text: str | None, entry: Reach, *, path: Path, force: bool) -> str:
        """Put the entry last among the servers, or replace it where it stands."""
        ours = self.shape(entry)
        if text is None or not text.strip():
            return json.dumps({self.servers: {SERVER: ours}}, ensure_ascii=False, indent=2) + "\n"
        whole = self._read(text, path)
        if whole.find(self.servers) is None:
            return whole.with_member(self.servers, {SERVER: ours})
        listed = self._listed(whole, path)
        known = listed.find(SERVER)
        if known is None:
            return listed.with_member(SERVER, ours)
        value = merged(known.value, ours, path=path, force=force, environment=self.environment)
        return text if value == known.value else listed.with_value(known, value)

    def remove(self, text: str, *, path: Path) -> str:
        """Take the entry out, and leave the list of servers even if it is empty then."""
        if not text.strip():
            return text
        whole = self._read(text, path)
        if whole.find(self.servers) is None:
            return text
        listed = self._listed(whole, path)
        known = listed.find(SERVER)
        return listed.without(known) if known else text

    def _read(self, text: str, path: Path) -> JsonObject:
        try:
            json.loads(plain(text) if self.has_comments else text)
            return read_object(text)
        except json.JSONDecodeError as error:
            raise not_valid(path, "JSON", line=error.lineno) from error
        except ValueError as error:
            raise Invalid(
                f"{path} does not hold a JSON object.", hint="It was left as it is."
            ) from error

    def _listed(self, whole: JsonObject, path: Path) -> JsonObject:
        servers = whole.find(self.servers)
        if servers is None or not isinstance(servers.value, dict):
            raise Invalid(
                f"{self.servers} in {path} is not an object.", hint="It was left as it is."
            )
        return whole.object_at(servers)


def command_and_args(entry: Entry) -> Mapping[str, object]:
    """Show an entry as most clients have it, its environment only where it has one."""
    shown: dict[str, object] = {"command": entry.command, "args": list(entry.args)}
    return {**shown, "env": dict(entry.env)} if entry.env else shown


def here(*parts: str) -> Callable[[], Path]:
    """Point to a file of the folder we are in."""
    return lambda: Path.cwd().joinpath(*parts)


def at_home(*parts: str) -> Callable[[], Path]:
    """Point to a file of the user's home."""
    return lambda: Path.home().joinpath(*parts)
