"""claude-mem: observations, session summaries and prompts in its SQLite database.

The tables are those of thedotmack/claude-mem (src/services/sqlite/SessionStore.ts, version 13) and
of earlier versions, which lack some columns. A decision or discovery becomes a fact, a bug fix an
incident, other observations events. A summary becomes an episode, a prompt a message in the thread
of its session.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import EpisodeDetail, Kind, MessageDetail
from commonbrain.model.limits import HEADLINE_CHARS_MAX, HEADLINE_WORDS_MAX
from commonbrain.model.memory import Draft, ThreadRef
from commonbrain.transfer.importer import Content, Found, Piece, Unreadable, file_found
from commonbrain.transfer.importers.json_lines import as_list
from commonbrain.transfer.importers.markdown import source_reference
from commonbrain_import.databases import (
    Meter,
    Row,
    SqliteTables,
    fitted,
    json_in,
    names_in,
    omissions,
    one_name,
    open_sqlite,
    readable,
    row_count,
    text_in,
    time_in,
)

_HINT: Final = "Give the claude-mem.db in ~/.claude-mem."
_OBSERVATIONS: Final = (
    *("id", "project", "merged_into_project", "text", "type", "title", "subtitle", "facts"),
    *("narrative", "concepts", "files_read", "files_modified", "created_at_epoch", "created_at"),
    "generated_by_model",
)
_SUMMARIES: Final = (
    *("id", "memory_session_id", "project", "merged_into_project", "request", "investigated"),
    *("learned", "completed", "next_steps", "notes", "files_read", "files_edited"),
    *("created_at_epoch", "created_at"),
)
_PROMPTS: Final = (
    *("id", "content_session_id", "prompt_text", "created_at_epoch", "created_at"),
    "claude_session_id",
)
_SESSIONS: Final = (
    *("id", "content_session_id", "memory_session_id", "project", "custom_title", "user_prompt"),
    *("started_at_epoch", "claude_session_id", "sdk_session_id"),
)
_READ: Final = ("sdk_sessions", "observations", "session_summaries", "user_prompts")
_KINDS: Final[Mapping[str, tuple[Kind, str]]] = {
    "decision": (Kind.FACT, "decision"),
    "discovery": (Kind.FACT, "insight"),
    "bugfix": (Kind.INCIDENT, "bug"),
}
"""Kind and label by the type of an observation (plugin/modes/code.json); others are events."""
_SECTIONS: Final = ("investigated", "learned", "completed", "next_steps", "notes")
_OMITTED: Final = {
    "tool results that wait for a summary": ("pending_messages", None),
    "counts of use": ("observations", "relevance_count"),
}


@dataclass(frozen=True, slots=True)
class ClaudeMem:
    """Reads the database of claude-mem."""

    name: str = "claude-mem"
    purpose: str = "claude-mem: observations, summaries and prompts in claude-mem.db"
    has_relations: bool = False

    def find(self, home: Path) -> Iterator[Found]:
        """Return the database in claude-mem's default folder."""
        yield from file_found(home / ".claude-mem" / "claude-mem.db")

    def read(self, source: Path, project: str | None) -> Iterator[Piece]:
        """Yield the observations, then the summaries, then the prompts, each in order.

        Raises:
            InvalidInputError: the file is missing, or not such a database; raised before the first
                piece.

        """
        with open_sqlite(source, hint=_HINT) as tables:
            if not {"observations", "session_summaries"} <= set(tables.columns):
                raise InvalidInputError(f"{source} is not a database of claude-mem.", hint=_HINT)
            meter = Meter(total=row_count(tables, _READ))
            sessions = _sessions(tables, meter)
            for table, columns in (
                ("observations", _OBSERVATIONS),
                ("session_summaries", _SUMMARIES),
                ("user_prompts", _PROMPTS),
            ):
                for row in readable(tables, table, columns=columns, order="id", meter=meter):
                    if isinstance(row, Piece):
                        yield row
                        continue
                    for content in _content(table, row, sessions=sessions, project=project):
                        yield meter.piece(content)
            for one in omissions(tables, _OMITTED):
                yield meter.piece(one)


def _sessions(tables: SqliteTables, meter: Meter) -> Mapping[str, Row]:
    """Return the sessions by both of their ids; there are far fewer than observations."""
    sessions: dict[str, Row] = {}
    for row in readable(tables, "sdk_sessions", columns=_SESSIONS, order="id", meter=meter):
        if not isinstance(row, Piece):
            for column in ("content_session_id", "claude_session_id"):
                sessions[f"content {text_in(row, column)}"] = row
            for column in ("memory_session_id", "sdk_session_id"):
                sessions[f"memory {text_in(row, column)}"] = row
    return sessions


