"""What is broken, in rounds: each is a running server and, by name, what is done to it in turn."""

# pyright: reportUnknownMemberType=false
# The client of Redis tells half of its types.
from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from threading import Event
from typing import Final

import psutil
import psycopg
import redis
from commonbrain_server.dev_servers import postgres_server
from psycopg import sql

from benchmarks.load.disks import Disk, copy, disk, move_log, size_of
from benchmarks.load.embedding import serving
from benchmarks.load.runs import postmaster
from benchmarks.load.stack import SETTINGS, Stack, again, stack
from benchmarks.load.supervisor import supervised
from commonbrain.runtime.models import make_embedder
from commonbrain.runtime.settings_loading import load_settings

_WRITTEN: Final = "SELECT pg_logical_emit_message(false, 'load', repeat('x', 8000000))"
_WRITES_MAX: Final = 1000
Faults = Mapping[str, Callable[[], None]]
_FREE_BYTES: Final = 256 << 20
"""What a disk holds in addition to the store: enough for the faults before it is filled."""
_COMMIT_MS_MAX: Final = 100
"""The longest wait before it writes its log that Postgres allows."""
_HANGS_S: Final = 5
_TAKEOVER_S: Final = 5
"""How long it takes others to notice that a primary is lost, and to promote its standby."""


def in_processes(folder: Path, *, workers: int) -> Generator[tuple[Stack, Faults]]:
    """Break processes and what is between them, over the store itself."""
    with ExitStack() as held:
        running = held.enter_context(stack(folder, workers=workers))
        redis_process, cache = _redis(folder), running.servers["redis"]
        yield (
            running,
            {
                "nothing": _nothing,
                "one of the API's processes is killed": lambda: _kill_a_child(running),
                "the worker is killed": lambda: again(running, "worker"),
                "Redis is flushed": lambda: _flush(running),
                "Redis is frozen": redis_process.suspend,
                "Redis goes on": redis_process.resume,
                "Redis is stopped": cache.stop,
                "Redis is started": cache.start,
                "Postgres crashes and recovers": lambda: _crash(folder),
                "nothing any more": _nothing,
            },
        )


def in_embedder(folder: Path, *, workers: int) -> Generator[tuple[Stack, Faults]]:
    """Let an embedder hang that is asked over HTTP, over a copy of the store.

    What serves is the model that filled it, so that the vectors stay right under another name.
    """
    copied = folder / "embedder"
    shutil.rmtree(copied, ignore_errors=True)
    copied.mkdir()
    with ExitStack() as held:
        held.callback(shutil.rmtree, copied, ignore_errors=True)
        copy(folder, copied)
        endpoint = held.enter_context(serving(make_embedder(load_settings())))
        _rename_space(copied, endpoint.space)
        running = held.enter_context(stack(copied, workers=workers, settings=endpoint.settings))
        yield (
            running,
            {
                "nothing": _nothing,
                "the embedder hangs": endpoint.goes_on.clear,
                "it still hangs": _nothing,
                "the embedder answers again": endpoint.goes_on.set,
                "nothing any more": _nothing,
            },
        )


def on_disks(folder: Path, *, workers: int) -> Generator[tuple[Stack, Faults]]:
    """Fill the disk of the data, then that of the log, over a copy of the store in memory.

    Postgres ends when it cannot write its log, so something has to start it again, as systemd and
    Kubernetes do.

    Raises:
        NotHere: no such disk can be made.

    """
    log_bytes = size_of(folder / "postgres" / "data" / "pg_wal")
    with ExitStack() as held:
        bytes_ = size_of(folder / "postgres") + _FREE_BYTES
        of_data = held.enter_context(disk(folder / "disk", bytes_=bytes_))
        of_log = held.enter_context(disk(folder / "disk-log", bytes_=log_bytes + _FREE_BYTES))
        copy(folder, of_data.root)
        data = of_data.root / "postgres" / "data"
        _let_enter(of_log.root, like=data)
        move_log(data, of_log.root)
        running = held.enter_context(stack(of_data.root, workers=workers))
        postgres = psutil.Process(postmaster(of_data.root))
        held.enter_context(supervised(postgres))
        yield (
            running,
            {
                "nothing": _nothing,
                "the disk of the data is full": of_data.fill,
                "the disk of the data has space": of_data.free,
                "the disk of the log is full": lambda: _fill_log(of_log, running.postgres),
                "the disk of the log has space": of_log.free,
                "nothing any more": _nothing,
            },
        )


