"""`brain embeddings`: from the default embedder to an endpoint's, and back."""

import json
from collections.abc import Iterator

import pytest

from tests.doors.conftest import Command
from tests.models.server import MODEL, ModelServer

NEXT = f"ollama/{MODEL}/384"
MINILM = "minilm"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with ModelServer() as server:
        monkeypatch.setenv("COMMONBRAIN_EMBEDDER_NEXT_URL", server.base("ollama"))
        monkeypatch.setenv("COMMONBRAIN_EMBEDDER_NEXT", NEXT)
        yield server


def test_a_store_is_moved_to_another_embedder_by_the_command(
    command: Command, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for fact in ("The kettle is in the blue cupboard.", "The ladder leans on the red wall."):
        assert command("remember", fact, "--kind", "fact")[0] == 0
    assert command("recall", "Where is the kettle?")[0] == 0

    code, told = command("embeddings", "build")
    assert code == 0, told
    assert f"{NEXT}: embedded 2 memories, 0 lack vectors." in told
    assert server.asked

    code, told = command("embeddings", "compare")
    assert code == 0, told
    assert "1 question, 0 with marks" in told
    assert "The difference is not significant." in told

    assert "Would let" in command("embeddings", "switch", NEXT, "--dry-run")[1]
    code, told = command("embeddings", "switch", NEXT, "--json")
    assert code == 0
    before = json.loads(told)["before"]
    listed = json.loads(command("embeddings", "list", "--json")[1])
    assert {one["name"]: one["state"] for one in listed} == {before: "retired", NEXT: "current"}
    code, told = command("recall", "kettle")
    assert code == 0
    assert f"{NEXT} serves now" in told

    monkeypatch.setenv("COMMONBRAIN_EMBEDDER", "ollama")
    monkeypatch.setenv("COMMONBRAIN_EMBEDDER_MODEL", MODEL)
    monkeypatch.setenv("COMMONBRAIN_EMBEDDER_DIMENSIONS", "384")
    monkeypatch.setenv("COMMONBRAIN_EMBEDDER_URL", server.base("ollama"))
    code, told = command("recall", "kettle")
    assert "blue cupboard" in told
    assert "serves now" not in told
    assert "Deleted 2 vectors." in command("embeddings", "drop", before, "--compact")[1]
    assert command("embeddings", "drop", before)[0] != 0
    assert NEXT in command("embeddings", "list")[1]


def test_an_embedder_that_is_none_is_told_with_those_there_are(command: Command) -> None:
    code, told = command("embeddings", "build", "elsewhere/8")
    assert code != 0
    assert "ollama/nomic-embed-text/768" in told
    code, told = command("embeddings", "build")
    assert code != 0
    assert "COMMONBRAIN_EMBEDDER_NEXT" in told
