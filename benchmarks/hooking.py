"""What hooks and short commands cost, from the start of the process to its end."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import typer

import commonbrain
from benchmarks.corpus import questions
from benchmarks.filling import Filling
from benchmarks.timing import timed

hooking = typer.Typer()
BRAIN = str(Path(sys.executable).with_name("brain"))
STARTS = 15
LESSON = "Done.\n\nThe root cause was that the pool of helios was closed twice."


@hooking.command()
def hooks(memories: int = 10_000) -> None:
    """Each hook of Claude Code with nothing to do and with something, and short commands.

    First with a running server of the store, then without. Process time, which leaves out the
    server's, and wall time differ if other programs use the processor.
    """
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
        for event, given in calls:
            _measure(event, _command(event), given, environment)
        for words in commands:
            _measure(f"brain {words[0]}", [BRAIN, *words], b"", environment)


def _calls(folder: str, question: str) -> list[tuple[str, bytes]]:
    given = {"session_id": "s", "cwd": folder, "source": "startup", "turn_id": "t"}
    known = f"{folder}/src/helios_pool.py"
    calls: list[tuple[str, dict[str, object]]] = [
        ("nothing", {}),
        ("user-prompt-submit", {"prompt": "yes"}),
        ("user-prompt-submit", {"prompt": question}),
        ("file-edited", {"tool_input": {"file_path": f"{folder}/src/unknown.py"}}),
        ("file-edited", {"tool_input": {"file_path": known}}),
        ("before-commit", {"tool_input": {"command": "git status"}}),
        ("before-commit", {"tool_input": {"command": "git commit -m x"}}),
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
