"""One memory: its text, history, sources and actions; and the graph around it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from commonbrain.api.operations.audit import AUDIT, AuditRequest
from commonbrain.api.operations.recalls import RECALLS, RecallsRequest
from commonbrain.history.audit import AuditEntryView
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import Kind
from commonbrain.model.limits import IDS_PER_GET_MAX
from commonbrain.model.memory import State, full_text
from commonbrain.retrieval.get import MemoryView, View
from commonbrain.retrieval.log import RecallView
from commonbrain.web.screens.screen import Screen
from commonbrain.web.visit import Visit, read_memories, read_visible, revision_ids

_AUDIT_LINES: Final = 20
_RECALLS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionRow:
    """One text of a memory's chain of revisions."""

    id: str
    text: str | None
    """None if it was forgotten."""
    memory: MemoryView


@dataclass(frozen=True, slots=True, kw_only=True)
class OneMemoryView:
    """A memory with everything that the store has about it."""

    memory: MemoryView
    text: str | None
    """The headline and body; None if it was forgotten."""
    revisions: tuple[RevisionRow, ...]
    """All texts of its chain of revisions, oldest first; only its own if it was never revised."""
    headlines: Mapping[str, str]
    """The headlines of the memories that it disagrees with, by id."""
    audit: tuple[AuditEntryView, ...]
    """The newest lines of the audit about it; empty unless the person is an admin."""
    recalls: tuple[RecallView, ...]
    """The latest recalls that returned it, of those that the person may read."""


def _load(visit: Visit) -> OneMemoryView:
    id_ = visit.path["id"]
    [memory] = read_memories(visit, [id_], views=list(View))
    audit = ()
    if visit.can(AUDIT.role):
        audit = visit.call(AUDIT, AuditRequest(memory=id_, limit=_AUDIT_LINES)).lines
    request = RecallsRequest(memory=memory.id, limit=_RECALLS)
    return OneMemoryView(
        memory=memory,
        text=_text(memory),
        revisions=tuple(
            RevisionRow(id=revision.id, text=_text(revision), memory=revision)
            for revision in read_memories(visit, revision_ids(memory)[-IDS_PER_GET_MAX:])
        ),
        headlines={
            other.id: other.headline
            for other in read_visible(
                visit, (id_ for one in memory.conflicts or () for id_ in one.ids)
            ).values()
        },
        audit=audit,
        recalls=visit.call(RECALLS, request).recalls,
    )


def _text(memory: MemoryView) -> str | None:
    return None if memory.body is None else full_text(memory.headline, memory.body)


MEMORY: Final = Screen(name="memory", path="/memory/{id}", title="Memory", load=_load)


NODES_MAX: Final = 300
"""More do not fit a screen, and laying them out takes a browser seconds."""
DEPTH_MAX: Final = 4
_DEPTH_DEFAULT: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A memory of the graph."""

    id: str
    headline: str
    kind: Kind
    state: State
    distance: int
    """Links from the memory in the centre."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """A link of the graph: `source` causes, supports or changes `target`."""

    source: str
    target: str
    type: str
    """The type of the link, or `supersedes`."""
    strength: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphView:
    """The memories that a number of links connect to one memory."""

    center: str
    headline: str
    depth: int
    nodes: tuple[Node, ...]
    """The centre first, then by distance."""
    edges: tuple[Edge, ...]
    is_cut: bool
    """Whether there are more memories than are shown."""

    def edges_of(self, node: Node) -> Iterator[tuple[Edge, Node]]:
        """List the links of a node, with the node at the other end."""
        by_id = {one.id: one for one in self.nodes}
        for edge in self.edges:
            if node.id in (edge.source, edge.target):
                yield edge, by_id[edge.target if edge.source == node.id else edge.source]


def _load_graph(visit: Visit) -> GraphView:
    depth = _depth(visit)
    center = visit.path["id"]
    nodes: dict[str, Node] = {}
    edges: dict[tuple[str, str, str], Edge] = {}
    frontier, is_cut = [center], False
    for distance in range(depth + 1):
        reached: set[str] = set()
        for memory in read_memories(visit, frontier, views=(View.LINKS, View.HISTORY)):
            nodes[memory.id] = Node(
                id=memory.id,
                headline=memory.headline,
                kind=memory.kind,
                state=memory.state,
                distance=distance,
            )
            for edge in _edges(memory):
                edges[edge.source, edge.target, edge.type] = edge
            reached |= {end for edge in _edges(memory) for end in (edge.source, edge.target)}
        new = sorted(reached - nodes.keys())
        free = NODES_MAX - len(nodes)
        is_cut = is_cut or (distance < depth and len(new) > free)
        frontier = new[:free]
    shown = tuple(e for e in edges.values() if e.source in nodes and e.target in nodes)
    [first, *_] = nodes.values()
    return GraphView(
        center=first.id,
        headline=first.headline,
        depth=depth,
        nodes=tuple(nodes.values()),
        edges=shown,
        is_cut=is_cut,
    )


def _depth(visit: Visit) -> int:
    given = visit.text("depth") or str(_DEPTH_DEFAULT)
    if len(given) > 1 or not given.isdecimal() or not 1 <= int(given) <= DEPTH_MAX:
        raise InvalidInputError(f"depth is {given[:20]!r}.", hint=f"Give 1 to {DEPTH_MAX}.")
    return int(given)


def _edges(memory: MemoryView) -> Iterator[Edge]:
    """List the links of a memory, and of its chain of revisions each to the one before."""
    for link in memory.links or ():
        source, target = (memory.id, link.id) if link.is_outgoing else (link.id, memory.id)
        yield Edge(source=source, target=target, type=str(link.type), strength=link.strength)
    for old, new in pairwise(revision_ids(memory)):
        yield Edge(source=new, target=old, type="supersedes", strength=1.0)


GRAPH: Final = Screen(name="graph", path="/graph/{id}", title="Graph", load=_load_graph)
