"""The embedder that knows what it was asked before."""

import pytest

from commonbrain.embeddings.interface import CACHED_QUERIES_MAX, CachingEmbedder
from commonbrain.model.errors import UnavailableError
from tests.models.server import ModelServer

QUESTION = "Where does Ann live?"


def repeating(server: ModelServer) -> CachingEmbedder:
    return CachingEmbedder(server.embedder("ollama", retries=0))


def test_the_same_question_is_embedded_once(server: ModelServer) -> None:
    embedder = repeating(server)

    first = embedder.query(QUESTION)

    assert (embedder.query(QUESTION) == first).all()
    assert (server.embedder("ollama").query(QUESTION) == first).all()
    assert len(server.asked) == 2


def test_nobody_can_change_what_the_next_one_is_given(server: ModelServer) -> None:
    embedder = repeating(server)

    with pytest.raises(ValueError, match="read-only"):
        embedder.query(QUESTION)[0] = 2


def test_a_failure_is_not_kept(server: ModelServer) -> None:
    embedder = repeating(server)
    server.is_down = True
    with pytest.raises(UnavailableError):
        embedder.query(QUESTION)
    server.is_down = False

    assert embedder.query(QUESTION).shape == (384,)


def test_what_was_asked_longest_ago_is_forgotten(server: ModelServer) -> None:
    embedder = repeating(server)
    embedder.query(QUESTION)
    for number in range(CACHED_QUERIES_MAX):
        embedder.query(str(number))
    before = len(server.asked)

    embedder.query(str(CACHED_QUERIES_MAX - 1))
    assert len(server.asked) == before
    embedder.query(QUESTION)
    assert len(server.asked) == before + 1
