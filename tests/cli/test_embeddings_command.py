"""`brain embeddings`: from the default embedder to an endpoint's, and back."""

import json
from collections.abc import Iterator

import pytest

from tests.conftest import Command
from tests.model_server import MODEL, ModelServer

pytestmark = pytest.mark.part("models")

NEXT = f"ollama/{MODEL}/384"
MINILM = "minilm"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with ModelServer() as server:
        monkeypatch.setenv("COMMONBRAIN_EMBEDDER_NEXT_URL", server.base("ollama"))
        monkeypatch.setenv("COMMONBRAIN_EMBEDDER_NEXT", NEXT)
        yield server


def test_command_moves_a_store_to_another_embedder(
    command: Command, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for fact in ("The kettle is in the blue cupboard.", "The ladder leans on the red wall."):
        assert command("remember", fact, "--kind", "fact")[0] == 0
    assert command("recall", "Where is the kettle?")[0] == 0

    code, output = command("embeddings", "build")
    assert code == 0, output
    assert f"{NEXT}: embedded 2 memories, 0 lack vectors." in output
    assert server.requests

    code, output = command("embeddings", "compare")
    assert code == 0, output
    assert "1 question, 0 with marks" in output
    assert "The difference is not significant." in output

    assert "Would let" in command("embeddings", "switch", NEXT, "--dry-run")[1]
    code, output = command("embeddings", "switch", NEXT, "--json")
    assert code == 0
    before = json.loads(output)["before"]
    listed = json.loads(command("embeddings", "list", "--json")[1])
    assert {one["name"]: one["state"] for one in listed} == {before: "retired", NEXT: "current"}
    code, output = command("recall", "kettle")
    assert code == 0
    assert f"{NEXT} serves now" in output

    monkeypatch.setenv("COMMONBRAIN_EMBEDDER", "ollama")
    monkeypatch.setenv("COMMONBRAIN_EMBEDDER_MODEL", MODEL)
    monkeypatch.setenv("COMMONBRAIN_EMBEDDER_DIMENSIONS", "384")
    monkeypatch.setenv("COMMONBRAIN_EMBEDDER_URL", server.base("ollama"))
    code, output = command("recall", "kettle")
    assert "blue cupboard" in output
    assert "serves now" not in output
    assert "Deleted 2 vectors." in command("embeddings", "drop", before, "--compact")[1]
    assert command("embeddings", "drop", before)[0] != 0
    assert NEXT in command("embeddings", "list")[1]


def test_unknown_embedder_is_reported_with_the_known_ones(command: Command) -> None:
    code, output = command("embeddings", "build", "elsewhere/8")
    assert code != 0
    assert "ollama/nomic-embed-text/768" in output
    code, output = command("embeddings", "build")
    assert code != 0
    assert "COMMONBRAIN_EMBEDDER_NEXT" in output
