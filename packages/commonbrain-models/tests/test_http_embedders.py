"""Embedders behind HTTP: what is sent, what is refused, what is tried again, what is never sent."""

import json
import logging
import socket
from email.utils import format_datetime
from typing import Unpack

import numpy as np
import pytest
from commonbrain_models.endpoint import RetryPolicy
from commonbrain_models.http import BATCH_TEXTS_MAX
from pydantic import SecretStr

from commonbrain.model.errors import InvalidInputError, UnavailableError
from commonbrain.runtime.models import EMBEDDERS, Options, settings_of
from commonbrain.testing.builders import NOON
from tests.model_server import FAMILIES, Answer, EndpointOptions, ModelServer

KEY = "sk-do-not-tell-me"
TEXT = "Ann moved to Lisbon."
IN_BOTH = pytest.mark.parametrize("family", FAMILIES)


def failure(
    server: ModelServer, family: str = "ollama", **options: Unpack[EndpointOptions]
) -> UnavailableError:
    with pytest.raises(UnavailableError) as caught:
        server.embedder(family, **options).query(TEXT)
    assert caught.value.code == "embedder_down"
    assert server.host in caught.value.message
    assert caught.value.hint
    return caught.value


@pytest.mark.requirement("WP-48")
@IN_BOTH
def test_transient_status_is_retried(
    server: ModelServer, family: str, subtests: pytest.Subtests
) -> None:
    for status in [408, 429, 500, 502, 503, 504]:
        with subtests.test(status=status):
            server.requests.clear()
            server.script.extend([Answer(status=status), Answer(status=status)])

            assert server.embedder(family, retries=2).query(TEXT).shape == (384,)
            assert len(server.requests) == 3


def test_permanent_status_is_not_retried(server: ModelServer, subtests: pytest.Subtests) -> None:
    for status in [301, 400, 401, 403, 404, 413, 422]:
        with subtests.test(status=status):
            server.requests.clear()
            server.script.append(Answer(status=status, headers={"Location": "/elsewhere"}))

            assert str(status) in failure(server).message
            assert len(server.requests) == 1


def test_error_for_a_wrong_key_or_an_unknown_model_names_the_next_step(server: ModelServer) -> None:
    server.script.extend([Answer(status=401), Answer(status=404), Answer(status=404)])

    assert "COMMONBRAIN_EMBEDDER_API_KEY" in failure(server, "openai").hint
    assert "ollama pull word-hash" in failure(server, "ollama").hint
    assert "COMMONBRAIN_EMBEDDER_URL" in failure(server, "openai").hint


def test_number_of_retries_is_bounded(server: ModelServer) -> None:
    server.is_down = True

    assert "503" in failure(server, retries=2).message
    assert len(server.requests) == 3


@pytest.mark.requirement("WP-48")
def test_short_retry_after_is_obeyed(server: ModelServer) -> None:
    server.script.append(Answer(status=429, headers={"Retry-After": "0"}))
    # Ours would be an hour: only theirs lets this test end.
    patient = server.embedder("ollama", retry_policy=RetryPolicy(pause_s=3600))

    assert patient.query(TEXT).shape == (384,)


def test_long_retry_after_is_not_waited_for(server: ModelServer, subtests: pytest.Subtests) -> None:
    for retry_after in ["3600", format_datetime(NOON.replace(year=2126), usegmt=True), "9" * 400]:
        with subtests.test(retry_after=retry_after):
            server.requests.clear()
            server.script.append(Answer(status=429, headers={"Retry-After": retry_after}))

            assert "429" in failure(server).message
            assert len(server.requests) == 1


def test_invalid_retry_after_is_ignored(server: ModelServer, subtests: pytest.Subtests) -> None:
    for retry_after in ["soon", "-1", "1.5", "\u00b2", "Mon, 99 Foo 2026 99:99:99 GMT"]:
        with subtests.test(retry_after=retry_after):
            server.requests.clear()
            server.script.append(Answer(status=503, headers={"Retry-After": retry_after}))

            assert server.embedder("ollama").query(TEXT).shape == (384,)


@IN_BOTH
@pytest.mark.parametrize("answer", [Answer(hangs=True), Answer(drips=True)])
def test_endpoint_that_never_ends_its_reply_times_out(
    server: ModelServer, family: str, answer: Answer
) -> None:
    server.script.append(answer)

    assert "within 0.1 s" in failure(server, family, timeout_s=0.1).message
    assert len(server.requests) == 1


def test_truncated_reply_is_retried(server: ModelServer) -> None:
    server.script.append(Answer(is_cut=True))

    assert server.embedder("ollama").query(TEXT).shape == (384,)
    assert len(server.requests) == 2


