"""Make the sample of Graphiti with its own models, without a graph database.

    pip install graphiti-core==0.31.2
    python make_graphiti.py samples/graphiti/graph.json

Its `model_dump` writes the fields that its drivers store. It is not part of the tests.
"""

# pyright: basic, reportMissingImports=false

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from graphiti_core.edges import EntityEdge
from graphiti_core.nodes import EntityNode, EpisodeType, EpisodicNode


def day(number: int) -> datetime:
    return datetime(2026, 3, number, tzinfo=UTC)


GROUP = "harbour"
nodes = [
    EntityNode(
        uuid="n1",
        name="Ann",
        group_id=GROUP,
        labels=["Entity", "Person"],
        summary="Ann leads the pilots of the harbour.",
        created_at=day(1),
    ),
    EntityNode(uuid="n2", name="Bergen", group_id=GROUP, summary="", created_at=day(1)),
    EntityNode(uuid="n3", name="Oslo", group_id=GROUP, summary="", created_at=day(5)),
]
episodes = [
    EpisodicNode(
        uuid="e1",
        name="chat 1",
        group_id=GROUP,
        source=EpisodeType.message,
        source_description="chat",
        content="Ann: I live in Bergen.",
        created_at=day(1),
        valid_at=day(1),
        entity_edges=["r1"],
    ),
    EpisodicNode(
        uuid="e2",
        name="note",
        group_id=GROUP,
        source=EpisodeType.text,
        source_description="note",
        content="Ann has moved to Oslo.",
        created_at=day(5),
        valid_at=day(5),
        entity_edges=["r2"],
    ),
]
edges = [
    EntityEdge(
        uuid="r1",
        group_id=GROUP,
        source_node_uuid="n1",
        target_node_uuid="n2",
        created_at=day(1),
        name="LIVES_IN",
        fact="Ann lives in Bergen",
        episodes=["e1"],
        valid_at=day(1),
        invalid_at=day(5),
        expired_at=day(6),
        fact_embedding=[0.1, 0.2],
    ),
    EntityEdge(
        uuid="r2",
        group_id=GROUP,
        source_node_uuid="n1",
        target_node_uuid="n3",
        created_at=day(5),
        name="LIVES_IN",
        fact="Ann lives in Oslo",
        episodes=["e2"],
        valid_at=day(5),
        fact_embedding=[0.1, 0.3],
    ),
    EntityEdge(
        uuid="r3",
        group_id=GROUP,
        source_node_uuid="n1",
        target_node_uuid="n3",
        created_at=day(2),
        name="RENTS",
        fact="Ann rents a boat until April",
        valid_at=day(2),
        invalid_at=datetime(2026, 4, 1, tzinfo=UTC),
        episodes=[],
    ),
]
lists = {"nodes": nodes, "episodes": episodes, "edges": edges}
dumped = {key: [one.model_dump(mode="json") for one in each] for key, each in lists.items()}
Path(sys.argv[1]).write_text(json.dumps(dumped, indent=1) + "\n", "utf-8")
