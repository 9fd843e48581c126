"""Sessions of Claude Code: the transcripts below `~/.claude/projects`, each session a thread.

A file `<path of the folder with dashes>/<session>.jsonl` has one record a line. Records of the
types `user` and `assistant` hold a message of the API in `message`, with `uuid`, `timestamp`,
`sessionId` and `cwd`. A fork repeats the records of its origin with their `uuid`. The title is in
`custom-title` or `ai-title` records near the end, or in a `summary` that names a record of the
session. The program's source is not public: this follows what Claude Code 2.1.330
(https://www.npmjs.com/package/@anthropic-ai/claude-code) writes, and `summary` as its versions
before 2 did.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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

_PROGRAM: Final = "Claude Code"
_MARK: Final = re.compile(rb'"sessionId":|"type":\s?"summary"')
_PATTERN: Final = "**/*.jsonl"
_TYPED: Final = re.compile(rb'\{"type":"([\w-]+)"')
_BLOCKS: Final = {
    "thinking": chats.REASONING,
    "redacted_thinking": chats.REASONING,
    "tool_use": chats.TOOL_CALLS,
    "server_tool_use": chats.TOOL_CALLS,
    "mcp_tool_use": chats.TOOL_CALLS,
    "tool_result": chats.TOOL_RESULTS,
    "image": chats.ATTACHMENTS,
    "document": chats.ATTACHMENTS,
}
"""The blocks of a message without text of its sender; results of further tools end in the last."""
_MARKS: Final = [
    (b'"type":"%s"' % sort.encode(), what)
    for sort, what in _BLOCKS.items()
    if what != chats.TOOL_RESULTS
]
_RESULT: Final = b'"type":"tool_result"'
_OPENING: Final = re.compile(
    r"<(system-reminder|task-notification|user-prompt-submit-hook|local-command-\w+|bash-\w+"
    r"|command-(?:message|contents)|skill-format|teammate-message|ide_\w+)\b[^<>]*>"
    r"|\[Request interrupted by user[^\[\]]*\]"
)
"""How what the program writes into a user's message begins; a note of an interruption is whole."""
_NOTE: Final = re.compile(
    r"\s*(?:This session is being continued from a previous conversation"
    r"|Caveat: The messages below)"
)
"""How notes of the program begin that have no flag in sessions of older versions."""
_CLOSING: Final = re.compile(r"</([\w-]+)>")
_COMMAND: Final = re.compile(
    r"<command-name>([^<]*)</command-name>\s*(?:<command-args>(.*)</command-args>)?", re.DOTALL
)
_SUMMARY: Final = re.compile(rb'\{"type":"summary","summary":"[^\n]*')


@dataclass(frozen=True, slots=True)
class ClaudeCode(Importer):
    """Reads one session, those of a project, or all of `~/.claude/projects`."""

    name: str = "claude-code"
    purpose: str = "Sessions of Claude Code: ~/.claude/projects"
    projects: Projects = LOCAL

    def find(self, home: Path) -> Iterator[DetectedSource]:
        """Return the folder of the sessions, at its places before and after XDG."""
        for folder in (home / ".claude" / "projects", home / ".config" / "claude" / "projects"):
            yield from files_found(folder, "*/*.jsonl")

    def read(self, source: Path) -> Iterator[ImportItem]:
        """Yield the messages session by session, those that began first at the beginning.

        Raises:
            InvalidInputError: the source has no session of Claude Code; raised before the first
                piece.

        """
        folder = _folder_of(source)
        files = json_lines.session_files(folder, _PATTERN, program=_PROGRAM)
        json_lines.check_format(files, source, mark=_MARK, program=_PROGRAM)
        yield from links_outside(folder, "*.jsonl")
        tally = chats.Tally()
        own = [
            file
            for file in files
            if folder.is_file()
            or not (file.name.startswith("agent-") or file.parent.name == "subagents")
        ]
        tally[json_lines.SUBAGENTS] += len(files) - len(own)
        heads = _heads(own, folder, projects=self.projects)
        reader = _Reader(source=folder, heads=heads, tally=tally)
        yield from json_lines.pieces(list(heads), folder, read=reader.read, tally=tally)

    def projects_in(self, source: Path) -> Mapping[str, str]:
        """Return the projects of the folders of the sessions."""
        files = json_lines.session_files(_folder_of(source), _PATTERN, program=_PROGRAM)
        return projects_of_folders(json_lines.session_folders(files), projects=self.projects)

    def for_copy(self, projects: Mapping[str, str]) -> Importer:
        """Return the importer of a copy, see `Importer`."""
        return replace(self, projects=NamedProjects(known=projects))


def _folder_of(source: Path) -> Path:
    return source / "projects" if (source / "projects").is_dir() else source


@dataclass(frozen=True, slots=True, kw_only=True)
class _Head:
    """What names a session: its title and project."""

    title: str
    project: str | None


def _heads(files: Sequence[Path], source: Path, *, projects: Projects) -> dict[Path, _Head]:
    """Read the ends of all files; return their sessions by the time of their first record.

    A fork begins with the records of its origin or later, so the origin comes first.
    """
    summaries: dict[str, str] = {}
    ends: dict[Path, tuple[str, list[str], list[str], str | None]] = {}
    for file in files:
        seen = json_lines.window(file, json_lines.HEAD_BYTES)
        for written in _SUMMARY.findall(seen.head):
            record = json_lines.parse(json_lines.JsonLine(number=0, data=written, end=0), where="")
            if not isinstance(record, Unreadable):
                summaries[str(record.get("leafUuid"))] = str(record.get("summary"))
        titles = [*seen.values("aiTitle"), *seen.values("customTitle")]
        folder = next(seen.values("cwd"), None)
        begun = next(seen.values("timestamp"), "")
        ends[file] = begun, titles, list(seen.values("uuid")), folder
    ordered = sorted(ends, key=lambda one: (ends[one][0], one))
    heads: dict[Path, _Head] = {}
    for file in ordered:
        _, titles, uuids, folder = ends[file]
        titles += [summaries[one] for one in reversed(uuids) if one in summaries and not titles]
        project = projects.of_folder(folder) or projects.of_file(file, source)
        heads[file] = _Head(title=titles[-1] if titles else "", project=project)
    return heads


