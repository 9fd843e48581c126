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
from commonbrain.transfer.importer import (
    Content,
    Importer,
    ImportItem,
    Unreadable,
    name_or_none,
    source_reference,
)
from commonbrain.transfer.importers.chats import Tally
from commonbrain.transfer.importers.json_lines import as_list
from commonbrain_import.databases import SqliteTables, TableMeter, omissions, open_sqlite, row_count
from commonbrain_import.rows import Row, json_in, names_in, text_in, time_in

_HINT: Final = "Give the claude-mem.db in ~/.claude-mem."
_OBSERVATIONS: Final = (
    "id project merged_into_project text type title subtitle facts narrative concepts files_read "
    "files_modified created_at_epoch created_at generated_by_model"
).split()
_SUMMARIES: Final = (
    "id memory_session_id project merged_into_project request investigated learned completed "
    "next_steps notes files_read files_edited created_at_epoch created_at"
).split()
_PROMPTS: Final = (
    "id content_session_id prompt_text created_at_epoch created_at claude_session_id"
).split()
_SESSIONS: Final = (
    "id content_session_id memory_session_id project custom_title user_prompt started_at_epoch "
    "claude_session_id sdk_session_id"
).split()
_KINDS: Final[Mapping[str, tuple[Kind, str]]] = {
    "decision": (Kind.FACT, "decision"),
    "discovery": (Kind.FACT, "insight"),
    "bugfix": (Kind.INCIDENT, "bug"),
}
"""Kind and label by the type of an observation (plugin/modes/code.json); others are events."""
_SECTIONS: Final = "investigated learned completed next_steps notes".split()
_OMITTED: Final = {
    "tool results that wait for a summary": ("pending_messages", None),
    "counts of use": ("observations", "relevance_count"),
}


class ClaudeMem(Importer):
    """Reads the database of claude-mem."""

    name = "claude-mem"
    purpose = "claude-mem: observations, summaries and prompts in claude-mem.db"
    places = (".claude-mem/claude-mem.db",)

    def read(self, source: Path) -> Iterator[ImportItem]:
        """Yield the observations, then the summaries, then the prompts, each in order.

        Raises:
            InvalidInputError: the file is missing, or not such a database; raised before the first
                piece.

        """
        with open_sqlite(source, hint=_HINT) as tables:
            if not {"observations", "session_summaries"} <= set(tables.columns):
                raise InvalidInputError(f"{source} is not a database of claude-mem.", hint=_HINT)
            reader = _Reader(sessions=_sessions(tables))
            read = {
                "observations": (_OBSERVATIONS, _observation),
                "session_summaries": (_SUMMARIES, reader.summary),
                "user_prompts": (_PROMPTS, reader.prompt),
            }
            meter = TableMeter(total=row_count(tables, read))
            for table, (columns, make) in read.items():
                yield from meter.read(tables, table, columns=columns, make=make)
            yield from Tally(omissions(tables, _OMITTED)).pieces()


def _sessions(tables: SqliteTables) -> Mapping[str, Row]:
    """Return the sessions by both of their ids; there are far fewer than observations."""
    sessions: dict[str, Row] = {}
    for row in tables.rows("sdk_sessions", _SESSIONS, order="id"):
        if not isinstance(row, Unreadable):
            for column in ("content_session_id", "claude_session_id"):
                sessions[f"content {text_in(row, column)}"] = row
            for column in ("memory_session_id", "sdk_session_id"):
                sessions[f"memory {text_in(row, column)}"] = row
    return sessions


def _observation(row: Row) -> Iterator[Content]:
    title, type_ = text_in(row, "title"), text_in(row, "type")
    kind, label = _KINDS.get(type_, (Kind.EVENT, type_))
    paragraphs = [
        title,
        text_in(row, "subtitle"),
        text_in(row, "narrative", "text"),
        "\n".join(f"- {fact}" for fact in _texts(row, "facts")),
        *_files(row, ("files_read", "files_modified")),
    ]
    yield Draft(
        body="\n\n".join(filter(None, dict.fromkeys(paragraphs))),
        headline=_headline(title),
        kind=kind,
        label=name_or_none(label),
        project=name_or_none(text_in(row, "merged_into_project", "project")),
        tags=names_in(json_in(row, "concepts")),
        source_ref=source_reference("claude-mem", f"observation/{row.get('id')}"),
        occurred_at=time_in(row, "created_at_epoch", "created_at"),
        author=name_or_none(text_in(row, "generated_by_model")),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """Makes drafts of what belongs to sessions."""

    sessions: Mapping[str, Row]

    def summary(self, row: Row) -> Iterator[Content]:
        request = text_in(row, "request")
        sections = [
            f"{name.replace('_', ' ').capitalize()}: {text}"
            for name in _SECTIONS
            if (text := text_in(row, name))
        ]
        ended = time_in(row, "created_at_epoch", "created_at")
        session = self.sessions.get(f"memory {text_in(row, 'memory_session_id')}", {})
        started = time_in(session, "started_at_epoch")
        is_period = started is not None and ended is not None and started <= ended
        files = _files(row, ("files_read", "files_edited"))
        yield Draft(
            body="\n\n".join(filter(None, (request, *sections, *files))),
            headline=_headline(request),
            kind=Kind.EPISODE,
            label="session summary",
            project=name_or_none(text_in(row, "merged_into_project", "project")),
            source_ref=source_reference("claude-mem", f"summary/{row.get('id')}"),
            occurred_at=ended,
            detail=EpisodeDetail(started_at=started if is_period else None, ended_at=ended),
        )

    def prompt(self, row: Row) -> Iterator[Content]:
        id_ = text_in(row, "content_session_id", "claude_session_id")
        session = self.sessions.get(f"content {id_}", {})
        title = text_in(session, "custom_title", "user_prompt").partition("\n")[0]
        subject = source_reference(title or f"claude-mem session {id_}", "")
        yield Draft(
            body=text_in(row, "prompt_text"),
            kind=Kind.MESSAGE,
            project=name_or_none(text_in(session, "project")),
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
