"""`python -m benchmarks hook-faults`: every hook on a busy machine, with what may go wrong.

A client continues only if its hook ends in time, with status 0 and without a traceback.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Final

import typer

import commonbrain
from benchmarks.large_stores import Filling
from benchmarks.machine import describe_machine
from commonbrain.hooks.table import HOOKS, LIMITS_S, Hook, HookAction
from commonbrain.runtime.local_socket import socket_path
from commonbrain.storage.sqlite.driver import driver

app = typer.Typer()
BRAIN: Final = str(Path(sys.executable).with_name("brain"))
LONG: Final = "A line of a long text about the harbour at Hilo.\n" * 41_000
"""Two megabytes."""
LESSON: Final = "Done.\n\nThe root cause was that the pool of helios was closed twice."
FAILURE: Final = "E   sqlalchemy.exc.MissingGreenlet: greenlet_spawn has not been called"
RULE: Final = "Never push to release by hand."
UNWRITABLE: Final = "/sys"
"""A folder in which root, too, makes no file."""
HOMES: Final = ("HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "COMMONBRAIN_STATE")
_START_RUNS: Final = 20
_TIMEOUT_S: Final = 120
_AT_ONCE: Final = 4
"""Hooks that run at once, as of four agents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Something that may go wrong, as options and variables of a hook and a change of its input."""

    words: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    inputs: Callable[[bytes], Sequence[bytes]] = lambda given: (given,)
    filler: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of a hook."""

    hook: Hook
    wall_s: float
    status: int
    out: bytes
    err: bytes

    @property
    def limit_s(self) -> float:
        """The limit of the action."""
        return LIMITS_S[self.hook.action][1]

    @property
    def is_noisy(self) -> bool:
        """Whether it wrote more than one line that says why it shows nothing."""
        lines = self.err.decode(errors="replace").splitlines()
        return len(lines) > 1 or any(not one.startswith("commonbrain: ") for one in lines)

    @property
    def is_failed(self) -> bool:
        """Whether the client would see a failure, or could not read the answer."""
        try:
            answer = json.loads(self.out or b"{}")
        except ValueError:
            return True
        return self.status != 0 or not isinstance(answer, dict)


@app.command("hook-faults")
def hook_faults(busy: int = 8, only: str = "") -> None:
    """Run the hooks of every client and event on a busy machine, and count those that fail.

    A hook is late if it ends after its limit and the time that a program takes to start here. Only
    some have something to show, and where nothing goes wrong they show it. With --only, one
    condition is tried.
    """
    print(describe_machine())
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/tmp")))
        conditions = stack.enter_context(conditions_in(folder))
        stack.enter_context(busy_processes(busy))
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            started = [threads.submit(_start_s) for _ in range(_START_RUNS)]
            start_s = max(one.result() for one in started)
        print(f"{busy} busy processes; a program takes up to {start_s:.2f} s to start")
        print(
            f"{'condition':<24} runs  shown  failed  noisy  late  the latest: seconds, limit, hook"
        )
        for name, condition in conditions.items():
            if only in name:
                runs = run_all(condition, folder)
                print(row(name, runs, start_s=start_s), flush=True)


def row(name: str, runs: Sequence[Run], *, start_s: float) -> str:
    """Describe the runs in one condition in a line."""
    shown = sum(bool(one.out) for one in runs)
    failed = sum(one.is_failed for one in runs)
    noisy = sum(one.is_noisy for one in runs)
    late = sum(one.wall_s > one.limit_s + start_s for one in runs)
    worst = max(runs, key=lambda one: one.wall_s - one.limit_s)
    hook = f"{worst.hook.client} {worst.hook.event}"
    return (
        f"{name:<24} {len(runs):4}  {shown:5}  {failed:6}  {noisy:5}  {late:4}  "
        f"{worst.wall_s:.2f} of {worst.limit_s:g}, {hook}"
    )


def run_all(condition: Condition, folder: Path) -> list[Run]:
    """Run every hook in one condition."""
    calls = [
        (hook, given)
        for hook in HOOKS.values()
        for given in inputs_of(hook, condition, folder=folder)
    ]
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        running = [threads.submit(run_hook, *call, condition=condition) for call in calls]
        return [one.result() for one in running]


def run_hook(hook: Hook, given: bytes, *, condition: Condition) -> Run:
    """Run a hook as its client does."""
    since = time.monotonic()
    done = subprocess.run(  # noqa: S603 our own program
        [BRAIN, "hook", hook.client, hook.event, *condition.words],
        input=given, env={**_environment(), **condition.variables}, capture_output=True,
        check=False, timeout=_TIMEOUT_S,
    )  # fmt: skip
    wall_s = time.monotonic() - since
    return Run(hook=hook, wall_s=wall_s, status=done.returncode, out=done.stdout, err=done.stderr)


def inputs_of(hook: Hook, condition: Condition, *, folder: Path) -> Sequence[bytes]:
    """Return what a hook is sent in a condition."""
    event = event_of(hook, folder, filler=condition.filler)
    return condition.inputs(json.dumps(event).encode())


