"""Open Brain: the memories of its first or second version in Postgres, or in a plain dump.

Written by https://github.com/shep-engineering/open-brain: the first version by `server.py`, schema
in `scripts/setup_db.py` and `scripts/migrate_v*.py` (0.14); the second by `brain_v2/store.py`,
schema in `brain_v2/schema.py`. Columns that a version does not have are left out.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
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
    Content,
    Importer,
    ImportItem,
    SourceAnnotation,
    SourceRelation,
    check_is_path,
    database_url,
    name_or_none,
    shorten_name,
    shown_source,
    source_reference,
)
from commonbrain.transfer.importers.chats import Tally
from commonbrain.transfer.importers.json_lines import as_object
from commonbrain_import.databases import TableMeter, Tables, omissions, readable, row_count
from commonbrain_import.postgres_tables import names_of_array, open_postgres
from commonbrain_import.rows import (
    Row,
    choice_in,
    flag_in,
    ids_in,
    json_in,
    names_in,
    share_in,
    text_in,
    time_in,
    whole_in,
)

_HINT: Final = (
    "Give the URL of its database, such as postgresql://postgres@localhost:5432/openbrain "
    "(version 2: port 5433, open_brain_v2), or a plain dump of pg_dump."
)


class OpenBrain(Importer):
    """Reads a database of Open Brain by its URL, or a dump of it."""

    name = "open-brain"
    purpose = "Open Brain 1 and 2: a Postgres URL, or a plain pg_dump file"
    has_relations = True
    reads_database = True

    def read(self, source: Path) -> Iterator[ImportItem]:
        """Yield the memories in the order of their ids, then their annotations and relations.

        Raises:
            InvalidInputError: the database or the file cannot be read, or holds neither version;
                raised before the first piece.

        """
        url = database_url(source)
        if url is None:
            check_is_path(source)
        with open_postgres(url or source, hint=_HINT) as tables:
            yield from _pieces(tables, shown_source(source))
            unread = tables.count_unread({"memories", "memory_index", *_SECOND_COLUMNS})
            yield from Tally({"rows of the same tables in other schemas": unread}).pieces()


def _pieces(tables: Tables, shown: str) -> Iterator[ImportItem]:
    has_second = {"rules", "facts", "memory_index"} <= set(tables.columns)
    if has_second:
        return _second_version(tables)
    if {"content", "metadata"} <= set(tables.columns.get("memories", ())):
        return _first_version(tables)
    raise InvalidInputError(f"{shown} has no tables of Open Brain.", hint=_HINT)


# Version 1

_FIRST_COLUMNS: Final = (
    "id content metadata created_at project annotation upvotes downvotes pinned projects "
    "valid_time transaction_time access_count last_accessed skill_trigger superseded_by_id "
    "superseded_at superseded_reason"
).split()
_FIRST_OMITTED: Final = {
    "vectors": ("memories", "embedding"),
    "times of the last change": ("memories", "updated_at"),
    "uptimes at the last access": ("memories", "last_accessed_uptime"),
    "audit entries": ("memories_audit", None),
    "sessions": ("active_sessions", None),
    "uptimes of the server": ("server_uptime", None),
}
_METADATA: Final = frozenset(
    {"type", "people", "topics", "action_items", "tags", "source", "auto_captured"}
)


def _first_version(tables: Tables) -> Iterator[ImportItem]:
    meter = TableMeter(total=row_count(tables, ["memories"]))
    tally = Tally()

    def memory(row: Row) -> Iterator[Content]:
        metadata = as_object(json_in(row, "metadata")) or {}
        tally["action items that the texts state"] += len(ids_in(metadata.get("action_items")))
        tally["metadata of other names"] += len(metadata.keys() - _METADATA)
        recorded_at, created_at = time_in(row, "transaction_time"), time_in(row, "created_at")
        tally["transaction times after the creation"] += recorded_at not in {None, created_at}
        tally[_NO_SKILL] += _has_lost_trigger(row)
        yield _first_draft(row, metadata)
        yield from _annotation(row, about=_ref("", row.get("id")))

    yield from meter.read(tables, "memories", columns=_FIRST_COLUMNS, make=memory)
    yield from map(meter.piece, _superseded(tables, "memories", sort=""))
    tally.update(omissions(tables, _FIRST_OMITTED, known={"memories": _FIRST_COLUMNS}))
    yield from tally.pieces()


def _first_draft(row: Row, metadata: Row) -> Draft:
    body = text_in(row, "content")
    sort = text_in(metadata, "type") or "note"
    kind, label = kind_and_label(sort) or (Kind.FACT, sort)
    trigger = _trigger(row)
    is_rule = classify(body) is Kind.RULE and flag_in(row, "pinned")
    if trigger is not None or (is_rule and kind is Kind.FACT):
        # Only rules have triggers, and a pinned text that commands was a guardrail.
        kind, label = Kind.RULE, label or sort
    projects = _projects(row)
    return Draft(
        body=body,
        kind=kind,
        label=name_or_none(label),
        project=projects[0],
        tags=names_in(
            [
                *names_in(metadata.get("tags")),
                *names_in(metadata.get("topics")),
                *(f"project:{one}" for one in projects[1:]),
            ]
        ),
        people=names_in(metadata.get("people")),
        source_ref=_ref("", row.get("id")),
        occurred_at=time_in(row, "valid_time", "created_at"),
        believed_since=time_in(row, "created_at"),
        auto_captured=flag_in(metadata, "auto_captured"),
        author=name_or_none(text_in(metadata, "source")),
        access_count=whole_in(row, "access_count"),
        last_access_at=time_in(row, "last_accessed"),
        detail=RuleDetail(skill=trigger) if kind is Kind.RULE else None,
        pinned=flag_in(row, "pinned"),
        rating=_rating(row),
    )


def _projects(row: Row) -> tuple[str | None, ...]:
    """Return the project of a memory, and the further ones that show it."""
    own = text_in(row, "project")
    listed = names_in(names_of_array(row.get("projects")))
    named = tuple(dict.fromkeys(filter(None, (shorten_name(own) if own else "", *listed))))
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


_NO_SKILL: Final = "triggers that no skill has"


def _has_lost_trigger(row: Row) -> bool:
    return bool(row.get("skill_trigger")) and _trigger(row) is None


# Version 2

_SECOND_OMITTED: Final = {
    "vectors": ("memory_index", "embedding"),
    "archived marks": ("incidents", "archived"),
    "sessions that made tasks": ("tasks", "created_session"),
    "times of the last change": ("tasks", "updated_at"),
    "sessions of handoffs": ("handoffs", "session_id"),
    "audit entries": ("v2_audit", None),
    "sessions": ("active_sessions", None),
    "tool calls": ("tool_events", None),
    "maintenance runs": ("maintenance_runs", None),
}
_SECOND_COLUMNS: Final[Mapping[str, Sequence[str]]] = {
    "rules": (
        "id headline body severity project source skill_trigger supersedes superseded_by "
        "supersede_reason linked_incident_ids created_at"
    ).split(),
    "facts": (
        "id headline body project tags ttl confidence source access_count last_accessed supersedes "
        "superseded_by supersede_reason created_at"
    ).split(),
    "incidents": (
        "id headline body project root_cause resolution occurred_at linked_rule_ids last_accessed "
        "source"
    ).split(),
    "tasks": "id content project priority status due_condition created_at".split(),
    "action_items": (
        "id source_kind source_id text project status created_at kind ack_reason ack_source ack_at"
    ).split(),
    "handoffs": "id source project content created_at".split(),
}
_INDEX_COLUMNS: Final = (
    "kind memory_id pinned active forgotten_at upvotes downvotes annotation created_at"
).split()
_REPEATED: Final = "project headline severity skill_trigger forgotten_reason forgotten_by".split()
"""Columns of the index that memories have as well, or that only deleted ones have."""
_SEVERITIES: Final = frozenset({"BLOCKER", "PATTERN", "DEPRECATED", ""})
"""What is in a rule, or tells that it is superseded; no other kind has one."""
_ACTION_ITEM: Final = "action-item"


def _second_version(tables: Tables) -> Iterator[ImportItem]:
    meter = TableMeter(total=row_count(tables, _SECOND_COLUMNS))
    marks = _marks(tables)
    tally = Tally()

    def memory(sort: str, row: Row) -> Iterator[Content]:
        mark = marks.get((sort, whole_in(row, "id")), {})
        is_undone = sort == Kind.RULE and row.get("superseded_by") is None and "active" in mark
        if mark.get("forgotten_at") is not None:
            tally["deleted memories"] += 1
        elif is_undone and not flag_in(mark, "active"):
            tally["withdrawn rules"] += 1
        else:
            tally[_NO_SKILL] += _has_lost_trigger(row)
            tally["severities that no rule has"] += text_in(row, "severity") not in _SEVERITIES
            yield from _second_contents(sort, row, mark=mark)

    for table, columns in _SECOND_COLUMNS.items():
        # The rows of action_items are of the sort action-item.
        make = partial(memory, table.removesuffix("s").replace("_", "-"))
        yield from meter.read(tables, table, columns=columns, make=make)
    for table, sort in (("rules", Kind.RULE), ("facts", Kind.FACT)):
        yield from map(meter.piece, _superseded(tables, table, sort=sort))
    yield from map(meter.piece, _evidence(tables))
    known = {**_SECOND_COLUMNS, "memory_index": (*_INDEX_COLUMNS, *_REPEATED)}
    tally.update(omissions(tables, _SECOND_OMITTED, known=known))
    yield from tally.pieces()


def _marks(tables: Tables) -> Mapping[tuple[str, int], Row]:
    """Return the rows of the index that say more than the memory; few facts and tasks have one."""
    return {
        (text_in(row, "kind"), whole_in(row, "memory_id")): row
        for row in readable(tables, "memory_index", columns=_INDEX_COLUMNS, order="memory_id")
        # When an incident was recorded, and whether a rule holds, is here alone.
        if text_in(row, "kind") in {Kind.INCIDENT, Kind.RULE}
        or flag_in(row, "pinned")
        or text_in(row, "annotation")
        or row.get("forgotten_at") is not None
        or _rating(row)
    }


def _second_contents(sort: str, row: Row, *, mark: Row) -> Iterator[Content]:
    about = _ref(sort, row.get("id"))
    draft = Draft(
        body=text_in(row, "body", "content", "text", "headline"),
        kind=sort,
        headline=text_in(row, "headline") or None,
        project=name_or_none(text_in(row, "project")),
        confidence=share_in(row, "confidence"),
        tags=names_in(names_of_array(row.get("tags"))),
        source_ref=about,
        occurred_at=time_in(row, "occurred_at", "created_at"),
        believed_since=time_in(row, "created_at") or time_in(mark, "created_at"),
        expires_at=time_in(row, "ttl"),
        author=name_or_none(text_in(row, "source")),
        access_count=whole_in(row, "access_count"),
        last_access_at=time_in(row, "last_accessed"),
        pinned=flag_in(mark, "pinned"),
        rating=_rating(mark),
    )
    yield _DETAILED.get(sort, lambda draft, _: draft)(draft, row)
    yield from _annotation(mark, about=about)
    if sort == _ACTION_ITEM:
        source = _ref(text_in(row, "source_kind"), row.get("source_id"))
        yield SourceRelation(
            first=about, second=source, type=LinkType.ABOUT, at=draft.believed_since
        )
        yield from _answer(row, about=about)


def _rule(draft: Draft, row: Row) -> Draft:
    severity = text_in(row, "severity")
    # A deprecated rule has lost its severity; its words still have one.
    known = severity if severity in {"BLOCKER", "PATTERN"} else None
    return replace(draft, severity=known, detail=RuleDetail(skill=_trigger(row)))


def _incident(draft: Draft, row: Row) -> Draft:
    cause, resolution = text_in(row, "root_cause"), text_in(row, "resolution")
    detail = IncidentDetail(root_cause=cause or None, resolution=resolution or None)
    return replace(draft, detail=detail)


def _task(draft: Draft, row: Row) -> Draft:
    """Return a task with its columns; a condition that is no time stays in the text."""
    condition, due_at = text_in(row, "due_condition"), time_in(row, "due_condition")
    body = f"{draft.body}\n[due: {condition}]" if condition and due_at is None else draft.body
    detail = TaskDetail(
        status=choice_in(row, "status", default=TaskStatus.OPEN),
        priority=choice_in(row, "priority", default=TaskPriority.MEDIUM),
        due_at=due_at,
    )
    return replace(draft, body=body, detail=detail)


def _action_item(draft: Draft, row: Row) -> Draft:
    """Return an action item as a task, which blocks no writer."""
    is_open = text_in(row, "status") in {"pending", "will_execute"}
    return replace(
        draft,
        kind=Kind.TASK,
        label="action_item",
        tags=("rule",) if text_in(row, "kind") == Kind.RULE else (),
        detail=TaskDetail(status=TaskStatus.OPEN if is_open else TaskStatus.DONE),
    )


def _answer(row: Row, *, about: str) -> Iterator[SourceAnnotation]:
    """Yield how an agent acknowledged an action item, and why."""
    answer = ": ".join(filter(None, (text_in(row, "status"), text_in(row, "ack_reason"))))
    if answer != "pending":
        author, at = name_or_none(text_in(row, "ack_source")), time_in(row, "ack_at")
        yield SourceAnnotation(about=about, text=answer, author=author, at=at)


def _handoff(draft: Draft, _: Row) -> Draft:
    detail = EpisodeDetail(ended_at=draft.occurred_at)
    return replace(draft, kind=Kind.EPISODE, label="handoff", detail=detail)


_DETAILED: Final[Mapping[str, Callable[[Draft, Row], Draft]]] = {
    Kind.RULE: _rule,
    Kind.INCIDENT: _incident,
    Kind.TASK: _task,
    _ACTION_ITEM: _action_item,
    "handoff": _handoff,
}


def _evidence(tables: Tables) -> Iterator[SourceRelation]:
    """Yield which incident is behind which rule; each table may name it."""
    pairs: dict[tuple[str, str], None] = {}
    for table, column in (("rules", "linked_incident_ids"), ("incidents", "linked_rule_ids")):
        for row in readable(tables, table, columns=("id", column)):
            own = text_in(row, "id")
            for other in ids_in(names_of_array(row.get(column))):
                pairs[(other, own) if table == "rules" else (own, other)] = None
    for incident, rule in pairs:
        first, second = _ref("incident", incident), _ref("rule", rule)
        yield SourceRelation(first=first, second=second, type=LinkType.SUPPORTS)


# Both versions


def _ref(sort: str, id_: object) -> str:
    """Return the reference of a row; without a sort it is one of version 1."""
    return source_reference("open-brain-v2" if sort else "open-brain", f"{sort}/{id_}".lstrip("/"))


def _rating(row: Row) -> int:
    return whole_in(row, "upvotes") - whole_in(row, "downvotes")


def _annotation(row: Row, *, about: str) -> Iterator[SourceAnnotation]:
    if text_in(row, "annotation"):
        yield SourceAnnotation(about=about, text=text_in(row, "annotation"))


_CORRECTIONS: Final = (
    "id superseded_by superseded_by_id supersede_reason superseded_reason superseded_at created_at"
).split()
"""What both versions have of a correction."""


def _superseded(tables: Tables, table: str, *, sort: str) -> Iterator[SourceRelation]:
    """Yield which memory corrects which, the oldest first: a dump has its rows in another order.

    The reason is with the older one, except of rules. Where no time is, the newer one has it.
    """
    corrected = {
        whole_in(row, "id"): (row, newer)
        for row in readable(tables, table, columns=_CORRECTIONS)
        if (newer := text_in(row, "superseded_by", "superseded_by_id"))
    }
    ids = {newer for _, newer in corrected.values()}
    corrections = {
        id_: row
        for row in readable(tables, table, columns=_CORRECTIONS)
        if (id_ := text_in(row, "id")) in ids
    }
    for older, (row, newer) in sorted(corrected.items()):
        correction = corrections.get(newer, {})
        with_reason = correction if sort == Kind.RULE else row
        yield SourceRelation(
            first=_ref(sort, newer),
            second=_ref(sort, older),
            type=None,
            reason=text_in(with_reason, "supersede_reason", "superseded_reason") or None,
            at=time_in(row, "superseded_at") or time_in(correction, "created_at"),
        )


IMPORTER: Final = OpenBrain()
