"""`python -m benchmarks load soak`: an hour of load with jobs, backups and restarts.

It passes if no call failed but those that the client is asked to retry, nothing that was
acknowledged is lost or written twice, every job and backup is done, and neither memory nor
connections grow. A line is printed each minute; all of it goes to a file as well, and a terminal
that is closed does not end the run.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from statistics import quantiles
from threading import Lock
from typing import Annotated, Any, Final

import httpx2
import psutil
import psycopg
import typer
from commonbrain_server.dev_servers import postgres_programs
from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from benchmarks.load.acknowledgements import (
    CATCH_UP_S,
    Write,
    count_lost,
    count_repeated,
    count_unreadable,
    count_without_vector,
)
from benchmarks.load.monitor import Growth, Sample, count_connections, sample, uses
from benchmarks.load.plan import Plan
from benchmarks.load.runs import Folder, planned, postmaster, sending
from benchmarks.load.stack import Stack, stack
from commonbrain.model.jobs import LIVE

_SAMPLE_S: Final = 5
_WARM: Final = 1 / 3
"""The share of a run that is warming up: caches fill, and every tenant is evaluated once."""
_JUDGED_MINUTES_MIN: Final = 30
"""In less, caches and the heaps of threads still fill; growth is shown and not judged."""
_MINUTE_S: Final = 60
_DRAIN_S: Final = 600
"""How long workers may take for the jobs that wait at the end of the load."""
_BACKUP_S: Final = 7200
_REDIS_AWAY_S: Final = 60
_BACKUPS: Final = (0.15, 0.5, 0.85)
_REDIS_STOPS: Final = 0.3
_POSTGRES_RESTARTS: Final = 0.65
"""When these happen, as shares of the run."""
_BACKUP: Final = Path(__file__).parents[2] / "deploy" / "backup" / "backup.sh"
_RETRIED: Final = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
_GROWTH_MAX: Final = {"resident MB": 20.0, "threads": 4.0, "open files": 8.0, "connections": 4.0}
"""Growth an hour that is too much; 20 MB are 100 bytes a request at 60 requests a second."""
_DONE: Final = "SELECT state, count(*) FROM jobs WHERE created_at >= %s GROUP BY state"
_DEAD: Final = (
    "SELECT kind || ': ' || fault_message FROM jobs WHERE state = 'dead' AND finished_at >= %s"
)
_TWICE: Final = (
    "SELECT tenant_id || ' ' || kind FROM jobs WHERE agent = 'upkeep' AND kind = 'maintain' "
    "AND created_at >= %s GROUP BY tenant_id, kind HAVING count(*) > 1"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One condition of passing."""

    name: str
    is_met: bool
    figure: str

    def __str__(self) -> str:
        """Describe it in a line."""
        return f"{'ok  ' if self.is_met else 'FAIL'} {self.name}: {self.figure}"


@dataclass(slots=True, kw_only=True)
class Answers:
    """The replies that the load generator has recorded so far."""

    ledger: Path
    total: int = 0
    retryable: int = 0
    failures: Counter[str] = field(default_factory=Counter[str])
    writes: list[Write] = field(default_factory=list[Write])
    recent_ms: deque[int] = field(default_factory=lambda: deque[int](maxlen=10_000))
    """Times since the last progress line."""
    _read_to: int = 0

    def read(self) -> None:
        """Read what was recorded since the last time."""
        if not self.ledger.exists():
            return
        with self.ledger.open("rb") as file:
            file.seek(self._read_to)
            for line in file:
                # The last line may be half written.
                if line.endswith(b"\n"):
                    self._read_to += len(line)
                    self._count(json.loads(line))

    def _count(self, line: dict[str, Any]) -> None:
        self.total += 1
        if line["status"] == HTTPStatus.OK:
            self.recent_ms.append(line["ms"])
        elif line["status"] in _RETRIED and line["is_retryable"]:
            self.retryable += 1
        else:
            self.failures[f"{line['call']} {line['status']} {line['code']}"] += 1
        self.writes += [
            Write(id=one, agent=line["agent"], note_number=line["said"]) for one in line["ids"]
        ]


@dataclass(slots=True, kw_only=True)
class Log:
    """Prints lines, and writes them to a file; goes on when the terminal is gone."""

    file: Path

    def __call__(self, line: str) -> None:
        """Write a line."""
        stamped = f"{time.strftime('%H:%M:%S')}  {line}"
        with self.file.open("a", encoding="utf-8") as file:
            file.write(f"{stamped}\n")
        with suppress(OSError):
            print(stamped, flush=True)


