"""A server stores long texts at once, and embeds them when it has answered."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient

from commonbrain.embeddings.interface import Matrix
from commonbrain.model.errors import UnavailableError
from commonbrain.model.limits import AWAITED_WINDOWS_MAX, CALL_WINDOWS_MAX
from commonbrain.testing.builders import (
    OVERLAP_WORDS,
    WINDOW_WORDS,
    FakeClock,
    WordHashEmbedder,
    a_brain,
)
from tests.processes import TIMEOUT_S, until
from tests.serving import an_app, calling, listening
from tests.working import a_worker

WORDS_A_WINDOW = WINDOW_WORDS - OVERLAP_WORDS


@dataclass
class SlowEmbedder(WordHashEmbedder):
    """Embeds texts about ships only when it may."""

    may_go: Event = field(default_factory=Event)
    has_begun: Event = field(default_factory=Event)

    def vectors(self, windows: Sequence[list[str]]) -> Matrix:
        if any("ship" in words for words in windows):
            self.has_begun.set()
            self.may_go.wait(TIMEOUT_S)
        return super().vectors(windows)


def a_text(word: str, *, windows: int) -> str:
    return " ".join([word] * (WORDS_A_WINDOW * windows))


def remember(client: TestClient | httpx2.Client, text: str) -> dict[str, Any]:
    reply = client.post("/v1/remember", json={"text": text, "kind": "event"})
    assert reply.status_code == 200, reply.text
    [item] = reply.json()["items"]
    return item


def pending(client: TestClient) -> int:
    return client.post("/v1/status", json={}).json()["embedding_pending"]


@pytest.mark.requirement("WP-52")
def test_long_text_is_stored_before_and_embedded_after_the_reply(path: Path) -> None:
    embedder = SlowEmbedder()
    text = a_text("ship", windows=AWAITED_WINDOWS_MAX + 1)
    with calling(an_app(a_brain(path, embedder=embedder))) as client:
        stored = remember(client, text)
        embedder.has_begun.wait(TIMEOUT_S)
        items = client.post("/v1/recall", json={"query": "ship"}).json()["items"]

        assert (stored["status"], stored["embedding_pending"]) == ("stored", True)
        assert [item["id"] for item in items] == [stored["id"]]
        assert pending(client) == 1
        embedder.may_go.set()
        until(lambda: pending(client) == 0)


@pytest.mark.requirement("WP-52")
def test_short_text_is_embedded_before_the_reply(path: Path) -> None:
    with calling(an_app(a_brain(path))) as client:
        text = a_text("quay", windows=AWAITED_WINDOWS_MAX)

        assert not remember(client, text)["embedding_pending"]
        assert pending(client) == 0


@pytest.mark.requirement("WP-52")
def test_embedding_before_the_reply_is_bounded_per_call(path: Path) -> None:
    count = CALL_WINDOWS_MAX // AWAITED_WINDOWS_MAX
    texts = [a_text(f"quay{n}", windows=AWAITED_WINDOWS_MAX) for n in range(count + 2)]
    with calling(an_app(a_brain(path))) as client:
        items = [{"text": text, "kind": "event"} for text in texts]
        reply = client.post("/v1/remember", json={"items": items}).json()

        late = [one["embedding_pending"] for one in reply["items"]]
        assert late == [False] * count + [True] * 2
        until(lambda: pending(client) == 0)


@pytest.mark.requirement("WP-52")
def test_short_message_is_embedded_after_the_reply_and_its_decision_before(path: Path) -> None:
    embedder = SlowEmbedder()
    with calling(an_app(a_brain(path, embedder=embedder))) as client:
        text = "The ship is in.\n@decision: Cranes stand still at night."
        message = {"op": "send", "to": ["ben"], "text": text}
        sent = client.post("/v1/message", json=message).json()["sent"]
        embedder.has_begun.wait(TIMEOUT_S)
        items = client.post("/v1/recall", json={"query": "ship"}).json()["items"]

        assert sent["embedding_pending"], sent
        assert sent["id"] in [item["id"] for item in items]
        # What a decision repeats or changes is found by its vector.
        assert [part["status"] for part in sent["derived"]] == ["stored"]
        assert pending(client) == 1
        embedder.may_go.set()
        until(lambda: pending(client) == 0)


def long_text(client: TestClient, text: str) -> bool:
    return remember(client, text * WORDS_A_WINDOW * (AWAITED_WINDOWS_MAX + 1))["embedding_pending"]


def short_message(client: TestClient, text: str) -> bool:
    message = {"op": "send", "to": ["ben"], "text": text}
    return client.post("/v1/message", json=message).json()["sent"]["embedding_pending"]


@pytest.mark.requirement("WP-52")
@pytest.mark.parametrize("store", [long_text, short_message])
def test_worker_embeds_texts_left_by_a_stopped_server(
    path: Path, store: Callable[[TestClient, str], bool]
) -> None:
    stopped, clock = SlowEmbedder(), FakeClock()
    with calling(an_app(a_brain(path, embedder=stopped, clock=clock))) as client:
        assert store(client, "ship ")
        stopped.has_begun.wait(TIMEOUT_S)
    # Its thread writes nothing to a closed store.
    stopped.may_go.set()

    # The lease of the stopped server has ended by then.
    clock.move(timedelta(hours=1))
    with a_brain(path, clock=clock) as brain:
        assert brain.status().embedding_pending == 1
        a_worker(brain).sweep()
        assert brain.status().embedding_pending == 0


@pytest.mark.requirement("WP-52")
def test_all_long_texts_stored_concurrently_are_embedded(path: Path) -> None:
    text = a_text("quay", windows=AWAITED_WINDOWS_MAX + 1)
    with calling(an_app(a_brain(path))) as client, ThreadPoolExecutor(4) as pool:
        texts = [f"crane{number} {text}" for number in range(24)]
        stored = [*pool.map(partial(remember, client), texts)]

        assert all(one["embedding_pending"] for one in stored)
        # Nothing else is written that could start the embedding of a text that was passed over.
        until(lambda: pending(client) == 0)


@pytest.mark.requirement("WP-52")
def test_long_message_and_long_revision_are_embedded_after_the_reply(path: Path) -> None:
    text = a_text("quay", windows=AWAITED_WINDOWS_MAX + 1)
    with calling(an_app(a_brain(path))) as client:
        message = {"op": "send", "to": ["ben"], "text": text}
        sent = client.post("/v1/message", json=message).json()
        old = remember(client, "The crane stands at quay nine.")
        given = {"op": "supersede", "id": old["id"], "text": f"new {text}", "reason": "moved"}
        revised = client.post("/v1/revise", json=given)

        assert sent["sent"]["embedding_pending"], sent
        assert revised.status_code == 200, revised.text
        until(lambda: pending(client) == 0)


@pytest.mark.requirement("PF-15")
def test_tenant_with_too_many_pending_embeddings_can_recall_but_not_store(path: Path) -> None:
    embedder = SlowEmbedder()
    text = a_text("ship", windows=AWAITED_WINDOWS_MAX)
    batch = {"items": [{"text": f"{n} {text}", "kind": "event"} for n in range(31)]}
    headers = {"Authorization": "Bearer key-of-ann"}
    post = partial(httpx2.post, headers=headers, timeout=TIMEOUT_S)
    with listening(an_app(a_brain(path, embedder=embedder))) as url, ThreadPoolExecutor(1) as pool:
        first = pool.submit(post, f"{url}/v1/remember", json=batch)
        embedder.has_begun.wait(TIMEOUT_S)
        refused = post(f"{url}/v1/remember", json=batch)
        recalled = post(f"{url}/v1/recall", json={"query": "crane"})
        embedder.may_go.set()

        assert (refused.status_code, refused.json()["code"]) == (503, "busy")
        assert refused.headers["Retry-After"] == "5"
        assert recalled.status_code == 200
        assert first.result(TIMEOUT_S).status_code == 200
        again = post(f"{url}/v1/remember", json=batch)
        assert {item["status"] for item in again.json()["items"]} == {"exists"}


@dataclass
class FailingVectors(WordHashEmbedder):
    """Cannot be reached while it is down."""

    is_down: bool = False

    def vectors(self, windows: Sequence[list[str]]) -> Matrix:
        if self.is_down:
            raise UnavailableError("It is down.", code="embedder_down")
        return super().vectors(windows)


@pytest.mark.requirement("WP-34")
def test_server_embeds_pending_texts_after_its_embedder_recovers(path: Path) -> None:
    embedder, clock = FailingVectors(is_down=True), FakeClock()
    with calling(an_app(a_brain(path, embedder=embedder, clock=clock))) as client:
        assert remember(client, "The crane stands at quay nine.")["embedding_pending"]
        embedder.is_down = False
        remember(client, "The tug lies at quay two.")
        clock.move(timedelta(minutes=1))
        for number in range(3):
            remember(client, f"Barge {number} leaves at {number}.")

        until(lambda: pending(client) == 0)
