"""Sessions of Codex: the rollouts below `~/.codex/sessions`, each session a thread.

A file `YYYY/MM/DD/rollout-<time>-<session>.jsonl` has one item a line, `{timestamp, type,
payload}`: first `session_meta`, then `response_item`s as the model's API has them and events that
repeat them. Before September 2025 the items stood alone. Written by
https://github.com/openai/codex, `codex-rs/rollout/src/recorder.rs` and `policy.rs`; context that
Codex adds to the user's messages is recognized as `codex-rs/core/src/context` does: by the kinds
in their metadata, or else by its marks. Names of threads are in `session_index.jsonl`. Tried with
Codex 0.169.0.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, Final

from commonbrain.transfer.importer import (
    Content,
    DetectedSource,
    Importer,
    ImportItem,
    Unreadable,
    files_found,
)
from commonbrain.transfer.importers import chats, json_lines
from commonbrain.transfer.importers.markdown import links_outside
from commonbrain.transfer.importers.projects import (
    LOCAL,
    NamedProjects,
    Projects,
    projects_of_folders,
)

_PROGRAM: Final = "Codex"
_NAME: Final = "rollout-*.jsonl"
_PATTERN: Final = f"**/{_NAME}"
_MARK: Final = re.compile(rb'"session_meta"|^\{"id":"[\w-]+","timestamp":|"type":\s?"message"')
_SESSION: Final = re.compile(r"rollout-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-(.+)")
_PAYLOAD: Final = re.compile(rb'"type":"response_item","payload":\{"type":"(\w+)"')
_CONTEXT: Final = re.compile(
    r"\s*(?:# AGENTS\.md instructions\b[^\n]*\s+<INSTRUCTIONS>|<(user_instructions"
    r"|environment_context|turn_aborted|skill|plugins|user_shell_command|user_action|hook_prompt"
    r"|subagents|subagent_notification|recommended_plugins|realtime_delegation"
    r"|codex_internal_context|in-app-browser-context)(?:\s[^<>]*)?>.*</\1>\s*$)",
    re.DOTALL,
)
"""What Codex adds to a user's message, in versions that do not give its kind.

The tags are those of codex-rs/core in openai/codex; a user's own prompt may begin with others.
"""
_PREAMBLES: Final = (
    *("# Context from my IDE setup:", "# Files mentioned by the user:"),
    *("# Files pasted by the user:", "# In app browser:", "# Browser comments:"),
)
"""How a message from an editor or the app begins."""
_REQUEST: Final = re.compile(r"\n## My request(?: for Codex)?:")
"""In a message from an editor, the user's words follow this heading."""
_INDEX: Final = "session_index.jsonl"
_LEVELS: Final = 5
"""Folders between the index and a rollout: sessions, year, month and day, or one more."""


@dataclass(frozen=True, slots=True)
class Codex(Importer):
    """Reads one rollout, or all below a folder."""

    name: str = "codex"
    purpose: str = "Sessions of Codex: ~/.codex/sessions"
    projects: Projects = LOCAL
    is_of_copy: bool = False
    """Whether the folders above the source are not those of Codex."""

    def find(self, home: Path) -> Iterator[DetectedSource]:
        """Return the folders of current and of archived sessions."""
        for folder in ("sessions", "archived_sessions"):
            yield from files_found(home / ".codex" / folder, _PATTERN)

    def read(self, source: Path) -> Iterator[ImportItem]:
        """Yield the messages session by session, the oldest first.

        Raises:
            InvalidInputError: the source has no session of Codex; raised before the first piece.

        """
        files = json_lines.session_files(source, f"{_PATTERN}*", program=_PROGRAM)
        plain = [one for one in files if one.suffix == ".jsonl" or one == source]
        packed = [one for one in files if one.suffix == ".zst" and one.with_suffix("") not in plain]
        if plain or not packed:
            json_lines.check_format(plain, source, mark=_MARK, program=_PROGRAM)
        yield from links_outside(source, f"{_NAME}*")
        tally = chats.Tally()
        reader = _Reader(
            source=source,
            projects=self.projects,
            titles=_titles(source, levels=0 if self.is_of_copy else _LEVELS),
            tally=tally,
        )
        for one in packed:
            reason = "It is compressed; unpack it with `zstd -d` and import it again."
            yield ImportItem(
                content=Unreadable(where=json_lines.place_of(one, source), reason=reason),
                progress=0.0,
            )
        yield from json_lines.pieces(plain, source, read=reader.read, tally=tally)

    def projects_in(self, source: Path) -> Mapping[str, str]:
        """Return the projects of the folders of the sessions."""
        files = json_lines.session_files(source, f"{_PATTERN}*", program=_PROGRAM)
        return projects_of_folders(json_lines.session_folders(files), projects=self.projects)

    def for_copy(self, projects: Mapping[str, str]) -> Importer:
        """Return the importer of a copy, see `Importer`."""
        return replace(self, projects=NamedProjects(known=projects), is_of_copy=True)


def _titles(source: Path, *, levels: int) -> Mapping[str, str]:
    """Return the names that users gave threads, from the index in the source or so far above."""
    titles: dict[str, str] = {}
    above = [source, *source.absolute().parents[:levels]]
    index = next((one / _INDEX for one in above if (one / _INDEX).is_file()), None)
    if index is None:
        return titles
    with suppress(OSError), index.open("rb") as stream:
        for line in json_lines.lines(stream):
            entry = json_lines.parse(line, where=_INDEX)
            if not isinstance(entry, Unreadable):
                titles[str(entry.get("id"))] = str(entry.get("thread_name") or "").strip()
    return titles