def event_of(hook: Hook, folder: Path, *, filler: str) -> dict[str, object]:
    """Return an event for which the hook has something to do, of a session of its own."""
    edit = {"file_path": f"{folder}/src/helios_pool.py", "new_string": filler}
    command = {"command": "git push --force release"}
    tool: dict[str, object] = {"tool_name": "Bash", "tool_input": command}
    more: dict[str, object] = {}
    match hook.action:
        case HookAction.RECALL:
            more = {"prompt": f"Who closes src/helios_pool.py, wiring alone?\n{filler}"}
        case HookAction.TOOL | HookAction.TOOL_USED if filler:
            more = {"tool_name": "Edit", "tool_input": edit}
        case HookAction.TOOL:
            more = tool
        case HookAction.TOOL_USED if hook.client == "claude-code":
            more = {**tool, "error": f"Exit code 1\n{FAILURE}"}
        case HookAction.TOOL_USED:
            more = {**tool, "tool_output": json.dumps({"output": FAILURE, "exitCode": 1})}
        case HookAction.CAPTURE:
            names = {"cursor": "text", "gemini": "prompt_response"}
            name = names.get(hook.client, "last_assistant_message")
            more = {name: f"{LESSON}\n\n{filler}"}
        case HookAction.SUMMARISE:
            more = {"compact_summary": f"{LESSON}\n\n{filler}"}
        case _:
            more = {"agent_id": "a1", "agent_type": "Explore", "filler": filler}
    session = f"{hook.client}-{hook.event}-{time.monotonic_ns()}"
    return {"session_id": session, "cwd": str(folder), "source": "startup", **more}


@contextmanager
def conditions_in(folder: Path, *, memories: int = 1000) -> Generator[Mapping[str, Condition]]:
    """Prepare everything that may go wrong: stores in a folder, and servers."""
    store = folder / "b.db"
    with commonbrain.open(store) as brain:
        Filling.of(brain)(0, until=memories)
        brain.remember("src/helios_pool.py is closed by wiring alone.", kind="fact")
        brain.remember(RULE, kind="rule", severity="BLOCKER")
        brain.remember(f"The pool was closed twice:\n{FAILURE}\nClose it once.", kind="incident")
    good = _of_store(store)
    broken, locked, hung = (folder / f"{name}.db" for name in ("broken", "locked", "hung"))
    broken.write_bytes(os.urandom(200_000))
    for copy in (locked, hung):
        with closing(driver().connect(str(store))) as source:
            source.execute("VACUUM INTO ?", (str(copy),))
    with ExitStack() as stack:
        urls = {
            "dead server": "http://127.0.0.1:9",
            "slow server": stack.enter_context(answering(b"")),
            "server that drips": stack.enter_context(answering(b"H", times=1000, pause_s=0.2)),
            "server of HTML": stack.enter_context(answering(_http(b"<html>Sign in</html>"))),
            "server of nonsense": stack.enter_context(answering(os.urandom(100_000))),
            "server without an end": stack.enter_context(
                answering(_http(b"x" * 1_000_000), times=1000)
            ),
        }
        writer = stack.enter_context(closing(driver().connect(str(locked))))
        writer.execute("BEGIN IMMEDIATE")
        stack.enter_context(_hung_process(hung))
        yield {
            "nothing": good,
            **{name: _of_server(url, state=folder / "state") for name, url in urls.items()},
            "broken store": _of_store(broken),
            "locked store": _of_store(locked),
            "process that hangs": _of_store(hung),
            "home not writable": Condition(variables=dict.fromkeys(HOMES, UNWRITABLE)),
            "2 MB of input": Condition(variables=good.variables, filler=LONG),
            "malformed input": Condition(variables=good.variables, inputs=_malformed_inputs),
        }


def _of_store(store: Path) -> Condition:
    state = str(store.parent / "state")
    return Condition(variables={"COMMONBRAIN_STORE": str(store), "COMMONBRAIN_STATE": state})


def _of_server(url: str, *, state: Path) -> Condition:
    words = ("--url", url, "--no-key")
    return Condition(words=words, variables={"COMMONBRAIN_STATE": str(state)})


def _malformed_inputs(given: bytes) -> Sequence[bytes]:
    return (b"", given[:-1], b"[1]", b"\xff" + given, b'{"a":' * 100_000, b'{"prompt": "\\ud800"}')


def _http(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + body


@contextmanager
def answering(answer: bytes, *, times: int = 1, pause_s: float = 0.0) -> Generator[str]:
    """Accept connections and give each an answer, several times, then close; without one, wait."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def converse(connection: socket.socket) -> None:
            with connection, suppress(OSError):
                connection.recv(65_536)
                for _ in range(times if answer else 0):
                    connection.sendall(answer)
                    Event().wait(pause_s)
                while not answer and connection.recv(65_536):
                    pass

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    Thread(target=converse, args=(connection,), daemon=True).start()

        Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def _hung_process(store: Path) -> Generator[None]:
    """Listen at the socket of a store, and never greet."""
    path = socket_path(store, {**_environment(), **_of_store(store).variables})
    if path is None:
        raise RuntimeError
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(200)
        yield


@contextmanager
def busy_processes(count: int) -> Generator[None]:
    """Keep the processors busy."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for one in running:
            one.kill()
            one.wait()


def _start_s() -> float:
    since = time.monotonic()
    subprocess.run([BRAIN, "--version"], check=True, capture_output=True, env=_environment())  # noqa: S603
    return time.monotonic() - since


def _environment() -> dict[str, str]:
    """Return the environment without settings of its own."""
    own = ("COMMONBRAIN_", "XDG_", "PYTHON")
    return {name: value for name, value in os.environ.items() if not name.startswith(own)}