def on_slow_disk(folder: Path, *, workers: int) -> Generator[tuple[Stack, Faults]]:
    """Let each commit wait for its disk, and let the disk hang, over the store itself."""
    with ExitStack() as held:
        running = held.enter_context(stack(folder, workers=workers))
        slow = partial(_delay_commits, running.postgres, ms=_COMMIT_MS_MAX)
        fast = partial(_delay_commits, running.postgres, ms=0)
        held.callback(fast)
        yield (
            running,
            {
                "nothing": _nothing,
                f"each commit takes {_COMMIT_MS_MAX} ms longer": slow,
                f"the disk hangs for {_HANGS_S} s": lambda: _hang(folder),
                "the disk is as fast as before": fast,
                "nothing any more": _nothing,
            },
        )


def on_failover(folder: Path, *, workers: int) -> Generator[tuple[Stack, Faults]]:
    """Lose the primary of a copy of the store for good, and promote its standby."""
    copied = folder / "failover"
    shutil.rmtree(copied, ignore_errors=True)
    copied.mkdir()
    with ExitStack() as held:
        held.callback(shutil.rmtree, copied, ignore_errors=True)
        copy(folder, copied)
        running = held.enter_context(stack(copied, workers=workers, has_standby=True))
        yield (
            running,
            {
                "nothing": _nothing,
                f"the primary is lost, {_TAKEOVER_S} s later there is another": lambda: _fail_over(
                    running
                ),
                "nothing any more": _nothing,
            },
        )


def _nothing() -> None:
    """Break nothing: so it is before, and after."""


def _kill_a_child(running: Stack) -> None:
    """Kill one of the processes that answer; whoever watches over them starts another."""
    server = psutil.Process(running.processes["server"].pid)
    serving_ = [one for one in server.children() if "spawn_main" in " ".join(one.cmdline())]
    serving_[0].kill()


def _flush(running: Stack) -> None:
    with redis.Redis.from_url(running.environment["COMMONBRAIN_REDIS_URL"]) as queue:
        queue.flushall()


def _redis(folder: Path) -> psutil.Process:
    """Find the Redis of a store, which gives itself another name than it was started by."""
    for one in psutil.process_iter(["cmdline"]):
        is_redis = "valkey-server" in " ".join(one.info["cmdline"] or [])
        if is_redis and str(folder) in one.cwd():
            return one
    raise LookupError(f"There is no Redis of {folder}.")


def _crash(folder: Path) -> None:
    """Kill a backend: Postgres ends every connection, recovers from its log and goes on."""
    first = psutil.Process(postmaster(folder))
    backends = [one for one in first.children() if "idle" in " ".join(one.cmdline())]
    os.kill(backends[0].pid, signal.SIGKILL)


def _delay_commits(url: str, *, ms: int) -> None:
    """Let each commit wait before it writes the log, as on a disk that takes so long."""
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        connection.execute("ALTER SYSTEM SET commit_siblings = 0")
        delay = sql.SQL("ALTER SYSTEM SET commit_delay = {us}")
        connection.execute(delay.format(us=sql.Literal(ms * 1000)))
        connection.execute("SELECT pg_reload_conf()")


def _hang(folder: Path) -> None:
    """Stop every process of Postgres for a while, as those are that wait for a disk."""
    first = psutil.Process(postmaster(folder))
    processes = [first, *first.children()]
    for one in processes:
        one.suspend()
    Event().wait(_HANGS_S)
    for one in processes:
        with suppress(psutil.NoSuchProcess):
            one.resume()


def _fail_over(running: Stack) -> None:
    """End the primary at once, and promote the standby as a supervisor of both would."""
    psutil.Process(postmaster(running.folder)).kill()
    Event().wait(_TAKEOVER_S)
    with closing(psycopg.connect(running.standby, autocommit=True)) as connection:
        connection.execute("SELECT pg_promote()")


def _rename_space(store: Path, name: str) -> None:
    """Let the vectors of a store be those of an endpoint that serves the same model."""
    with (
        postgres_server(store / "postgres", settings=SETTINGS) as url,
        closing(psycopg.connect(url, autocommit=True)) as connection,
    ):
        connection.execute("UPDATE spaces SET name = %s", (name,))


def _fill_log(log: Disk, url: str) -> None:
    """Fill the disk, and write so much that Postgres finds no more space there."""
    log.fill()
    with suppress(psycopg.Error), closing(psycopg.connect(url, autocommit=True)) as connection:
        for _ in range(_WRITES_MAX):
            connection.execute(_WRITTEN)


def _let_enter(root: Path, *, like: Path) -> None:
    """Return a disk to who runs Postgres."""
    owner = like.stat()
    os.chown(root, owner.st_uid, owner.st_gid)