def _content(
    table: str, row: Row, *, sessions: Mapping[str, Row], project: str | None
) -> Iterator[Content]:
    match table:
        case "observations":
            draft = _observation(row, project=project)
        case "session_summaries":
            draft = _summary(row, sessions=sessions, project=project)
        case _:
            draft = _prompt(row, sessions=sessions, project=project)
    if draft.body:
        yield from fitted(draft)
    else:
        yield Unreadable(where=draft.source_ref or table, reason="It has no text.")


def _observation(row: Row, *, project: str | None) -> Draft:
    title, type_ = text_in(row, "title"), text_in(row, "type")
    kind, label = _KINDS.get(type_, (Kind.EVENT, type_))
    paragraphs = [
        title,
        text_in(row, "subtitle"),
        text_in(row, "narrative", "text"),
        "\n".join(f"- {fact}" for fact in _texts(row, "facts")),
        *_files(row, ("files_read", "files_modified")),
    ]
    return Draft(
        body="\n\n".join(filter(None, dict.fromkeys(paragraphs))),
        headline=_headline(title),
        kind=kind,
        label=one_name(label),
        project=one_name(project or text_in(row, "merged_into_project", "project")),
        tags=names_in(json_in(row, "concepts")),
        source_ref=source_reference("claude-mem", f"observation/{row.get('id')}"),
        occurred_at=time_in(row, "created_at_epoch", "created_at"),
        author=one_name(text_in(row, "generated_by_model")),
    )


def _summary(row: Row, *, sessions: Mapping[str, Row], project: str | None) -> Draft:
    request = text_in(row, "request")
    sections = [
        f"{name.replace('_', ' ').capitalize()}: {text}"
        for name in _SECTIONS
        if (text := text_in(row, name))
    ]
    ended = time_in(row, "created_at_epoch", "created_at")
    session = sessions.get(f"memory {text_in(row, 'memory_session_id')}", {})
    started = time_in(session, "started_at_epoch")
    is_period = started is not None and ended is not None and started <= ended
    files = _files(row, ("files_read", "files_edited"))
    return Draft(
        body="\n\n".join(filter(None, (request, *sections, *files))),
        headline=_headline(request),
        kind=Kind.EPISODE,
        label="session summary",
        project=one_name(project or text_in(row, "merged_into_project", "project")),
        source_ref=source_reference("claude-mem", f"summary/{row.get('id')}"),
        occurred_at=ended,
        detail=EpisodeDetail(started_at=started if is_period else None, ended_at=ended),
    )


def _prompt(row: Row, *, sessions: Mapping[str, Row], project: str | None) -> Draft:
    id_ = text_in(row, "content_session_id", "claude_session_id")
    session = sessions.get(f"content {id_}", {})
    title = text_in(session, "custom_title", "user_prompt").partition("\n")[0]
    subject = source_reference(title or f"claude-mem session {id_}", "")
    return Draft(
        body=text_in(row, "prompt_text"),
        kind=Kind.MESSAGE,
        project=one_name(project or text_in(session, "project")),
        source_ref=source_reference("claude-mem", f"prompt/{row.get('id')}"),
        occurred_at=time_in(row, "created_at_epoch", "created_at"),
        thread=ThreadRef(key=source_reference("claude-mem", f"session/{id_}"), subject=subject),
        detail=MessageDetail(sender="user"),
    )


def _headline(title: str) -> str | None:
    """Return a title that is short enough for a headline."""
    is_short = len(title) <= HEADLINE_CHARS_MAX and len(title.split()) <= HEADLINE_WORDS_MAX
    return title if title and is_short else None


def _texts(row: Row, column: str) -> list[str]:
    """Return the texts in a column with a JSON list, or its own text."""
    listed = as_list(json_in(row, column))
    texts = [row.get(column)] if listed is None else listed
    return [str(one).strip() for one in texts if isinstance(one, str) and one.strip()]


def _files(row: Row, columns: tuple[str, str]) -> Iterator[str]:
    for column in columns:
        files = _texts(row, column)
        if files:
            yield f"{column.replace('_', ' ').capitalize()}: {', '.join(files)}"


IMPORTER: Final = ClaudeMem()
