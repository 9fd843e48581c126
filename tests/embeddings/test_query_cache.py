"""The embedder that knows what it was asked before."""

from collections.abc import Iterator

import pytest

from commonbrain.embeddings.interface import CACHED_QUERIES_MAX, CachingEmbedder
from commonbrain.model.errors import UnavailableError
from tests.model_server import ModelServer

QUESTION = "Where does Ann live?"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


def repeating(server: ModelServer) -> CachingEmbedder:
    return CachingEmbedder(server.embedder("ollama", retries=0))


def test_repeated_query_is_embedded_once(server: ModelServer) -> None:
    embedder = repeating(server)

    first = embedder.query(QUESTION)

    assert (embedder.query(QUESTION) == first).all()
    assert (server.embedder("ollama").query(QUESTION) == first).all()
    assert len(server.requests) == 2


def test_returned_vector_is_read_only(server: ModelServer) -> None:
    embedder = repeating(server)

    with pytest.raises(ValueError, match="read-only"):
        embedder.query(QUESTION)[0] = 2


def test_failed_embedding_is_not_cached(server: ModelServer) -> None:
    embedder = repeating(server)
    server.is_down = True
    with pytest.raises(UnavailableError):
        embedder.query(QUESTION)
    server.is_down = False

    assert embedder.query(QUESTION).shape == (384,)


def test_least_recently_used_vector_is_evicted(server: ModelServer) -> None:
    embedder = repeating(server)
    embedder.query(QUESTION)
    for number in range(CACHED_QUERIES_MAX):
        embedder.query(str(number))
    before = len(server.requests)

    embedder.query(str(CACHED_QUERIES_MAX - 1))
    assert len(server.requests) == before
    embedder.query(QUESTION)
    assert len(server.requests) == before + 1
