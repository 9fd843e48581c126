"""Open Brain: the memories of its first or second version in Postgres, or in a plain dump.

Written by https://github.com/shep-engineering/open-brain: the first version by `server.py`, schema
in `scripts/setup_db.py` and `scripts/migrate_v*.py` (0.14); the second by `brain_v2/store.py`,
schema in `brain_v2/schema.py`. Columns that a version does not have are left out.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import (
    EpisodeDetail,
    IncidentDetail,
    Kind,
    RuleDetail,
    TaskDetail,
    TaskPriority,
    TaskStatus,
    kind_and_label,
)
from commonbrain.model.links import LinkType
from commonbrain.model.memory import Draft
from commonbrain.model.skills import read_trigger
from commonbrain.text.classification import classify
from commonbrain.transfer.importer import (
    Found,
    Omitted,
    Piece,
    Relation,
    Unreadable,
    check_is_path,
    database_url,
    shown_source,
)
from commonbrain.transfer.importers.json_lines import as_object
from commonbrain.transfer.importers.markdown import name, source_reference
from commonbrain_import.databases import (
    Meter,
    Row,
    Tables,
    fitted,
    flag_in,
    ids_in,
    json_in,
    names_in,
    omissions,
    one_name,
    readable,
    row_count,
    ruled,
    share_in,
    text_in,
    time_in,
    whole_in,
)
from commonbrain_import.postgres_tables import names_of_array, open_postgres

_HINT: Final = (
    "Give the URL of its database, such as postgresql://postgres@localhost:5432/openbrain "
    "(version 2: port 5433, open_brain_v2), or a plain dump of pg_dump."
)


@dataclass(frozen=True, slots=True)
class OpenBrain:
    """Reads a database of Open Brain by its URL, or a dump of it."""

    name: str = "open-brain"
    purpose: str = "Open Brain 1 and 2: a Postgres URL, or a plain pg_dump file"
    has_relations: bool = True
    reads_database: bool = True

    def find(self, home: Path) -> Iterator[Found]:  # noqa: ARG002 it is a server
        """Return nothing: the memories are in a server."""
        return iter(())

    def read(self, source: Path, project: str | None) -> Iterator[Piece]:
        """Yield the memories in the order of their ids, then their annotations and relations.

        Raises:
            InvalidInputError: the database or the file cannot be read, or holds neither version;
                raised before the first piece.

        """
        url = database_url(source)
        if url is None:
            check_is_path(source)
        if url is None and not source.is_file():
            raise InvalidInputError(f"There is no file {source}.", hint=_HINT)
        with open_postgres(url or source, hint=_HINT) as tables:
            for piece in _pieces(tables, shown_source(source)):
                if project and isinstance(piece.content, Draft):
                    content = replace(piece.content, project=name(project))
                    yield replace(piece, content=content)
                else:
                    yield piece
            unread = tables.count_unread({"memories", "memory_index", *_SECOND_COLUMNS})
            if unread:
                what = "rows of the same tables in other schemas"
                yield Piece(content=Omitted(what=what, count=unread), progress=1.0)


def _pieces(tables: Tables, shown: str) -> Iterator[Piece]:
    has_second = {"rules", "facts", "memory_index"} <= set(tables.columns)
    if has_second:
        return _second_version(tables)
    if {"content", "metadata"} <= set(tables.columns.get("memories", ())):
        return _first_version(tables)
    raise InvalidInputError(f"{shown} has no tables of Open Brain.", hint=_HINT)


# Version 1

_FIRST_COLUMNS: Final = (
    *("id", "content", "metadata", "created_at", "project", "annotation", "upvotes", "downvotes"),
    *("pinned", "projects", "valid_time", "skill_trigger", "superseded_by_id"),
)
_FIRST_OMITTED: Final = {
    "vectors": ("memories", "embedding"),
    "access counts": ("memories", "access_count"),
    "reasons of corrections": ("memories", "superseded_reason"),
    "audit entries": ("memories_audit", None),
    "sessions": ("active_sessions", None),
}


def _first_version(tables: Tables) -> Iterator[Piece]:
    meter = Meter(total=row_count(tables, ["memories"]))
    tasks = triggers = 0
    for row in readable(tables, "memories", columns=_FIRST_COLUMNS, order="id", meter=meter):
        if isinstance(row, Piece):
            yield row
            continue
        metadata = as_object(json_in(row, "metadata")) or {}
        tasks += len(ids_in(metadata.get("action_items")))
        is_current = row.get("superseded_by_id") is None
        triggers += is_current and bool(row.get("skill_trigger")) and _trigger(row) is None
        rating = whole_in(row, "upvotes") - whole_in(row, "downvotes")
        for content in _first_draft(row, metadata):
            yield meter.piece(content, is_pinned=flag_in(row, "pinned"), rating=rating)
    yield from _annotations(tables, "memories", key="id", sort="", meter=meter)
    yield from map(meter.piece, _superseded(tables, "memories", by="superseded_by_id", sort=""))
    counted = {"action items that the texts state": tasks, "triggers that no skill has": triggers}
    yield from _left(tables, _FIRST_OMITTED, counted=counted, meter=meter)


def _first_draft(row: Row, metadata: Row) -> Iterator[Draft | Unreadable]:
    where = _ref("", row.get("id"))
    body = text_in(row, "content")
    if not body:
        yield Unreadable(where=where, reason="The memory has no text.")
        return
    sort = text_in(metadata, "type") or "note"
    kind, label = kind_and_label(sort) or (Kind.FACT, sort)
    trigger = _trigger(row)
    is_rule = classify(body) is Kind.RULE and flag_in(row, "pinned")
    if trigger is not None or (is_rule and kind is Kind.FACT):
        # Only rules have triggers, and a pinned text that commands was a guardrail.
        kind, label = Kind.RULE, label or sort
    projects = _projects(row)
    draft = Draft(
        body=body,
        kind=kind,
        label=one_name(label or ""),
        project=projects[0],
        tags=names_in(
            [
                *names_in(metadata.get("tags")),
                *names_in(metadata.get("topics")),
                *(f"project:{one}" for one in projects[1:]),
            ]
        ),
        people=names_in(metadata.get("people")),
        source_ref=where,
        occurred_at=time_in(row, "valid_time", "created_at"),
        auto_captured=flag_in(metadata, "auto_captured"),
        author=one_name(text_in(metadata, "source")),
        detail=RuleDetail(skill=trigger) if kind is Kind.RULE else None,
    )
    yield from fitted(ruled(draft) if kind is Kind.RULE else draft)


def _projects(row: Row) -> tuple[str | None, ...]:
    """Return the project of a memory, and the further ones that show it."""
    own = text_in(row, "project")
    listed = names_in(names_of_array(row.get("projects")))
    named = tuple(dict.fromkeys(filter(None, (name(own) if own else "", *listed))))
    # Shown in several projects and owned by none, it applies to all of them.
    return (None, *named) if not own and len(named) != 1 else named


def _trigger(row: Row) -> Mapping[str, object] | None:
    """Return the trigger of a skill; None without one, or if it is not valid here.

    What corrects a skill has its trigger, and a name has one rule.
    """
    if row.get("superseded_by_id") is not None or row.get("superseded_by") is not None:
        return None
    given = as_object(json_in(row, "skill_trigger"))
    try:
        return read_trigger(given) if given else None
    except InvalidInputError:
        return None


# Version 2

_SECOND_OMITTED: Final = {
    "vectors": ("memory_index", "embedding"),
    "access counts": ("facts", "access_count"),
    "reasons of corrections of rules": ("rules", "supersede_reason"),
    "reasons of corrections of facts": ("facts", "supersede_reason"),
    "archived marks": ("incidents", "archived"),
    "audit entries": ("v2_audit", None),
    "sessions": ("active_sessions", None),
    "tool calls": ("tool_events", None),
    "maintenance runs": ("maintenance_runs", None),
}
_SECOND_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "rules": (
        *("id", "headline", "body", "severity", "project", "source", "skill_trigger"),
        *("superseded_by", "created_at"),
    ),
    "facts": (
        *("id", "headline", "body", "project", "tags", "ttl", "confidence", "source"),
        "created_at",
    ),
    "incidents": (
        *("id", "headline", "body", "project", "root_cause", "resolution", "occurred_at"),
        "source",
    ),
    "tasks": ("id", "content", "project", "priority", "status", "due_condition", "created_at"),
}
_SORTS: Final = {"rules": "rule", "facts": "fact", "incidents": "incident", "tasks": "task"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mark:
    """What the index of version 2 knows about a memory."""

    is_pinned: bool = False
    is_forgotten: bool = False
    rating: int = 0


def _second_version(tables: Tables) -> Iterator[Piece]:
    meter = Meter(total=row_count(tables, [*_SECOND_COLUMNS, "action_items", "handoffs"]))
    marks = _marks(tables)
    forgotten = 0
    for table, columns in _SECOND_COLUMNS.items():
        for row in readable(tables, table, columns=columns, order="id", meter=meter):
            if isinstance(row, Piece):
                yield row
                continue
            mark = marks.get((_SORTS[table], whole_in(row, "id")), _Mark())
            forgotten += mark.is_forgotten
            if not mark.is_forgotten:
                for content in _second_draft(_SORTS[table], row):
                    yield meter.piece(content, is_pinned=mark.is_pinned, rating=mark.rating)
    yield from _action_items(tables, meter)
    yield from _handoffs(tables, meter)
    yield from _annotations(tables, "memory_index", key="memory_id", sort="kind", meter=meter)
    for table in ("rules", "facts"):
        corrected = _superseded(tables, table, by="superseded_by", sort=_SORTS[table])
        yield from map(meter.piece, corrected)
    yield from map(meter.piece, _evidence(tables))
    yield from _left(tables, _SECOND_OMITTED, counted={"deleted memories": forgotten}, meter=meter)


def _marks(tables: Tables) -> Mapping[tuple[str, int], _Mark]:
    """Return what is special about few memories: pinned, forgotten or rated."""
    columns = ("kind", "memory_id", "pinned", "forgotten_at", "upvotes", "downvotes")
    marks: dict[tuple[str, int], _Mark] = {}
    for row in tables.rows("memory_index", columns, order="memory_id"):
        if isinstance(row, Unreadable):
            continue
        mark = _Mark(
            is_pinned=flag_in(row, "pinned"),
            is_forgotten=row.get("forgotten_at") is not None,
            rating=whole_in(row, "upvotes") - whole_in(row, "downvotes"),
        )
        if mark != _Mark():
            marks[text_in(row, "kind"), whole_in(row, "memory_id")] = mark
    return marks


def _second_draft(sort: str, row: Row) -> Iterator[Draft | Unreadable]:
    where = _ref(sort, row.get("id"))
    body = text_in(row, "body", "content", "headline")
    if not body:
        yield Unreadable(where=where, reason="The memory has no text.")
        return
    draft = Draft(
        body=body,
        kind=sort,
        headline=text_in(row, "headline") or None,
        project=one_name(text_in(row, "project")),
        confidence=share_in(row, "confidence"),
        tags=names_in(names_of_array(row.get("tags"))),
        source_ref=where,
        occurred_at=time_in(row, "occurred_at", "created_at"),
        expires_at=time_in(row, "ttl"),
        author=one_name(text_in(row, "source")),
    )
    if sort == Kind.RULE:
        severity = text_in(row, "severity")
        # A deprecated rule has lost its severity; its words still have one.
        rule = replace(ruled(draft), detail=RuleDetail(skill=_trigger(row)))
        draft = replace(rule, severity=severity) if severity in {"BLOCKER", "PATTERN"} else rule
    elif sort == Kind.INCIDENT:
        draft = replace(
            draft,
            detail=IncidentDetail(
                root_cause=text_in(row, "root_cause") or None,
                resolution=text_in(row, "resolution") or None,
            ),
        )
    elif sort == Kind.TASK:
        draft = _task(draft, row)
    yield from fitted(draft)


def _task(draft: Draft, row: Row) -> Draft:
    """Return a task with its columns; a condition that is no time stays in the text."""
    condition, due_at = text_in(row, "due_condition"), time_in(row, "due_condition")
    body = f"{draft.body}\n[due: {condition}]" if condition and due_at is None else draft.body
    status, priority = text_in(row, "status"), text_in(row, "priority")
    detail = TaskDetail(
        status=TaskStatus(status) if status in tuple(TaskStatus) else TaskStatus.OPEN,
        priority=TaskPriority(priority) if priority in tuple(TaskPriority) else TaskPriority.MEDIUM,
        due_at=due_at,
    )
    return replace(draft, body=body, detail=detail)


def _action_items(tables: Tables, meter: Meter) -> Iterator[Piece]:
    """Yield action items as tasks, none of which blocks a writer, and what they come from."""
    columns = ("id", "source_kind", "source_id", "text", "project", "status", "created_at")
    for row in readable(tables, "action_items", columns=columns, order="id", meter=meter):
        if isinstance(row, Piece):
            yield row
            continue
        is_open = text_in(row, "status") in {"pending", "will_execute"}
        draft = Draft(
            body=text_in(row, "text"),
            kind=Kind.TASK,
            label="action_item",
            project=one_name(text_in(row, "project")),
            source_ref=_ref("action-item", row.get("id")),
            occurred_at=time_in(row, "created_at"),
            detail=TaskDetail(status=TaskStatus.OPEN if is_open else TaskStatus.DONE),
        )
        yield from map(meter.piece, fitted(draft))
        source = _ref(text_in(row, "source_kind"), row.get("source_id"))
        relation = Relation(first=draft.source_ref or "", second=source, type=LinkType.ABOUT)
        yield meter.piece(relation)


def _handoffs(tables: Tables, meter: Meter) -> Iterator[Piece]:
    columns = ("id", "source", "project", "content", "created_at")
    for row in readable(tables, "handoffs", columns=columns, order="id", meter=meter):
        if isinstance(row, Piece):
            yield row
            continue
        at = time_in(row, "created_at")
        draft = Draft(
            body=text_in(row, "content"),
            kind=Kind.EPISODE,
            label="handoff",
            project=one_name(text_in(row, "project")),
            source_ref=_ref("handoff", row.get("id")),
            occurred_at=at,
            author=one_name(text_in(row, "source")),
            detail=EpisodeDetail(ended_at=at),
        )
        yield from map(meter.piece, fitted(draft))


def _evidence(tables: Tables) -> Iterator[Relation]:
    """Yield which incident is behind which rule; each table may name it."""
    pairs: dict[tuple[str, str], None] = {}
    for row in tables.rows("rules", ("id", "linked_incident_ids"), order="id"):
        if not isinstance(row, Unreadable):
            ids = ids_in(names_of_array(row.get("linked_incident_ids")))
            pairs.update(dict.fromkeys((one, text_in(row, "id")) for one in ids))
    for row in tables.rows("incidents", ("id", "linked_rule_ids"), order="id"):
        if not isinstance(row, Unreadable):
            ids = ids_in(names_of_array(row.get("linked_rule_ids")))
            pairs.update(dict.fromkeys((text_in(row, "id"), one) for one in ids))
    for incident, rule in pairs:
        first, second = _ref("incident", incident), _ref("rule", rule)
        yield Relation(first=first, second=second, type=LinkType.SUPPORTS)


# Both versions


def _ref(sort: str, id_: object) -> str:
    """Return the reference of a row; without a sort it is one of version 1."""
    return source_reference("open-brain-v2" if sort else "open-brain", f"{sort}/{id_}".lstrip("/"))


def _annotations(
    tables: Tables, table: str, *, key: str, sort: str, meter: Meter
) -> Iterator[Piece]:
    """Yield the annotations of memories as facts, each linked to what it is about."""
    columns = (key, "annotation", "project", *([sort] if sort else []))
    for row in tables.rows(table, columns, order=key):
        if isinstance(row, Unreadable) or not text_in(row, "annotation"):
            continue
        about = _ref(text_in(row, sort) if sort else "", row.get(key))
        draft = Draft(
            body=text_in(row, "annotation"),
            kind=Kind.FACT,
            label="annotation",
            project=one_name(text_in(row, "project")),
            source_ref=f"{about}/annotation",
        )
        yield from map(meter.piece, fitted(draft))
        relation = Relation(first=draft.source_ref or "", second=about, type=LinkType.ABOUT)
        yield meter.piece(relation)


def _superseded(tables: Tables, table: str, *, by: str, sort: str) -> Iterator[Relation]:
    """Yield which memory corrects which, the oldest first: a dump has its rows in another order."""
    pairs = [
        (whole_in(row, "id"), whole_in(row, by))
        for row in tables.rows(table, ("id", by), order="id")
        if not isinstance(row, Unreadable) and row.get(by) is not None
    ]
    for older, newer in sorted(pairs):
        yield Relation(first=_ref(sort, newer), second=_ref(sort, older), type=None)


def _left(
    tables: Tables,
    named: Mapping[str, tuple[str, str | None]],
    *,
    counted: Mapping[str, int],
    meter: Meter,
) -> Iterator[Piece]:
    ready: Iterable[Omitted] = (
        Omitted(what=what, count=count) for what, count in counted.items() if count
    )
    yield from map(meter.piece, ready)
    yield from map(meter.piece, omissions(tables, named))


IMPORTER: Final = OpenBrain()
