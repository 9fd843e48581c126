"""Make the samples of mem0 with its own `Memory`, embedded by a fixed vector.

    pip install mem0ai==2.2.1
    python make_mem0.py samples/mem0

It writes history.sql and storage.sql (dumps of history.db and of Qdrant's storage.sqlite) and
export.json, what `get_all` returns. No model is called. It is not part of the tests.
"""

# pyright: basic, reportMissingImports=false

import json
import os
import sqlite3
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

FOLDER = TemporaryDirectory()
HOME = Path(FOLDER.name)
os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": FOLDER.name, "OPENAI_API_KEY": "none"}

from mem0 import Memory  # noqa: E402 it reads the environment


class Fixed:
    def embed(self, text: str, *_: object, **__: object) -> list[float]:
        return [float(len(text) % 7), 1.0, 0.5]

    def embed_batch(self, texts: list[str], *_: object, **__: object) -> list[list[float]]:
        return [self.embed(text) for text in texts]


store = {
    "collection_name": "mem0",
    "embedding_model_dims": 3,
    "path": str(HOME / "qdrant"),
    "on_disk": True,
}
memory = Memory.from_config(
    {
        "vector_store": {"provider": "qdrant", "config": store},
        "history_db_path": str(HOME / "history.db"),
    }
)
memory.embedding_model = Fixed()


def add(text: str, **given: object) -> str:
    made = memory.add(text, infer=False, **given)
    return made["results"][0]["id"]


port = add("The staging port is 8080.", user_id="ann", metadata={"category": "ports"})
memory.update(port, "The staging port is 9090.")
memory.update(port, "The staging port is 9191.")
add("Ann prefers long answers.", user_id="ann", metadata={"source": "chat", "mood": "calm"})
add("Never book a berth twice for one night.", agent_id="planner", run_id="run-7")
deleted = add("This one is deleted.", user_id="ann")
memory.delete(deleted)
exported = [
    memory.get_all(filters={key: value})
    for key, value in (("user_id", "ann"), ("agent_id", "planner"))
]
results = [one for each in exported for one in each["results"]]
memory.vector_store.client.close()
target = Path(sys.argv[1])
(target / "export.json").write_text(json.dumps({"results": results}, indent=1) + "\n", "utf-8")
for name, path in (
    ("history", HOME / "history.db"),
    ("storage", next((HOME / "qdrant").glob("collection/mem0/storage.sqlite"))),
):
    with sqlite3.connect(path) as connection:
        (target / f"{name}.sql").write_text("\n".join(connection.iterdump()) + "\n", "utf-8")
