"""Servers of one store are replaced one after the other under calls, and no call is lost."""

import socket
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count, cycle
from threading import Event
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.faults.cluster import WRITERS, Cluster, running_cluster, until
from tests.processes import TIMEOUT_S

pytestmark = pytest.mark.part("server")
CLIENTS = 4
AT_ONCE = 24


@dataclass(slots=True, kw_only=True)
class Client:
    """A client that keeps its connection, and goes to the next server if it is refused or reset.

    A busy server resets what reaches its port as it closes it.
    """

    cluster: Cluster
    number: int
    acknowledged: list[str] = field(default_factory=list[str])

    def call_until(self, done: Event) -> list[str]:
        """Remember and recall in turn; return the texts that were acknowledged."""
        urls = cycle(self.cluster.urls)
        headers = {"Authorization": f"Bearer {self.cluster.keys[WRITERS[self.number % 2]]}"}
        url = next(urls)
        with httpx2.Client(headers=headers, timeout=TIMEOUT_S) as http:
            for number in count():
                if done.is_set():
                    return self.acknowledged
                text = f"Tray {number} of client {self.number} is empty."
                for path, body in (
                    ("remember", {"text": text, "kind": "event"}),
                    ("recall", {"query": f"tray {number}"}),
                ):
                    while True:
                        with suppress(httpx2.ConnectError, httpx2.ReadError):
                            reply = http.post(f"{url}/v1/{path}", json=body)
                            break
                        url = next(urls)
                    reply.raise_for_status()
                self.acknowledged.append(text)
        raise AssertionError


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running_cluster(workers=0) as made:
        yield made


@pytest.mark.requirement("DO-28")
def test_servers_are_replaced_one_by_one_and_no_call_is_lost(cluster: Cluster) -> None:
    done = Event()
    clients = [Client(cluster=cluster, number=number) for number in range(CLIENTS)]

    with ThreadPoolExecutor(CLIENTS) as threads:
        calling = [threads.submit(client.call_until, done) for client in clients]
        try:
            for server in cluster.servers:
                server.process.terminate()
                server.process.wait(TIMEOUT_S)
                cluster.restart_killed()
        finally:
            done.set()
        acknowledged = [text for one in calling for text in one.result()]

    stored = Counter(text for (text,) in cluster.rows("SELECT headline FROM memories"))
    assert len(acknowledged) > CLIENTS
    assert {stored[text] for text in acknowledged} == {1}


@pytest.mark.requirement("DO-27")
def test_server_answers_all_who_connect_as_soon_as_it_listens(cluster: Cluster) -> None:
    server, address = cluster.servers[0], urlsplit(cluster.urls[0])
    server.kill()

    def is_listening() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((address.hostname or "", address.port or 0)) == 0

    def recall(number: int) -> int:
        agent = WRITERS[number % 2]
        return cluster.post("recall", {"query": "Which tray?"}, agent=agent).status_code

    server.start()
    with ThreadPoolExecutor(AT_ONCE) as threads:
        until(is_listening, bool)
        answered = list(threads.map(recall, range(AT_ONCE)))

    assert answered == [200] * AT_ONCE
