"""What the hooks of a client cost it, from the start of the process to its end."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
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
    """Each hook of Claude Code with nothing to do and with something, on a filled store.

    Process time stands beside wall time: where they differ, somebody else had the processor.
    """
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "b.db"
        with commonbrain.open(store) as brain:
            Filling.of(brain)(0, until=memories)
            brain.remember("src/helios_pool.py is closed by wiring alone.", kind="fact")
            brain.remember("Never push to release by hand.", kind="rule", severity="BLOCKER")
        environment = {**os.environ, "COMMONBRAIN_STORE": str(store)}
        # As an installed program runs: its modules are compiled once, by whoever comes first.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        [question] = questions(1, of=memories)
        told = {"session_id": "s", "cwd": folder, "source": "startup", "turn_id": "t"}
        for event, more in (
            ("nothing", {}),
            ("user-prompt-submit", {"prompt": "yes"}),
            ("user-prompt-submit", {"prompt": question}),
            ("file-edited", {"tool_input": {"file_path": f"{folder}/src/unknown.py"}}),
            ("file-edited", {"tool_input": {"file_path": f"{folder}/src/helios_pool.py"}}),
            ("before-commit", {"tool_input": {"command": "git status"}}),
            ("before-commit", {"tool_input": {"command": "git commit -m x"}}),
            ("stop", {"last_assistant_message": "I ran the tests and they pass."}),
            ("stop", {"last_assistant_message": LESSON}),
            ("session-start", {}),
            ("session-end", {}),
        ):
            _measure(event, {**told, **more}, environment=environment)


def _measure(event: str, told: Mapping[str, object], *, environment: dict[str, str]) -> None:
    command = [BRAIN, "hook", "claude-code", event]
    raw = json.dumps(told).encode()
    answers: list[bytes] = []

    def run() -> None:
        done = subprocess.run(  # noqa: S603 our own program
            command, input=raw, env=environment, check=True, capture_output=True, timeout=60
        )
        answers.append(done.stdout)

    run()
    before = os.times()
    walls = [timed(run).wall_ms for _ in range(STARTS)]
    after = os.times()
    used = after.children_user + after.children_system
    used -= before.children_user + before.children_system
    print(
        f"{event:<20} {len(raw):>5} bytes told, {len(answers[-1]):>5} answered: "
        f"p50 {median(walls):7.1f} ms, worst {max(walls):7.1f}, "
        f"process {used * 1000 / STARTS:7.1f} ms"
    )