def test_local_endpoint_is_called_without_the_proxy(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    assert server.embedder("ollama", retries=0).query(TEXT).shape == (384,)


def test_missing_endpoint_is_unavailable(server: ModelServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    url = f"http://127.0.0.1:{port}"

    with pytest.raises(UnavailableError, match=rf"ollama at 127.0.0.1:{port} cannot be reached"):
        server.embedder("ollama", url=url, retries=0).query(TEXT)


@IN_BOTH
def test_reply_without_vectors_is_refused(
    server: ModelServer, family: str, subtests: pytest.Subtests
) -> None:
    for body in [
        "<html>Sign in</html>",
        "",
        "[]",
        "{}",
        '{"embeddings": "x", "data": 1}',
        '{"embeddings": [[NaN]], "data": [{"index": 0, "embedding": [NaN]}]}',
        '{"embeddings": [[1e999]], "data": [{"index": 0, "embedding": [1e999]}]}',
        '{"embeddings": [["a"]], "data": [{"index": 0, "embedding": [null]}]}',
    ]:
        with subtests.test(body=body):
            server.script.append(Answer(body=body))

            assert "holds no vectors" in failure(server, family, dimensions=2).message


def reply(*vectors: list[float]) -> Answer:
    listed = [{"index": n, "embedding": vector} for n, vector in enumerate(vectors)]
    return Answer(body=json.dumps({"embeddings": vectors, "data": listed}))


@IN_BOTH
def test_vectors_with_other_dimensions_are_refused(server: ModelServer, family: str) -> None:
    server.script.append(reply([1.0, 2.0, 2.0]))

    error = failure(server, family, dimensions=2)
    assert "vectors of 3 numbers by word-hash; 2 were expected" in error.message
    assert "COMMONBRAIN_EMBEDDER_DIMENSIONS" in error.hint


@IN_BOTH
def test_reply_with_missing_extra_or_zero_vectors_is_refused(
    server: ModelServer, family: str, subtests: pytest.Subtests
) -> None:
    for answer, message in [
        (reply(), "0 vectors for 1 texts"),
        (reply([1.0, 0.0], [0.0, 1.0]), "2 vectors for 1 texts"),
        (reply([0.0, 0.0]), "without a direction"),
    ]:
        with subtests.test(answer=answer, message=message):
            server.script.append(answer)

            assert message in failure(server, family, dimensions=2).message


@IN_BOTH
def test_vectors_are_normalized_to_unit_length(server: ModelServer, family: str) -> None:
    server.script.append(reply([3.0, 4.0]))

    vector = server.embedder(family, dimensions=2).query(TEXT)
    assert vector.tolist() == pytest.approx([0.6, 0.8])


@pytest.mark.requirement("WP-48")
def test_repeatedly_failing_endpoint_is_not_called_for_a_while(server: ModelServer) -> None:
    server.is_down = True
    embedder = server.embedder(
        "ollama", retries=0, retry_policy=RetryPolicy(pause_s=0, failures_max=2)
    )
    for _ in range(2):
        with pytest.raises(UnavailableError, match="503"):
            embedder.query(TEXT)

    with pytest.raises(
        UnavailableError, match="failed 2 times in a row and is left alone"
    ) as caught:
        embedder.query(TEXT)

    assert (caught.value.code, len(server.requests)) == ("embedder_down", 2)


@pytest.mark.requirement("WP-48")
def test_failing_endpoint_is_tried_again_after_its_rest(server: ModelServer) -> None:
    server.is_down = True
    retry_policy = RetryPolicy(pause_s=0, failures_max=1, rest_s=1e-9)
    embedder = server.embedder("ollama", retries=0, retry_policy=retry_policy)
    with pytest.raises(UnavailableError):
        embedder.query(TEXT)
    server.is_down = False

    assert embedder.query(TEXT).shape == (384,)


def test_refused_text_does_not_count_as_a_failure_of_the_endpoint(server: ModelServer) -> None:
    server.script.extend([Answer(status=400)] * 3)
    embedder = server.embedder("ollama", retry_policy=RetryPolicy(pause_s=0, failures_max=1))
    for _ in range(3):
        with pytest.raises(UnavailableError, match="400"):
            embedder.query(TEXT)

    assert embedder.query(TEXT).shape == (384,)


def test_many_texts_are_sent_in_several_requests(server: ModelServer) -> None:
    texts = [f"number {n}" for n in range(BATCH_TEXTS_MAX + 1)]

    matrices = server.embedder("openai").passages(texts)

    sizes = [len(request.body["input"]) for request in server.requests]
    assert (len(matrices), sizes) == (BATCH_TEXTS_MAX + 1, [BATCH_TEXTS_MAX, 1])


def test_request_follows_the_documented_api(server: ModelServer) -> None:
    server.embedder("ollama").query(TEXT)
    server.embedder("openai", key=SecretStr(KEY)).query(TEXT)

    ollama, openai = server.requests
    assert (ollama.path, ollama.body) == ("/api/embed", {"model": "word-hash", "input": [TEXT]})
    assert "Authorization" not in ollama.headers
    assert (openai.path, openai.headers["Authorization"]) == ("/v1/embeddings", f"Bearer {KEY}")
    assert openai.body == {"model": "word-hash", "input": [TEXT], "encoding_format": "float"}


def test_query_string_of_the_url_is_preserved(server: ModelServer) -> None:
    server.embedder("openai", url=f"{server.base('openai')}/?api-version=3").query(TEXT)

    assert server.requests[0].path == "/v1/embeddings?api-version=3"


def test_known_models_get_their_prefixes_and_the_configured_dimensions(
    server: ModelServer,
) -> None:
    nomic = server.embedder("ollama", model="nomic-embed-text:latest", dimensions=None)
    assert nomic.space.name == "ollama/nomic-embed-text/768"
    short = server.embedder("openai", model="text-embedding-3-large", dimensions=384)
    server.script.extend([reply([1.0] * 768), reply([1.0] * 768)])
    nomic.query(TEXT)
    nomic.passages([TEXT])
    short.query(TEXT)

    queried, stored, shortened = (request.body for request in server.requests)
    assert queried["input"] == [f"search_query: {TEXT}"]
    assert stored["input"] == [f"search_document: {TEXT}"]
    assert shortened["dimensions"] == 384


@pytest.mark.requirement("DO-04", "DM-45")
@IN_BOTH
def test_embedding_space_is_known_without_a_request(server: ModelServer, family: str) -> None:
    space = server.embedder(family, key=SecretStr(KEY)).space

    assert (space.name, space.dimensions) == (f"{family}/word-hash/384", 384)
    assert server.requests == []


def test_unknown_model_requires_configured_dimensions(server: ModelServer) -> None:
    with pytest.raises(InvalidInputError, match="COMMONBRAIN_EMBEDDER_DIMENSIONS"):
        server.embedder("ollama", dimensions=None)


def test_invalid_url_or_url_with_password_is_refused_without_its_text(
    subtests: pytest.Subtests,
) -> None:
    for url in [
        "",
        "localhost:11434",
        "ftp://host",
        "http://",
        "http://ann:hunter2@host",
        "http://host:99999",
        "http://[::1",
    ]:
        with subtests.test(url=url):
            with pytest.raises(InvalidInputError, match="COMMONBRAIN_EMBEDDER_URL") as refusal:
                EMBEDDERS["openai"](Options(url=url or "x"))

            assert "hunter2" not in str(refusal.value)


@pytest.mark.requirement("DM-45")
def test_settings_derived_from_an_embedding_space_recreate_it(subtests: pytest.Subtests) -> None:
    for name in ["ollama", "openai"]:
        with subtests.test(name=name):
            embedder = EMBEDDERS[name](Options())
            environment = dict(
                word.split("=") for word in (settings_of(embedder.space.name) or "").split()
            )

            again = EMBEDDERS[environment["COMMONBRAIN_EMBEDDER"]](
                Options(
                    model=environment["COMMONBRAIN_EMBEDDER_MODEL"],
                    dimensions=int(environment["COMMONBRAIN_EMBEDDER_DIMENSIONS"]),
                )
            )
            assert again.space == embedder.space


@IN_BOTH
@pytest.mark.parametrize(
    "answer",
    [
        Answer(status=401, body=f'{{"error": "Incorrect API key provided: {KEY}; {TEXT}"}}'),
        Answer(body=f'{{"embeddings": "{TEXT}", "data": "{KEY}"}}'),
        Answer(hangs=True),
    ],
)
def test_error_contains_neither_key_nor_text(
    server: ModelServer, family: str, answer: Answer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server.script.append(answer)
    options = Options(key=SecretStr(KEY), timeout_s=0.1)

    error = failure(server, family, key=options.key, timeout_s=options.timeout_s)

    chain = [repr(error), str(error), repr(error.__cause__), str(error.__cause__), repr(options)]
    output = " ".join([*chain, caplog.text])
    assert KEY not in output
    assert TEXT not in output


def test_ollama_passage_and_openai_query_of_the_same_text_have_the_same_vector(
    server: ModelServer,
) -> None:
    [stored] = server.embedder("ollama").passages([TEXT])
    queried = server.embedder("openai").query(TEXT)

    assert np.allclose(stored[0], queried, atol=1e-6)
