"""The knowledge graph of the reference MCP memory server: JSON Lines of entities and relations.

Each observation becomes a fact about its entity; an entity without one becomes a fact that says its
type. Each relation becomes a fact that states it, and a link between the two entities: between the
first observations of both. The server (modelcontextprotocol/servers, src/memory/index.ts, version
0.6.3) writes all entities first, but an edited file may have any order, so the file is read twice.
It stores no dates and no authors.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import Kind
from commonbrain.model.memory import Draft
from commonbrain.transfer.importer import (
    Content,
    Importer,
    ImportItem,
    Meter,
    SourceRelation,
    Unreadable,
    source_reference,
)
from commonbrain.transfer.importers.json_lines import as_list, lines, parse
from commonbrain_import.graphs import about, edge_draft, link_type
from commonbrain_import.json_files import open_json
from commonbrain_import.rows import Row, about_entity, fitted, names_in, text_in

_HINT: Final = "Give the memory.jsonl that MEMORY_FILE_PATH names, with one entity on each line."
_TYPES: Final = frozenset({"entity", "relation"})
_PACKAGE: Final = "node_modules/@modelcontextprotocol/server-memory/dist/memory.json"


class McpMemoryGraph(Importer):
    """Reads the graph file of the reference MCP memory server."""

    name = "mcp-memory"
    purpose = "The graph of the reference MCP memory server: memory.jsonl"
    has_relations = True
    # The server writes where MEMORY_FILE_PATH says; without it, into its own package.
    places = (
        *(".aim/memory.jsonl", "memory.jsonl", "mcp-memory/memory.jsonl", ".mcp/memory.jsonl"),
        *(".config/mcp/memory.jsonl", f"{_PACKAGE}l"),
        # Where npx keeps the package, below npm's cache folder.
        *(f".npm/_npx/*/{_PACKAGE}*", f"AppData/Local/npm-cache/_npx/*/{_PACKAGE}*"),
    )

    def read(self, source: Path) -> Iterator[ImportItem]:
        """Yield the facts of all entities, then the relations, each in the order of the file.

        Raises:
            InvalidInputError: the file is missing, or its first object is neither an entity nor a
                relation; raised before the first piece.

        """
        with open_json(source, hint=_HINT) as stream:
            _check(stream, source)
            size = source.stat().st_size
            meter = Meter(total=2 * size)
            for offset, read in ((0, _entities), (size, _relations)):
                stream.seek(0)
                for line in lines(stream):
                    where = f"{source.name}, line {line.number}"
                    meter.done = offset + line.end
                    contents = fitted(read(parse(line, where=where), where))
                    yield from map(meter.piece, contents)


def _check(stream: BinaryIO, source: Path) -> None:
    first = next((parse(line, where=source.name) for line in lines(stream)), None)
    if first is None:
        raise InvalidInputError(f"{source} holds no entity.", hint=_HINT)
    if isinstance(first, Unreadable) or text_in(first, "type") not in _TYPES:
        raise InvalidInputError(f"{source} does not hold an MCP memory graph.", hint=_HINT)


def _entities(line: Row | Unreadable, where: str) -> Iterator[Content]:
    """Yield the facts of an entity; what is neither entity nor relation is reported with them."""
    if isinstance(line, Unreadable):
        yield line
    elif text_in(line, "type") == "entity":
        yield from _entity(line, where)
    elif text_in(line, "type") not in _TYPES:
        yield Unreadable(where=where, reason="Its type is neither entity nor relation.")


def _entity(line: Row, place: str) -> Iterator[Content]:
    entity, type_ = text_in(line, "name"), text_in(line, "entityType")
    if not entity:
        yield Unreadable(where=place, reason="The entity has no name.")
        return
    observations = as_list(line.get("observations")) or ()
    texts = [one.strip() if isinstance(one, str) else "" for one in observations]
    if not any(texts):
        texts = [f"{entity} is of type {type_}" if type_ else entity]
    first = True
    for number, text in enumerate(texts, 1):
        # The first text represents the entity in links.
        where = _reference(entity) if first else source_reference(_reference(entity), f"{number}")
        first = first and not text
        yield Draft(
            body=text and about(entity, text),
            kind=Kind.FACT,
            tags=names_in([type_]),
            source_ref=where,
            detail=about_entity(entity),
        )


def _relations(line: Row | Unreadable, where: str) -> Iterator[Content]:
    """Yield a relation as a fact, and as a link."""
    if isinstance(line, Unreadable) or text_in(line, "type") != "relation":
        return
    first, second = text_in(line, "from"), text_in(line, "to")
    relation = text_in(line, "relationType")
    if not (first and second):
        yield Unreadable(where=where, reason="The relation does not name two entities.")
        return
    yield edge_draft(first, relation, second=second, of="mcp-memory")
    yield SourceRelation(
        first=_reference(first), second=_reference(second), type=link_type(relation)
    )


def _reference(entity: str) -> str:
    return source_reference("mcp-memory", entity)


IMPORTER: Final = McpMemoryGraph()