@dataclass(slots=True, kw_only=True)
class Monitor:
    """Samples of the parts of a stack over time."""

    running: Stack
    at_s: list[float] = field(default_factory=list[float])
    held: dict[str, list[Sample]] = field(default_factory=dict[str, "list[Sample]"])
    connections: list[tuple[float, int]] = field(default_factory=list["tuple[float, int]"])

    def take(self, at_s: float) -> None:
        """Take a sample of each part."""
        self.at_s.append(at_s)
        for name, process in self.running.processes.items():
            self.held.setdefault(name, []).append(sample(process.pid))
        count = count_connections(self.running.postgres)
        if count is not None:
            self.connections.append((at_s, count))

    def checks(self, *, minutes: float) -> Iterator[Check]:
        """Judge the growth of every figure after the warm-up, if the run was long enough."""
        for check in self._checks():
            if minutes < _JUDGED_MINUTES_MIN:
                figure = f"{check.figure}; not judged below {_JUDGED_MINUTES_MIN} minutes"
                yield replace(check, is_met=True, figure=figure)
            else:
                yield check

    def _checks(self) -> Iterator[Check]:
        warm = int(len(self.at_s) * _WARM)
        figures: dict[str, Callable[[Sample], float]] = {
            "resident MB": lambda one: one.resident_mb,
            "threads": lambda one: one.threads,
            "open files": lambda one: one.files,
        }
        for name, samples in self.held.items():
            for what, of in figures.items():
                values = [of(one) for one in samples[warm:]]
                yield judge(f"{name} {what}", Growth.of(self.at_s[warm:], values), what)
        steady = [connection for connection in self.connections if connection[0] >= self.at_s[warm]]
        growth = Growth.of([at for at, _ in steady], [count for _, count in steady])
        yield judge("connections to Postgres", growth, "connections")


def judge(name: str, growth: Growth, figure: str) -> Check:
    """Fail if a figure certainly grows faster than it may."""
    bound = _GROWTH_MAX[figure]
    return Check(
        name=name, is_met=growth.low <= bound, figure=f"{growth}; at most {bound:+g} allowed"
    )


@dataclass(slots=True, kw_only=True)
class Operator:
    """What happens to a server in an hour: jobs are requested, backups taken, parts restarted."""

    running: Stack
    keys: Sequence[str]
    minutes: float
    log: Log
    jobs: dict[str, str] = field(default_factory=dict[str, str])
    """By id, the key that requested it."""
    errors: list[str] = field(default_factory=list[str])
    _threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(8, "operator"))
    _backing_up: Lock = field(default_factory=Lock)
    """On a busy machine a backup lasts until the next is due."""
    _under_way: list[Future[None]] = field(default_factory=list["Future[None]"])

    def plan(self) -> list[tuple[float, str, Callable[[], None]]]:
        """Return what happens, in order, each with its time in seconds."""
        seconds = self.minutes * _MINUTE_S
        redis = self.running.servers["redis"]
        stopped_s = seconds * _REDIS_STOPS
        actions = [(seconds * share, "backup", self.back_up) for share in _BACKUPS]
        actions += [
            (stopped_s, "Redis stops", redis.stop),
            (stopped_s + _REDIS_AWAY_S, "Redis starts", redis.start),
            (seconds * _POSTGRES_RESTARTS, "Postgres restarts", self.restart_postgres),
        ]
        actions += [
            (minute * _MINUTE_S, "job", self.request_job) for minute in range(1, int(self.minutes))
        ]
        return sorted(actions, key=lambda action: action[0])

    def start(self, name: str, action: Callable[[], None]) -> None:
        """Do something in the background."""
        if name != "job":
            self.log(name)
        self._under_way.append(self._threads.submit(self._do, name, action))

    def _do(self, name: str, action: Callable[[], None]) -> None:
        try:
            action()
        except (OSError, httpx2.HTTPError, subprocess.SubprocessError, RetryError) as error:
            self.errors.append(f"{name}: {type(error).__name__}: {error}"[:300])

    def back_up(self) -> None:
        """Write and verify a backup as operators do, and delete it."""
        with self._backing_up:
            self._back_up(self.running.folder / "backups")

    def _back_up(self, folder: Path) -> None:
        environment = {
            **os.environ,
            "COMMONBRAIN_OWNER": self.running.postgres,
            "PATH": f"{postgres_programs()}:{os.environ['PATH']}",
        }
        command = ["sh", str(_BACKUP), str(folder)]
        subprocess.run(  # noqa: S603 our own script
            command, env=environment, check=True, capture_output=True, timeout=_BACKUP_S
        )
        shutil.rmtree(folder)

    def restart_postgres(self) -> None:
        """Stop Postgres and start it again."""
        postgres = self.running.servers["postgres"]
        postgres.stop()
        postgres.start()

    def request_job(self) -> None:
        """Request a job, again for as long as the client is asked to retry."""
        key = self.keys[len(self.jobs) % len(self.keys)]
        body = {"op": "run", "kind": "atomize", "given": {"project": f"soak-{time.time():.0f}"}}

        def send() -> httpx2.Response:
            return self._post("job", body, key=key)

        retrying = Retrying(
            retry=retry_if_result(lambda reply: reply.status_code in _RETRIED),
            wait=wait_fixed(2),
            stop=stop_after_delay(CATCH_UP_S),
        )
        reply = retrying(send).raise_for_status().json()
        self.jobs[reply["jobs"][0]["id"]] = key

    def finish(self) -> Check:
        """Wait until everything is done; judge the jobs and what was done."""
        for one in self._under_way:
            one.result()
        self._threads.shutdown()
        waiting = Retrying(
            retry=retry_if_result(lambda states: not LIVE.isdisjoint(states)),
            wait=wait_fixed(2),
            stop=stop_after_delay(_DRAIN_S),
            retry_error_callback=lambda state: state.outcome and state.outcome.result(),
        )
        states: Counter[str] = waiting(self._states)
        is_met = not self.errors and set(states) <= {"done"}
        figure = ", ".join([f"{dict(states)}", *self.errors])
        return Check(name="jobs and backups done", is_met=is_met, figure=figure)

    def _states(self) -> Counter[str]:
        replies = (
            self._post("job", {"op": "show", "id": id_}, key=key) for id_, key in self.jobs.items()
        )
        return Counter(
            reply.json()["jobs"][0]["state"] if reply.is_success else str(reply.status_code)
            for reply in replies
        )

    def _post(self, path: str, body: dict[str, Any], *, key: str) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {key}"}
        return httpx2.post(f"{self.running.url}/v1/{path}", json=body, headers=headers, timeout=30)


