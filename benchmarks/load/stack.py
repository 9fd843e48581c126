"""The whole server of a benchmark: Postgres, Redis, a server and a worker, each a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode, urlsplit

import httpx2
import psycopg
from commonbrain_server.dev_servers import (
    RestartableServer,
    free_port,
    login,
    postgres_replica,
    postgres_server,
    redis_server,
)
from commonbrain_server.stores import upgrade_store
from commonbrain_server.tenants import KeyRequest, admin_of
from tenacity import retry, stop_after_delay, wait_fixed

from commonbrain.model.scope import Role
from commonbrain.runtime.bootstrap import open_brain

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from pathlib import Path

PROGRAM: Final = "commonbrain_program"
_WRITABLE: Final = "target_session_attrs=read-write"
SETTINGS: Final = {"shared_buffers": "6GB", "max_wal_size": "8GB", "work_mem": "16MB"}
"""What an operator of a machine with 24 GB would set first: a quarter of it holds the store."""
_AT_ONCE: Final = "1"
"""Threads of one process that embed: there are as many processes as cores."""
_READY_S: Final = 300
"""Minutes, where other work keeps the processor busy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """What runs, and where it is reached."""

    folder: Path
    url: str
    postgres: str
    servers: Mapping[str, RestartableServer]
    """Postgres and Redis, which can be stopped and started again."""
    processes: dict[str, subprocess.Popen[bytes]]
    commands: Mapping[str, list[str]]
    environment: Mapping[str, str]
    standby: str = ""
    """The copy that can become Postgres's primary, if there is one."""


@contextmanager
def stack(
    folder: Path,
    *,
    workers: int,
    settings: Mapping[str, str] | None = None,
    has_standby: bool = False,
) -> Generator[Stack]:
    """Run everything over a store that was filled before; `settings` are the environment's.

    What a primary with a standby acknowledges is on both, and clients know both.
    SIGTERM ends it, as Ctrl-C does.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    port, make_postgres = free_port(), partial(postgres_server, settings=SETTINGS)
    servers = {
        name: RestartableServer(partial(make, folder / name, port=free_port()))
        for name, make in (("postgres", make_postgres), ("redis", redis_server))
    }
    with ExitStack() as running:
        for server in servers.values():
            server.start()
            running.callback(server.stop)
        postgres = servers["postgres"].url
        program, standby = login(postgres, PROGRAM), ""
        upgrade_store(postgres, role=PROGRAM)
        if has_standby:
            standby = running.enter_context(postgres_replica(postgres, folder / "standby"))
            _wait_for_standby(postgres)
            both = [urlsplit(one).netloc.rpartition("@")[2] for one in (postgres, standby)]
            program = _url_of(program, hosts=both)
            postgres = f"{postgres.replace(both[0], ','.join(both))}?{_WRITABLE}"
        # Keys are made in this process, which has to see the store as the server does.
        os.environ |= {**(settings or {}), "COMMONBRAIN_STORE": program}
        running.callback(_forget, settings or {})
        environment = {
            **os.environ,
            "COMMONBRAIN_REDIS_URL": servers["redis"].url,
            "COMMONBRAIN_STATE": str(folder / "state"),
            "COMMONBRAIN_EMBEDDER_THREADS": _AT_ONCE,
            # All agents have one address here, as behind a proxy: else a process lets in 250.
            "COMMONBRAIN_SERVE_PROXIES": '["127.0.0.1"]',
        }
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        serve = ["serve", "--port", str(port), "--workers", str(workers)]
        commands = {"server": serve, "worker": ["worker", "--json"]}
        made = Stack(
            folder=folder,
            url=f"http://127.0.0.1:{port}",
            postgres=postgres,
            servers=servers,
            processes={
                name: _started(one, environment, log=_log(folder, name))
                for name, one in commands.items()
            },
            commands=commands,
            environment=environment,
            standby=standby,
        )
        running.callback(_end, made)
        wait_until_ready(made.url)
        yield made


def _wait_for_standby(primary: str) -> None:
    """Let commits wait from now on until the standby has them on disk."""
    with psycopg.connect(primary, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        connection.execute("SELECT pg_reload_conf()")


def _url_of(url: str, *, hosts: Sequence[str]) -> str:
    """Return the URL of a store for whichever of several hosts accepts writes."""
    parts = urlsplit(url)
    login_, _, _ = parts.netloc.rpartition("@")
    named = urlencode([("host", host) for host in hosts], safe=":")
    return f"{parts.scheme}://{login_}@{parts.path}?{named}&{_WRITABLE}"


def again(running: Stack, name: str) -> None:
    """Kill a process, and start it again as a supervisor would."""
    running.processes[name].kill()
    running.processes[name].wait()
    log = _log(running.folder, name)
    running.processes[name] = _started(running.commands[name], running.environment, log=log)


@retry(wait=wait_fixed(0.2), stop=stop_after_delay(_READY_S), reraise=True)
def wait_until_ready(url: str) -> None:
    """Wait until a server can be sent requests."""
    httpx2.get(f"{url}/readyz", timeout=10).raise_for_status()


def keys(folder: Path, tenants: list[str], *, agents: int) -> list[str]:
    """Return a key for each agent, made once and kept in its folder."""
    file = folder / "keys.json"
    known: list[str] = json.loads(file.read_text("utf-8")) if file.exists() else []
    for number in range(len(known), agents):
        with open_brain(tenant=tenants[number % len(tenants)]) as brain:
            request = KeyRequest(agent=f"agent-{number}", role=Role.WRITER)
            known.append(str(admin_of(brain).create_key(request).text))
    file.touch(mode=0o600)
    file.write_text(json.dumps(known), "utf-8")
    return known[:agents]


def _forget(settings: Mapping[str, str]) -> None:
    for name in settings:
        os.environ.pop(name, None)


def _log(folder: Path, name: str) -> Path:
    """Where a process of the stack writes its log."""
    return folder / f"{name}.log"


def _started(
    command: list[str], environment: Mapping[str, str], *, log: Path
) -> subprocess.Popen[bytes]:
    with log.open("ab") as errors:
        return subprocess.Popen(  # noqa: S603 our own program
            [sys.executable, "-m", "commonbrain", *command],
            env=dict(environment),
            stdout=subprocess.DEVNULL,
            stderr=errors,
            # A terminal that is closed does not reach it.
            start_new_session=True,
        )


def _end(running: Stack) -> None:
    for one in running.processes.values():
        one.terminate()
    for one in running.processes.values():
        one.wait(60)
