"""Zep and Graphiti: a JSON export of edges, episodes and nodes.

An edge becomes a fact, valid from `valid_at`. Graphiti ends an edge at the start of the one that
contradicts it: where a single edge of the same name and from the same entity begins when it became
invalid, that one supersedes it; otherwise it expires then. An episode becomes an event, or a
message if it is one, and the summary of an entity a fact. Read are the fields of `EntityEdge`,
`EpisodicNode` and `EntityNode` (getzep/graphiti, graphiti_core/edges.py and nodes.py, 0.31), which
Zep's API gives as well, in an object with the lists `edges`, `episodes` and `nodes`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from commonbrain.model.kinds import Kind, MessageDetail
from commonbrain.model.links import LinkType
from commonbrain.model.memory import Draft, ThreadRef
from commonbrain.transfer.importer import (
    Content,
    Importer,
    ImportItem,
    SourceRelation,
    name_or_none,
    source_reference,
)
from commonbrain.transfer.importers.chats import Tally
from commonbrain.transfer.importers.json_lines import as_object
from commonbrain_import.graphs import about
from commonbrain_import.json_files import Element, read_elements
from commonbrain_import.rows import Row, about_entity, ids_in, names_in, text_in, time_in

_HINT: Final = "Give a JSON object with the lists edges, episodes and nodes of the graph."
_EDGES: Final = frozenset({"edges", "entity_edges", "facts", "relevant_facts"})
_EPISODES: Final = frozenset({"episodes", "episodic_nodes", "messages"})
_NODES: Final = frozenset({"nodes", "entity_nodes", "entities"})
_LISTS: Final = _EDGES | _EPISODES | _NODES
_MESSAGE: Final = "message"


class GraphitiExport(Importer):
    """Reads an export of a Zep or Graphiti graph."""

    name = "graphiti"
    purpose = "Zep and Graphiti: edges, episodes and nodes in JSON"
    has_relations = True

    def read(self, source: Path) -> Iterator[ImportItem]:
        """Yield the lists in the order of the file, then the relations.

        Raises:
            InvalidInputError: the file is missing, not JSON, or holds none of the lists; raised
                before the first piece.

        """
        reader = _Reader()
        yield from read_elements(
            source, reader.read, shows_format=_is_known, what="export of a graph", hint=_HINT
        )
        for content in reader.relations():
            yield ImportItem(content=content, progress=1.0)
        yield from reader.omitted.pieces()


def _is_known(element: Element) -> bool:
    fields = as_object(element.value) if element.is_in_list else None
    if fields is None:
        return False
    return element.key in _LISTS or (element.key == "" and bool({"fact", "content"} & set(fields)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Span:
    """When an edge holds, and of what: the entity that it begins at and its name."""

    reference: str
    about: tuple[str, str]
    start: datetime | None
    end: datetime | None


@dataclass(slots=True, kw_only=True)
class _Reader:
    """Makes drafts, and notes what relates them: some hundred bytes for each edge."""

    spans: list[_Span] = field(default_factory=list[_Span])
    sources: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """An edge and an episode that it is derived from."""
    omitted: Tally = field(default_factory=Tally)

    def read(self, element: Element) -> Iterator[Content]:
        fields = as_object(element.value) if element.is_in_list else None
        if fields is None or (element.key and element.key not in _LISTS):
            self.omitted[f"entries of {element.key}"] += bool(element.key)
        elif "fact" in fields:
            yield from self._edge(fields)
        elif "content" in fields:
            yield from self._episode(fields)
        else:
            yield from self._node(fields)

    def _edge(self, fields: Row) -> Iterator[Content]:
        reference, body = _reference("edge", fields), text_in(fields, "fact")
        self._count(fields, "fact_embedding")
        span = _Span(
            reference=reference,
            about=(text_in(fields, "source_node_uuid"), text_in(fields, "name")),
            start=time_in(fields, "valid_at"),
            end=time_in(fields, "invalid_at", "expired_at"),
        )
        self.spans.append(span)
        episodes = ids_in(fields.get("episodes"))
        self.sources += [
            (reference, source_reference("graphiti", f"episode/{e}")) for e in episodes
        ]
        yield Draft(
            body=body,
            kind=Kind.FACT,
            project=name_or_none(text_in(fields, "group_id", "graph_id")),
            tags=names_in([text_in(fields, "name")]),
            source_ref=reference,
            occurred_at=time_in(fields, "valid_at", "created_at"),
            expires_at=time_in(fields, "invalid_at", "expired_at"),
        )

    def _episode(self, fields: Row) -> Iterator[Content]:
        reference, body = _reference("episode", fields), text_in(fields, "content")
        is_message = text_in(fields, "source") == _MESSAGE
        group = text_in(fields, "session_id", "thread_id", "group_id") or "graph"
        sender = text_in(fields, "role_name", "role", "role_type")
        key = source_reference("graphiti", f"thread/{group}")
        yield Draft(
            body=body,
            kind=Kind.MESSAGE if is_message else Kind.EVENT,
            project=name_or_none(text_in(fields, "group_id", "graph_id")),
            tags=names_in([text_in(fields, "source_description")]),
            source_ref=reference,
            occurred_at=time_in(fields, "valid_at", "created_at"),
            thread=ThreadRef(key=key, subject=source_reference(group, "")) if is_message else None,
            detail=MessageDetail(sender=name_or_none(sender)) if is_message else None,
        )

    def _node(self, fields: Row) -> Iterator[Content]:
        reference = _reference("node", fields)
        entity, summary = text_in(fields, "name"), text_in(fields, "summary")
        self._count(fields, "name_embedding")
        if not (entity and summary):
            self.omitted["entities without a summary"] += 1
            return
        labels = [one for one in names_in(fields.get("labels")) if one != "Entity"]
        yield Draft(
            body=about(entity, summary),
            kind=Kind.FACT,
            project=name_or_none(text_in(fields, "group_id", "graph_id")),
            tags=names_in(labels),
            source_ref=reference,
            occurred_at=time_in(fields, "created_at"),
            detail=about_entity(entity),
        )

    def _count(self, fields: Row, vector: str) -> None:
        self.omitted["vectors"] += bool(fields.get(vector))
        self.omitted["attributes"] += len(as_object(fields.get("attributes")) or ())

    def relations(self) -> Iterator[SourceRelation]:
        """Yield which edge superseded which, the oldest first, and what edges are derived from."""
        begun: dict[tuple[tuple[str, str], datetime], list[str]] = {}
        for span in self.spans:
            if span.start and all(span.about):
                begun.setdefault((span.about, span.start), []).append(span.reference)
        ended = ((one, one.end) for one in sorted(self.spans, key=_by_start) if one.end)
        for span, end in ended:
            newer = [one for one in begun.get((span.about, end), ()) if one != span.reference]
            if len(newer) == 1:
                yield SourceRelation(first=newer[0], second=span.reference, type=None)
        for first, second in self.sources:
            yield SourceRelation(first=first, second=second, type=LinkType.DERIVED_FROM)


def _by_start(span: _Span) -> tuple[bool, float]:
    return span.start is not None, span.start.timestamp() if span.start else 0.0


def _reference(type_: str, fields: Row) -> str:
    id_ = text_in(fields, "uuid", "uuid_", "id") or text_in(fields, "fact", "content", "name")
    return source_reference("graphiti", f"{type_}/{id_}")


IMPORTER: Final = GraphitiExport()