@dataclass(slots=True, kw_only=True)
class _Reader:
    """Reads files one by one; knows which records were read before."""

    source: Path
    heads: Mapping[Path, _Head]
    tally: chats.Tally
    seen: set[str] = field(default_factory=set[str])

    def read(self, file: Path, stream: BinaryIO) -> Iterator[tuple[Content, int]]:
        head = self.heads[file]
        chat = chats.Chat(
            format="claude-code",
            id=file.stem,
            title=head.title,
            project=head.project,
        )
        where = json_lines.place_of(file, self.source)
        for line in json_lines.lines(stream):
            skipped = _skipped(line)
            if skipped is not None:
                self.tally.update(skipped)
                continue
            record = json_lines.parse(line, where=f"{where}:{line.number}")
            if isinstance(record, Unreadable):
                yield record, line.end
                continue
            for content in self._message(record, chat, place=f"{file.stem}:{line.number}"):
                yield content, line.end

    def _message(
        self, record: Mapping[str, object], chat: chats.Chat, *, place: str
    ) -> Iterator[Content]:
        message = json_lines.as_object(record.get("message"))
        sender = str(record.get("type"))
        if message is None or sender not in {chats.USER, chats.ASSISTANT}:
            self.tally[json_lines.RECORDS] += 1
            return
        if record.get("isSidechain"):
            self.tally[json_lines.SUBAGENTS] += 1
            return
        texts = self._texts(message.get("content"))
        if _is_added(record, message):
            self.tally[chats.CONTEXT] += 1
            return
        words = (
            "\n".join(filter(None, map(_own_words, texts)))
            if sender == chats.USER
            else "\n".join(texts)
        )
        if not words.strip():
            self.tally[chats.CONTEXT] += len(texts)
            return
        id_ = str(record.get("uuid") or place)
        if id_ in self.seen:
            self.tally[json_lines.REPEATED] += 1
            return
        self.seen.add(id_)
        model = message.get("model")
        yield from chat.say(
            words.strip(),
            sender=sender,
            id_=id_,
            time=record.get("timestamp"),
            author=model if isinstance(model, str) else None,
        )

    def _texts(self, content: object) -> list[str]:
        """Return the texts of a message and count its other blocks."""
        if isinstance(content, str):
            return [content]
        texts: list[str] = []
        for block in map(json_lines.as_object, json_lines.as_list(content) or ()):
            if block is None:
                continue
            sort, text = str(block.get("type")), block.get("text")
            if sort == "text" and isinstance(text, str):
                texts.append(text)
            else:
                other = chats.TOOL_RESULTS if sort.endswith("_tool_result") else json_lines.RECORDS
                self.tally[_BLOCKS.get(sort, other)] += 1
        return texts


def _skipped(line: json_lines.JsonLine) -> Mapping[str, int] | None:
    """Count what a line without text of a person or the model holds; None if it must be parsed.

    Most of a transcript is results of tools, so it is not parsed to leave them out.
    """
    data = line.data
    if data is None or not line.is_compact:
        return None
    typed = _TYPED.match(data)
    if typed is not None and typed[1] not in {b"user", b"assistant"}:
        return {json_lines.RECORDS: 1}
    is_user = b'"type":"user"' in data
    if not is_user and b'"type":"assistant"' not in data:
        return {json_lines.RECORDS: 1}
    if b'"type":"text"' in data or b'"isSidechain":true' in data:
        return None
    if is_user:
        results = data.count(_RESULT)
        return {chats.TOOL_RESULTS: results} if results else None
    counts = Counter[str]()
    for mark, what in _MARKS:
        counts[what] += data.count(mark)
    return +counts or None


def _is_added(record: Mapping[str, object], message: Mapping[str, object]) -> bool:
    """Return whether the program wrote a message: a note, a summary, an error, a notification."""
    flags = ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly", "isApiErrorMessage")
    return (
        any(record.get(flag) for flag in flags)
        or record.get("promptSource") == "system"
        or message.get("model") == "<synthetic>"
    )


def _own_words(text: str) -> str:
    """Return what the user wrote: without what the program added, a command with its arguments."""
    words = _without_added(text).strip() if "<" in text or "[" in text else text.strip()
    command = _COMMAND.fullmatch(words)
    if command is None:
        return "" if _NOTE.match(words) else words
    given = (command[2] or "").strip()
    return f"{command[1].strip()} {given}" if given else ""


def _without_added(text: str) -> str:
    """Cut out what the program added, in one pass: a text may have many tags without an end."""
    ends: dict[str, list[int]] = {}
    for closing in _CLOSING.finditer(text):
        ends.setdefault(closing[1], []).append(closing.end())
    parts: list[str] = []
    start = 0
    for opening in _OPENING.finditer(text):
        end = _end(opening, ends)
        if end is not None and opening.start() >= start:
            parts.append(text[start : opening.start()])
            start = end
    return "".join([*parts, text[start:]])


def _end(opening: re.Match[str], ends: Mapping[str, Sequence[int]]) -> int | None:
    """Return where an addition ends; None if its tag is not closed."""
    if opening[1] is None:
        return opening.end()
    closed = ends.get(opening[1], ())
    number = bisect_right(closed, opening.end())
    return closed[number] if number < len(closed) else None
