"""Two servers and two workers on one Postgres and one Redis: each may go, and nothing is lost."""

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import httpx2
import pytest

from tests.faults.cluster import WRITERS, Cluster, running_cluster, until

pytestmark = pytest.mark.part("server")

EVENTS = 12
MESSAGES = 4
IMPORTED = 130
"""Three steps of an import."""


@pytest.fixture(scope="module")
def started() -> Iterator[Cluster]:
    with running_cluster() as made:
        yield made


@pytest.fixture
def cluster(started: Cluster) -> Iterator[Cluster]:
    """A cluster for every test; what one has killed runs again for the next."""
    yield started
    started.restart_killed()


@pytest.mark.requirement("DO-07", "JB-10")
def test_killed_server_and_worker_lose_nothing_and_repeat_nothing(
    cluster: Cluster,
) -> None:
    imported = [f"Crate {n} of the load went to bay {n % 7}." for n in range(IMPORTED)]
    job = cluster.import_messages("load", imported)

    with ThreadPoolExecutor(len(WRITERS) + 1) as threads:
        written = [
            threads.submit(write, cluster, agent, "crates", kill_at=EVENTS // 3 if first else None)
            for agent, first in zip(WRITERS, (True, False), strict=True)
        ]
        sent = threads.submit(send, cluster, "crates")
        worker = cluster.wait_for("moved", job)
        worker.kill()
        others = [cluster.run_job("atomize", server=1, project=f"crates-{n}") for n in range(4)]
        acknowledged = [text for one in written for text in one.result()]
        delivered = sent.result()
    cluster.end_lease(job)
    ended = [cluster.wait_for_end(one, server=1) for one in (job, *others)]

    assert [(one["state"], one["attempts"]) for one in ended] == [("done", 2)] + [("done", 1)] * 4
    stored = Counter(text for (text,) in cluster.rows("SELECT headline FROM memories"))
    assert {stored[text] for text in (*acknowledged, *imported)} == {1}
    assert len(acknowledged) == EVENTS * len(WRITERS)
    inbox = cluster.ask("message", {"op": "inbox", "limit": 50}, agent="ben", server=1)
    received = Counter(one["headline"] for one in inbox["messages"])
    assert {received[text] for text in delivered} == {1}
    cluster.end_leases("kind = 'embed'")
    # Vectors follow the reply; those that the killed server owed are a job of the others.
    without = "SELECT id FROM memories EXCEPT SELECT memory_id FROM vectors"
    until(partial(cluster.rows, without), lambda rows: rows == [])


def test_two_workers_schedule_maintenance_once(cluster: Cluster) -> None:
    maintained = "SELECT agent, state FROM jobs WHERE kind = 'maintain'"

    until(partial(cluster.rows, maintained), lambda rows: rows == [("upkeep", "done")])


@pytest.mark.requirement("DO-07")
def test_calls_and_jobs_go_on_while_redis_is_down(cluster: Cluster) -> None:
    cluster.redis.stop()
    for number in range(6):
        cluster.ask("recall", {"query": "Which crate?"}, agent="ann", server=number % 2)
        event = {"text": f"Lamp {number} hangs in hall {number}.", "kind": "event"}
        [item] = cluster.ask("remember", event, agent="ben", server=number % 2)["items"]
        assert item["status"] == "stored"
    ready = [httpx2.get(f"{url}/readyz").status_code for url in cluster.urls]
    health = cluster.ask("status", {"health": True})["health"]
    without = cluster.wait_for_end(cluster.run_job("atomize", project="without"))
    cluster.redis.start()
    back = cluster.run_job("atomize", project="back")
    again = cluster.wait_for_end(back)

    assert ready == [200, 200]
    assert {one["name"]: one["is_there"] for one in health["dependencies"]} == {
        "store": True,
        "redis": False,
    }
    assert [without["state"], again["state"]] == ["done", "done"]


@pytest.mark.requirement("DO-07")
def test_restart_of_postgres_asks_callers_to_retry_and_loses_nothing(
    cluster: Cluster,
) -> None:
    imported = [f"Parcel {n} was weighed on scale {n % 5}." for n in range(IMPORTED)]
    job = cluster.import_messages("parcels", imported)
    cluster.wait_for("moved", job)
    event = {"text": "The scale was checked in May.", "kind": "event"}

    cluster.postgres.stop()
    # Together, since each server waits for Postgres at first.
    with ThreadPoolExecutor(6) as threads:
        sent = [
            threads.submit(cluster.post, path, body, agent="ann", server=server, key=key)
            for server in range(2)
            for path, body, key in (
                ("remember", event, "may"),
                ("recall", {"query": "Which scale?"}, ""),
                ("message", {"op": "inbox"}, ""),
            )
        ]
        refused = [one.result() for one in sent]
    probes = [
        httpx2.get(f"{url}{path}").status_code
        for url in cluster.urls
        for path in ("/healthz", "/readyz")
    ]
    cluster.postgres.start()
    stored = [cluster.insist("remember", event, agent="ann", key="may") for _ in range(2)]
    cluster.end_lease(job)
    ended = cluster.wait_for_end(job)

    assert {(one.status_code, one.json()["code"]) for one in refused} == {(503, "store_down")}
    assert all(int(one.headers["Retry-After"]) > 0 for one in refused)
    assert probes == [200, 503] * 2
    assert stored[0] == stored[1]
    assert ended["state"] == "done"
    headlines = Counter(text for (text,) in cluster.rows("SELECT headline FROM memories"))
    assert {headlines[text] for text in (*imported, event["text"])} == {1}


def write(cluster: Cluster, agent: str, mark: str, *, kill_at: int | None) -> Sequence[str]:
    """Remember events, each until it is acknowledged; kill a server after some; return them."""
    texts = [f"Shelf {n} of {agent} holds box {n} of {mark}." for n in range(EVENTS)]
    for number, text in enumerate(texts):
        if number == kill_at:
            cluster.servers[0].kill()
        event = {"text": text, "kind": "event"}
        reply = cluster.insist("remember", event, agent=agent, key=f"{agent}-{mark}-{number}")
        assert [one["status"] for one in reply["items"]] == ["stored"]
    return texts


def send(cluster: Cluster, mark: str) -> Sequence[str]:
    """Send messages by both servers, each once; return those that were acknowledged."""
    acknowledged: list[str] = []
    for number in range(MESSAGES):
        text = f"Message {number} of {mark} for Ben"
        with suppress(httpx2.TransportError):
            body = {"op": "send", "to": ["ben"], "text": text}
            cluster.ask("message", body, agent="ann", server=number % 2)
            acknowledged.append(text)
    return acknowledged
