"""Servers and workers as processes of their own on one Postgres and one Redis; any may be gone."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from itertools import cycle
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

import httpx2
import psycopg
import pytest
from commonbrain_server.dev_servers import (
    RestartableServer,
    free_port,
    login,
    postgres_server,
    redis_server,
)
from commonbrain_server.stores import upgrade_store
from commonbrain_server.tenants import KeyRequest, admin_of
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from commonbrain.model import ids
from commonbrain.model.jobs import LIVE
from commonbrain.model.scope import Role
from commonbrain.runtime.bootstrap import open_brain
from tests.processes import TIMEOUT_S, clean_environment
from tests.serving import until_ready

ADMIN = "ada"
WRITERS = ("ann", "ben")
_PROGRAM = "program"


@dataclass(frozen=True, slots=True)
class Event:
    """What a worker reports of a job."""

    name: str
    job: str
    worker: "Program"


@dataclass(slots=True, kw_only=True)
class Program:
    """A server or a worker, and the events that it prints."""

    command: Sequence[str]
    environment: Mapping[str, str]
    events: "SimpleQueue[Event]"
    _process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        self._process = subprocess.Popen(
            self.command,
            env=dict(self.environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        Thread(target=self._listen, args=(self._process,), daemon=True).start()

    def kill(self) -> None:
        """End it as a power failure would."""
        self.process.kill()
        self.process.wait(TIMEOUT_S)

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                line_fields = json.loads(line)
                self.events.put(Event(line_fields["event"], line_fields["job"], self))


@dataclass(slots=True, kw_only=True)
class Cluster:
    """What runs, and how its callers reach it."""

    postgres: RestartableServer
    redis: RestartableServer
    urls: Sequence[str]
    servers: Sequence[Program]
    workers: Sequence[Program]
    keys: Mapping[str, str]
    events: "SimpleQueue[Event]"
    """What all workers report."""

    def post(
        self, path: str, body: object, *, agent: str = ADMIN, server: int = 0, key: str = ""
    ) -> httpx2.Response:
        """Send a request to one of the servers, with an idempotency key if given."""
        headers = {"Authorization": f"Bearer {self.keys[agent]}"}
        headers |= {"Idempotency-Key": key} if key else {}
        url = f"{self.urls[server]}/v1/{path}"
        return httpx2.post(url, json=body, headers=headers, timeout=TIMEOUT_S)

    def ask(
        self, path: str, body: object, *, agent: str = ADMIN, server: int = 0
    ) -> dict[str, Any]:
        """Send a request that must succeed; return the reply."""
        reply = self.post(path, body, agent=agent, server=server)
        assert reply.status_code == HTTPStatus.OK, reply.text
        return reply.json()

    def insist(self, path: str, body: object, *, agent: str, key: str) -> dict[str, Any]:
        """Send a request to one server after the other until one has done it; return the reply."""
        servers = cycle(range(len(self.urls)))

        def send() -> httpx2.Response | None:
            with suppress(httpx2.TransportError):
                return self.post(path, body, agent=agent, server=next(servers), key=key)
            return None

        reply: httpx2.Response = until(send, lambda got: got is not None and is_final(got))
        assert reply.status_code == HTTPStatus.OK, reply.text
        return reply.json()

    def run_job(self, kind: str, *, server: int = 0, **given: object) -> str:
        """Request a job; return its id."""
        body = {"op": "run", "kind": kind, "given": given}
        [job] = self.ask("job", body, server=server)["jobs"]
        return job["id"]

    def import_messages(self, name: str, texts: Sequence[str]) -> str:
        """Request an import of messages; return the id of its job."""
        messages = [{"speaker": "Ana", "text": text} for text in texts]
        query = f"import?format=conversations&name={name}.json"
        [job] = self.ask(query, messages)["jobs"]
        return job["id"]

    def wait_for(self, event: str, job: str, *, times: int = 1) -> Program:
        """Wait until workers have reported an event of a job so often; return the last of them."""
        while True:
            heard = self.events.get(timeout=TIMEOUT_S)
            times -= (heard.name, heard.job) == (event, job)
            if not times:
                return heard.worker

    def wait_for_end(self, job: str, *, server: int = 0) -> dict[str, Any]:
        """Wait until a job is over; return it."""

        def show() -> dict[str, Any]:
            [shown] = self.ask("job", {"op": "show", "id": job}, server=server)["jobs"]
            return shown

        return until(show, lambda shown: shown["state"] not in LIVE)

    def end_lease(self, job: str) -> None:
        """Let the lease of a running job, or the delay before it is tried again, be over."""
        self.end_leases(f"id = {ids.parse(ids.JOB, job)}")

    def end_leases(self, which: str) -> None:
        """Do so for all jobs of which a condition holds."""
        live = "state IN ('queued', 'running')"
        self.rows(f"UPDATE jobs SET due_at = created_at WHERE {which} AND {live}")  # noqa: S608

    def restart_killed(self) -> None:
        """Start what was killed, and wait until it is ready."""
        for one in (*self.servers, *self.workers):
            if not one.is_running:
                one.start()
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Wait until all servers that run are ready."""
        for url, server in zip(self.urls, self.servers, strict=True):
            if server.is_running:
                until_ready(url, server.process)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Query the database as its owner."""
        with closing(psycopg.connect(self.postgres.url, autocommit=True)) as connection:
            done = connection.execute(statement.encode())
            return done.fetchall() if done.description else []


def until(check: Callable[[], Any], is_right: Callable[[Any], bool]) -> Any:  # noqa: ANN401
    """Look until what is seen is right; return it."""
    checking = Retrying(
        retry=retry_if_result(lambda seen: not is_right(seen)),
        wait=wait_fixed(0.05),
        stop=stop_after_delay(TIMEOUT_S),
        retry_error_callback=lambda state: state.outcome and state.outcome.result(),
    )
    seen = checking(check)
    assert is_right(seen), seen
    return seen


def is_final(reply: httpx2.Response) -> bool:
    """Whether a reply is no request to try again."""
    return reply.status_code != HTTPStatus.SERVICE_UNAVAILABLE


@contextmanager
def running_cluster(*, servers: int = 2, workers: int = 2) -> Generator[Cluster]:
    """Run a cluster with an empty store."""
    with ExitStack() as running:
        # Not under pytest's own folder, which who runs the servers may not enter.
        folder = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="commonbrain-")))
        folder.chmod(0o755)
        postgres, redis = (
            RestartableServer(partial(run, folder / name, is_durable=False, port=free_port()))
            for name, run in (("postgres", postgres_server), ("redis", redis_server))
        )
        for server in (postgres, redis):
            server.start()
            running.callback(server.stop)
        store = login(postgres.url, _PROGRAM)
        upgrade_store(postgres.url, role=_PROGRAM)
        environment = clean_environment(
            COMMONBRAIN_STORE=store,
            COMMONBRAIN_REDIS_URL=redis.url,
            COMMONBRAIN_STATE=str(folder / "state"),
            COMMONBRAIN_BLOBS=str(folder / "blobs"),
            COMMONBRAIN_EMBEDDER_THREADS="1",
        )
        ports = [free_port() for _ in range(servers)]
        commands = [["serve", "--port", str(port)] for port in ports]
        commands += [["worker", "--json"]] * workers
        events = SimpleQueue[Event]()
        programs = [
            Program(
                command=[sys.executable, "-m", "commonbrain", *command],
                environment=environment,
                events=events,
            )
            for command in commands
        ]
        made = Cluster(
            postgres=postgres,
            redis=redis,
            urls=[f"http://127.0.0.1:{port}" for port in ports],
            servers=programs[:servers],
            workers=programs[servers:],
            keys=_make_keys(store),
            events=events,
        )
        for one in programs:
            one.start()
            running.callback(one.kill)
            # One server after the other, so that a busy machine has time for each.
            made.wait_until_ready()
        yield made


def _make_keys(store: str) -> dict[str, str]:
    """Make a key for each agent."""
    keys: dict[str, str] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COMMONBRAIN_STORE", store)
        with open_brain() as brain:
            for agent in (ADMIN, *WRITERS):
                request = KeyRequest(
                    agent=agent, role=Role.ADMIN if agent == ADMIN else Role.WRITER
                )
                keys[agent] = str(admin_of(brain).create_key(request).text)
    return keys
