"""What hooks and short commands cost, from the start of the process to its end."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from threading import Event

import psutil
import typer

import commonbrain
from benchmarks.corpus import questions
from benchmarks.large_stores import Filling
from benchmarks.timing import timed

app = typer.Typer()
BRAIN = str(Path(sys.executable).with_name("brain"))
STARTS = 15
LESSON = "Done.\n\nThe root cause was that the pool of helios was closed twice."


CLIENT = """
import json, os, subprocess, sys
for line in sys.stdin:
    words, given = json.loads(line)
    before = os.times()
    done = subprocess.run(["sh", "-c", '"$@"; exit $?', "sh", *words], input=given.encode(),
                          capture_output=True)
    after = os.times()
    used = after.children_user + after.children_system
    used -= before.children_user + before.children_system
    print(json.dumps([used * 1000, bool(done.stdout)]), flush=True)
"""
"""Runs hooks as a client does, and says what each cost in ms and whether it answered."""
HOOK_KILLED, PROCESS_KILLED, STORE_DELETED = "hook killed", "process killed", "store deleted"
WAYS = (
    *("SIGKILL", "SIGTERM", "SIGHUP", "session-end", "exit"),
    *(HOOK_KILLED, PROCESS_KILLED, STORE_DELETED),
)
"""How sessions end, in turn. The client gets a signal, sends the hook of the end, or says nothing;
or a hook, the process of the hooks or the store is lost before it exits."""
PROMPTS = (
    "Who closes src/helios_pool.py, wiring alone?",
    "In which month is the tide table of Hilo printed?",
)
LEFT_S = 30.0
"""Longer than the process of the hooks outlives its last client."""


@app.command()
def hooks(memories: int = 10_000, sessions: int = 0, pause_s: float = 1.0) -> None:
    """Measure each hook of Claude Code, without and with something to do, and short commands.

    First with a running server of the store, then without, as where hooks may start none. Process
    time, which leaves out the server's, and wall time differ if other programs use the processor.

    With --sessions only these: each has two prompts with a pause between, and no MCP server. They
    end in different ways, see `WAYS`; at times the process of the hooks has to end too.
    """
    if sessions:
        _measure_sessions(sessions, memories=memories, pause_s=pause_s)
        return
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "b.db"
        with commonbrain.open(store) as brain:
            Filling.of(brain)(0, until=memories)
            brain.remember("src/helios_pool.py is closed by wiring alone.", kind="fact")
            brain.remember("Never push to release by hand.", kind="rule", severity="BLOCKER")
        environment = {**os.environ, "COMMONBRAIN_STORE": str(store)}
        # As an installed program runs: its modules are compiled once, by the first process.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        [question] = questions(1, of=memories)
        _measure("import socket, json", [sys.executable, "-c", "import socket, json"], b"")
        calls = _calls(folder, question)
        commands = (["recall", question], ["status"], ["remember", question])
        with served(environment):
            for event, given in calls:
                _measure(f"{event}, served", _command(event), given, environment)
            for words in commands:
                _measure(f"brain {words[0]}, served", [BRAIN, *words], b"", environment)
        environment["COMMONBRAIN_MCP_SHARED"] = "off"
        for event, given in calls:
            _measure(event, _command(event), given, environment)
        for words in commands:
            _measure(f"brain {words[0]}", [BRAIN, *words], b"", environment)


def _measure_sessions(count: int, *, memories: int, pause_s: float) -> None:
    # The path of a socket is short.
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        shared = _filled(folder / "b.db", memories=memories)
        started = list[list[tuple[float, bool]]]()
        for number in range(count):
            way = WAYS[number % len(WAYS)]
            is_own = way == STORE_DELETED
            store = _filled(folder / f"{number}.db", memories=0) if is_own else shared
            started.append(_run_session(number, store, way=way, pause_s=pause_s))
            if number % 4 == 3:  # noqa: PLR2004 often enough
                _wait_for_none(folder)
        _wait_for_none(folder)
        for at, hook in enumerate(("session start", "first prompt", "second prompt")):
            used = [session[at][0] for session in started]
            print(
                f"{hook:<14} process p50 {median(used):6.1f} ms, worst {max(used):6.1f}, "
                f"answered {sum(session[at][1] for session in started)} of {count}"
            )
        files = [one for one in (folder / "state").rglob("*") if one.is_file()]
        sockets = [one for one in folder.glob(".*.local/*") if one.is_socket()]
        print(
            f"orphans: {len(_servers(folder))}; sockets: {len(sockets)}; "
            f"{len(files)} files of state, {sum(one.stat().st_size for one in files):,} bytes"
        )


def _filled(store: Path, *, memories: int) -> Path:
    with commonbrain.open(store) as brain:
        Filling.of(brain)(0, until=memories)
        brain.remember("src/helios_pool.py is closed by wiring alone.", kind="fact")
        brain.remember("The tide table of Hilo is printed in May.", kind="fact")
    return store


@dataclass(frozen=True, slots=True, kw_only=True)
class _Session:
    """A session of a client."""

    process: subprocess.Popen[str]
    store: Path
    name: str

    def send(self, event: str, **more: str) -> None:
        """Let the client run a hook."""
        if self.process.stdin is None:
            raise RuntimeError
        given = {"session_id": self.name, "cwd": str(self.store.parent), "source": "startup"}
        line = json.dumps([_command(event), json.dumps({**given, **more})])
        print(line, file=self.process.stdin, flush=True)

    def call(self, event: str, **more: str) -> tuple[float, bool]:
        """Let the client run a hook to its end; return its cost in ms, and whether it answered."""
        self.send(event, **more)
        if self.process.stdout is None:
            raise RuntimeError
        return tuple(json.loads(self.process.stdout.readline()))

    def end_by(self, way: str) -> None:
        """End the session, see `WAYS`."""
        if way in signal.Signals.__members__:
            self.process.send_signal(signal.Signals[way])
        elif way == "session-end":
            self.call("session-end", reason="exit")
        elif way == HOOK_KILLED:
            self.send("stop", last_assistant_message=LESSON)
            _kill_hook_of(self.process.pid)
        elif way == PROCESS_KILLED:
            for pid in _servers(self.store):
                os.kill(pid, signal.SIGKILL)
        elif way == STORE_DELETED:
            self.store.unlink()
        self.process.communicate()


def _run_session(number: int, store: Path, *, way: str, pause_s: float) -> list[tuple[float, bool]]:
    """Run a session to its end; return the cost of its hooks in ms, and whether they answered."""
    state = str(store.parent / "state")
    environment = {**os.environ, "COMMONBRAIN_STORE": str(store), "COMMONBRAIN_STATE": state}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with subprocess.Popen(  # noqa: S603 our own program
        [sys.executable, "-c", CLIENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True, env=environment,
    ) as process:  # fmt: skip
        session = _Session(process=process, store=store, name=f"session-{number}")
        costs = [session.call("session-start")]
        costs.append(session.call("user-prompt-submit", prompt=PROMPTS[0]))
        Event().wait(pause_s)
        costs.append(session.call("user-prompt-submit", prompt=PROMPTS[1]))
        session.end_by(way)
    return costs


def _kill_hook_of(client: int) -> None:
    """Kill the hook that a client runs, with its shell."""
    running: list[psutil.Process] = []
    while not running:
        running = psutil.Process(client).children(recursive=True)
    for one in running:
        with suppress(psutil.Error):
            one.kill()


def _servers(below: Path) -> list[int]:
    """List the processes that hooks started for a store, or for those of a folder."""
    running = list[int]()
    for one in psutil.process_iter():
        with suppress(psutil.Error):
            store = one.environ().get("COMMONBRAIN_STORE", "")
            if one.cmdline()[-2:] == ["mcp", "--background"] and store.startswith(str(below)):
                running.append(one.pid)
    return running


def _wait_for_none(folder: Path) -> None:
    until = time.monotonic() + LEFT_S
    while _servers(folder) and time.monotonic() < until:
        Event().wait(0.1)


def _calls(folder: str, question: str) -> list[tuple[str, bytes]]:
    given = {"session_id": "s", "cwd": folder, "source": "startup", "turn_id": "t"}
    known = f"{folder}/src/helios_pool.py"
    calls: list[tuple[str, dict[str, object]]] = [
        ("nothing", {}),
        ("user-prompt-submit", {"prompt": "yes"}),
        ("user-prompt-submit", {"prompt": question}),
        ("pre-tool-use", {"tool_input": {"file_path": f"{folder}/src/unknown.py"}}),
        ("pre-tool-use", {"tool_input": {"file_path": known}}),
        ("pre-tool-use", {"tool_input": {"command": "git status"}}),
        ("pre-tool-use", {"tool_input": {"command": "git commit -m x"}}),
        ("stop", {"last_assistant_message": "I ran the tests and they pass."}),
        ("stop", {"last_assistant_message": LESSON}),
        ("session-start", {}),
        ("session-end", {}),
    ]
    return [(event, json.dumps({**given, **more}).encode()) for event, more in calls]


def _command(event: str) -> list[str]:
    return [BRAIN, "hook", "claude-code", event]


@contextmanager
def served(environment: dict[str, str]) -> Generator[None]:
    """Start `brain mcp` and call it once, so that it has opened its store."""
    client = {"name": "benchmark", "version": "1"}
    handshake = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
    call = {"name": "recall", "arguments": {"query": "pool"}}
    messages = (
        {"id": 1, "method": "initialize", "params": handshake},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": call},
    )
    with subprocess.Popen(  # noqa: S603 our own program
        [BRAIN, "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as server:
        if server.stdin is None or server.stdout is None:
            raise RuntimeError
        for message in messages:
            server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            server.stdin.flush()
            if "id" in message:
                server.stdout.readline()
        yield
        server.stdin.close()


def _measure(
    name: str, command: list[str], given: bytes, environment: dict[str, str] | None = None
) -> None:
    answers: list[bytes] = []

    def run() -> None:
        done = subprocess.run(  # noqa: S603 our own program
            command, input=given, env=environment, check=True, capture_output=True, timeout=60
        )
        answers.append(done.stdout)

    run()
    before = os.times()
    walls = [timed(run).wall_ms for _ in range(STARTS)]
    after = os.times()
    used = after.children_user + after.children_system
    used -= before.children_user + before.children_system
    print(
        f"{name:<26} {len(given):>5} bytes, {len(answers[-1]):>5} answered: "
        f"p50 {median(walls):7.1f} ms, worst {max(walls):7.1f}, "
        f"process {used * 1000 / STARTS:7.1f} ms"
    )