@dataclass(slots=True, kw_only=True)
class _Reader:
    """Reads rollouts one by one; knows which messages were read before."""

    source: Path
    projects: Projects
    titles: Mapping[str, str]
    tally: chats.Tally
    seen: set[str] = field(default_factory=set[str])

    def read(self, file: Path, stream: BinaryIO) -> Iterator[tuple[Content, int]]:
        named = _SESSION.fullmatch(file.stem)
        chat = chats.Chat(format="codex", id=named[1] if named else file.stem)
        where = json_lines.place_of(file, self.source)
        is_begun = False
        for line in json_lines.lines(stream):
            what = _skipped(line)
            if what is not None:
                self.tally[what] += 1
                continue
            record = json_lines.parse(line, where=f"{where}:{line.number}")
            if isinstance(record, Unreadable):
                yield record, line.end
                continue
            sort, item = _item(record)
            if sort == "session_meta":
                # A fork repeats the beginning of its origin.
                if not is_begun and not self._begin(chat, item):
                    return
                is_begun = True
            elif sort != "response_item" or item.get("type") != "message":
                self.tally[_what(str(item.get("type")), is_item=sort == "response_item")] += 1
            else:
                for content in self._message(item, chat, record=record, number=line.number):
                    yield content, line.end

    def _begin(self, chat: chats.Chat, meta: Mapping[str, object]) -> bool:
        """Take over the session's id, title and project; return False for that of a subagent."""
        source = json_lines.as_object(meta.get("source"))
        if source is not None and "subagent" in source:
            self.tally[json_lines.SUBAGENTS] += 1
            return False
        chat.id = str(meta.get("id") or chat.id)
        chat.title = self.titles.get(chat.id, "")
        folder = meta.get("cwd")
        chat.project = self.projects.of_folder(folder if isinstance(folder, str) else None)
        return True

    def _message(
        self,
        item: Mapping[str, object],
        chat: chats.Chat,
        *,
        record: Mapping[str, object],
        number: int,
    ) -> Iterator[Content]:
        role = str(item.get("role"))
        if role not in {chats.USER, chats.ASSISTANT}:
            self.tally[chats.CONTEXT] += 1
            return
        words = "\n".join(self._texts(item, is_user=role == chats.USER)).strip()
        if not words:
            return
        own = item.get("id")
        place = str(own) if own else f"{chat.id}:{number}"
        # Ids of other providers' models need not be unique.
        known = f"{place}:{hashlib.sha256(words.encode('utf-8', 'replace')).hexdigest()[:16]}"
        if known in self.seen:
            self.tally[json_lines.REPEATED] += 1
            return
        id_ = place if place not in self.seen else f"{chat.id}:{number}"
        self.seen.update((known, place))
        yield from chat.say(words, sender=role, id_=id_, time=record.get("timestamp"))

    def _texts(self, item: Mapping[str, object], *, is_user: bool) -> Iterator[str]:
        """Yield the texts of a message and count its other parts."""
        parts = json_lines.as_list(item.get("content")) or ()
        metadata = (
            json_lines.as_object(item.get("internal_chat_message_metadata_passthrough")) or {}
        )
        kinds = json_lines.as_list(metadata.get("content_item_kinds")) or ()
        if len(kinds) != len(parts):
            # The metadata does not say.
            kinds = [""] * len(parts)
        for part, kind in zip(map(json_lines.as_object, parts), kinds, strict=True):
            text = part.get("text") if part else None
            if not isinstance(text, str):
                self.tally[chats.ATTACHMENTS] += 1
            elif is_user and _is_added(text, str(kind)):
                self.tally[chats.CONTEXT] += 1
            else:
                yield _request(text) if is_user else text


def _item(record: Mapping[str, object]) -> tuple[str, Mapping[str, object]]:
    """Return type and payload of a line; old sessions have the payload alone."""
    payload = json_lines.as_object(record.get("payload"))
    if payload is not None:
        return str(record.get("type")), payload
    if "type" not in record and "id" in record:
        return "session_meta", record
    return "response_item", record


def _skipped(line: json_lines.JsonLine) -> str | None:
    """Name what a line without a message holds; None if it must be parsed."""
    if line.data is None or not line.is_compact or b'"payload":' not in line.data:
        return None
    if b'"session_meta"' in line.data or b'"type":"message"' in line.data:
        return None
    sort = _PAYLOAD.search(line.data)
    return _what(sort[1].decode(), is_item=True) if sort else json_lines.RECORDS


def _what(sort: str, *, is_item: bool) -> str:
    if not is_item:
        return json_lines.RECORDS
    if sort == "reasoning":
        return chats.REASONING
    if sort.endswith("_call"):
        return chats.TOOL_CALLS
    return chats.TOOL_RESULTS if sort.endswith("_output") else json_lines.RECORDS


def _is_added(text: str, kind: str) -> bool:
    if kind not in {"", "unknown"}:
        return not kind.startswith("user.")
    return _CONTEXT.match(text) is not None


def _request(text: str) -> str:
    """Return a user's words, without what an editor writes before them."""
    heading = _REQUEST.search(text) if text.lstrip().startswith(_PREAMBLES) else None
    return text[heading.end() :].strip() if heading else text.strip()
