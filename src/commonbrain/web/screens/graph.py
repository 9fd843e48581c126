"""The graph around a memory: what causes it, supports it, changes it and depends on it."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from commonbrain.api.operations.get import GetRequest
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import Kind
from commonbrain.model.limits import IDS_PER_GET_MAX
from commonbrain.model.memory import State
from commonbrain.retrieval.get import MemoryView, View
from commonbrain.web.reading import READ_GET, revision_ids
from commonbrain.web.screens.screen import Screen
from commonbrain.web.visit import Visit

NODES_MAX: Final = 300
"""More do not fit a screen, and laying them out takes a browser seconds."""
DEPTH_MAX: Final = 4
_DEPTH_DEFAULT: Final = 2
_VIEWS: Final = [str(View.LINKS), str(View.HISTORY)]


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


def _load(visit: Visit) -> GraphView:
    depth = _depth(visit)
    center = visit.path["id"]
    nodes: dict[str, Node] = {}
    edges: dict[tuple[str, str, str], Edge] = {}
    frontier, is_cut = [center], False
    for distance in range(depth + 1):
        reached: set[str] = set()
        for memory in _memories(visit, frontier):
            nodes[memory.id] = _node(memory, distance)
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


def _memories(visit: Visit, ids: list[str]) -> Iterator[MemoryView]:
    """Fetch memories with their links."""
    for start in range(0, len(ids), IDS_PER_GET_MAX):
        batch = ids[start : start + IDS_PER_GET_MAX]
        request = GetRequest.model_validate({"id": batch, "views": _VIEWS})
        shown = visit.call(READ_GET, request)
        yield from (shown, *shown.more)


def _node(memory: MemoryView, distance: int) -> Node:
    return Node(
        id=memory.id,
        headline=memory.headline,
        kind=memory.kind,
        state=memory.state,
        distance=distance,
    )


def _edges(memory: MemoryView) -> Iterator[Edge]:
    """List the links of a memory, and of its chain of revisions each to the one before."""
    for link in memory.links or ():
        source, target = (memory.id, link.id) if link.is_outgoing else (link.id, memory.id)
        yield Edge(source=source, target=target, type=str(link.type), strength=link.strength)
    for old, new in pairwise(revision_ids(memory)):
        yield Edge(source=new, target=old, type="supersedes", strength=1.0)


GRAPH: Final = Screen(name="graph", path="/graph/{id}", title="Graph", load=_load)