def soak(
    folder: Folder,
    minutes: float = 60,
    rate: float = 60,
    agents: int = 300,
    workers: int = 2,
    report: Annotated[
        Path | None, typer.Option(help="Write the report to this file instead of FOLDER/soak.txt.")
    ] = None,
) -> None:
    """Send requests for an hour amid jobs, backups and restarts; fail if anything is lost or grows.

    FOLDER has a store that `load fill` has made.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    log = Log(file=report or folder / "soak.txt")
    log(f"{minutes:g} minutes at {rate:g} requests/s by {agents} agents")
    try:
        checks = list(_soak(folder, Pace(minutes, rate, agents, workers), log))
    except BaseException as error:
        log(f"ended early: {type(error).__name__}: {error}")
        raise
    for check in checks:
        log(str(check))
    is_passed = all(check.is_met for check in checks)
    log("passed" if is_passed else "FAILED")
    if not is_passed:
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True)
class Pace:
    """How much is requested, and by how many."""

    minutes: float
    rate: float
    agents: int
    workers: int


def _soak(folder: Path, pace: Pace, log: Log) -> Iterator[Check]:
    """Run the stack under load; judge it."""
    began_ms = int(time.time() * 1000)
    for name in ("server.log", "worker.log", "ledger.jsonl", "report.json"):
        (folder / name).unlink(missing_ok=True)
    with stack(folder, workers=pace.workers) as running:
        plan = replace(planned(running, folder, agents=pace.agents), rate=pace.rate)
        plan.write(folder / "plan.json")
        answers, monitor = Answers(ledger=Path(plan.ledger)), Monitor(running=running)
        operator = Operator(running=running, keys=plan.keys, minutes=pace.minutes, log=log)
        seconds = pace.minutes * _MINUTE_S
        with sending(running, plan, folder / "plan.json", seconds=seconds) as sent:
            _go_on(sent, answers=answers, monitor=monitor, operator=operator)
        for line in _latencies(Path(plan.report)):
            log(line)
        yield from _calls(answers, expected=seconds * pace.rate)
        yield operator.finish()
        yield from _stored(running, answers, plan=plan)
        yield from _scheduled(running, since_ms=began_ms)
        yield from monitor.checks(minutes=pace.minutes)
    yield _logged(folder)


def _go_on(
    sent: subprocess.Popen[bytes], *, answers: Answers, monitor: Monitor, operator: Operator
) -> None:
    """Watch the load until it ends, and do what is due meanwhile."""
    since, logged_s, logged = time.monotonic(), 0.0, 0
    actions = deque(operator.plan())
    while sent.poll() is None:
        at_s = time.monotonic() - since
        while actions and actions[0][0] <= at_s:
            _, name, action = actions.popleft()
            operator.start(name, action)
        monitor.take(at_s)
        answers.read()
        if at_s - logged_s >= _MINUTE_S:
            rate = (answers.total - logged) / (at_s - logged_s)
            operator.log(_progress(at_s, rate, answers=answers, monitor=monitor))
            logged_s, logged = at_s, answers.total
        with suppress(psutil.TimeoutExpired):
            psutil.Process(sent.pid).wait(_SAMPLE_S)
    answers.read()


def _progress(at_s: float, rate: float, *, answers: Answers, monitor: Monitor) -> str:
    """Describe the last minute in a line."""
    p95 = quantiles(answers.recent_ms, n=20)[-1] if len(answers.recent_ms) > 1 else 0
    answers.recent_ms.clear()
    held = ", ".join(
        f"{name} {samples[-1].resident_mb:.0f} MB" for name, samples in monitor.held.items()
    )
    return (
        f"{at_s / _MINUTE_S:3.0f} min  {rate:5.1f}/s  p95 {p95:5.0f} ms"
        f"  failed {sum(answers.failures.values())}, to retry {answers.retryable}"
        f"  {held}, {_postgres(monitor.running)}"
        f"connections {monitor.connections[-1][1] if monitor.connections else 0}"
    )


def _postgres(running: Stack) -> str:
    """Describe the memory of Postgres without its buffers; nothing while it is away."""
    with suppress(OSError, psutil.Error):
        used = uses({"postgres": postmaster(running.folder)})["postgres"]
        return f"postgres {used.resident_mb:.0f} MB, "
    return ""


def _calls(answers: Answers, *, expected: float) -> Iterator[Check]:
    failed = ", ".join(f"{count} {name}" for name, count in answers.failures.most_common(5))
    figure = f"{failed or 'none'}; {answers.retryable} of {answers.total} to be retried"
    yield Check(name="calls failed", is_met=not answers.failures, figure=figure)
    figure = f"{answers.total} of {expected:.0f}"
    # A Poisson process of some thousand calls varies by less than this.
    yield Check(name="calls answered", is_met=answers.total >= 0.95 * expected, figure=figure)


def _stored(running: Stack, answers: Answers, *, plan: Plan) -> Iterator[Check]:
    """Judge what became of the writes that were acknowledged."""
    written = [write.id for write in answers.writes]
    counts = {
        "lost": count_lost(running.postgres, written),
        "not read back": count_unreadable(running.url, plan.keys, answers.writes, mark=plan.mark),
        "written twice": count_repeated(running.postgres, plan.mark),
        "without vector": count_without_vector(running.postgres, written),
    }
    for name, count in counts.items():
        yield Check(name=f"memories {name}", is_met=not count, figure=f"{count} of {len(written)}")


def _scheduled(running: Stack, *, since_ms: int) -> Iterator[Check]:
    """Judge the recurring jobs."""
    with closing(psycopg.connect(running.postgres)) as connection:
        states = dict(connection.execute(_DONE, [since_ms]).fetchall())
        dead = [str(row[0]) for row in connection.execute(_DEAD, [since_ms]).fetchall()]
        twice = [str(row[0]) for row in connection.execute(_TWICE, [since_ms]).fetchall()]
    yield Check(
        name="dead letters", is_met=not dead, figure=", ".join(dead[:3]) or f"none of {states}"
    )
    yield Check(
        name="maintenance once a day", is_met=not twice, figure=", ".join(twice[:3]) or "yes"
    )


def _logged(folder: Path) -> Check:
    """Judge the logs of server and worker: outages are a line each, never a traceback."""
    text = "".join((folder / f"{name}.log").read_text("utf-8") for name in ("server", "worker"))
    count = text.count("Traceback")
    return Check(name="tracebacks logged", is_met=not count, figure=str(count))


def _latencies(report: Path) -> Iterator[str]:
    calls: dict[str, Any] = json.loads(report.read_text("utf-8"))["calls"]
    for name, one in calls.items():
        yield (
            f"{name:<9} {one['count']} calls  p50 {one['p50_ms']:.0f}  p95 {one['p95_ms']:.0f}"
            f"  p99 {one['p99_ms']:.0f}  longest {one['longest_ms']:.0f} ms"
        )
