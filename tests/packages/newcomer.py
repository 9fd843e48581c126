"""A newcomer's ten minutes, as a program that prints how long each step takes.

Usage: `python -m tests.packages.newcomer [DIST]`; without DIST, a folder of packages, they are
built. It installs the wheels into a bare environment, connects Claude Code, imports a MEMORY.md,
searches, corrects what was wrong, and asks as the connected client does, over MCP and by its hook.
It uses a home of its own and changes nothing of yours.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from mcp import Client
from mcp.client.stdio import StdioServerParameters

from tests.packages.artifacts import INSTALLED, build, visitor, wheels

STEP_S_MAX: Final = 600
"""The ten minutes; a step that takes them all has failed."""
MEMORY: Final = """\
# Shop

## API

The API of the shop listens on port 8000.

## Staging

The staging database is rebuilt every night.

## Reviews

Never push to main without a review.
"""
QUESTION: Final = "Which port does the API of the shop use?"
CORRECTION: Final = "The API of the shop listens on port 9000."


PACKAGED: Final[Mapping[str, str]] = {
    "causes": "atomize",
    "eval": "eval run workdays",
    "learn": "model list",
}
"""By extra, a command of the package that it installs."""


class StepFailedError(Exception):
    """A step did not do what a newcomer is promised; says what was seen."""


@dataclass(slots=True, kw_only=True)
class Newcomer:
    """A user with an empty home and a bare Python environment."""

    folder: Path
    durations_s: dict[str, float] = field(default_factory=dict[str, float])

    @property
    def home(self) -> Path:
        """The home, where the client's configuration and the store are."""
        return self.folder / "home"

    @property
    def programs(self) -> Path:
        """The folder of the environment's programs."""
        return self.folder / "venv" / ("Scripts" if sys.platform == "win32" else "bin")

    def run(self, *words: str, stdin: str = "") -> str:
        """Run a program of the environment in the home, and return what it prints.

        Raises:
            StepFailedError: it failed.

        """
        program, *arguments = words
        done = subprocess.run(
            [str(self.programs / program), *arguments],
            cwd=self.home,
            env=visitor(self.home),
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            timeout=STEP_S_MAX,
            check=False,
        )
        if done.returncode:
            raise StepFailedError(f"{' '.join(words)}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def install(self, dist: Path) -> None:
        """Install our wheels with pip; only dependencies are fetched, and nothing is built."""
        self.home.mkdir(parents=True)
        venv.create(self.programs.parent, with_pip=True)
        ours = [str(wheels(dist)[name]) for name in INSTALLED]
        self.run("python", "-m", "pip", "install", "--quiet", "--only-binary=:all:", *ours)

    def connect(self) -> None:
        """Connect Claude Code, with hooks."""
        self.run("brain", "connect", "claude-code", "--hooks")

    def import_notes(self) -> None:
        """Import a folder with a MEMORY.md."""
        notes = self.home / "notes"
        notes.mkdir()
        (notes / "MEMORY.md").write_text(MEMORY)
        self.run("brain", "import", "markdown", str(notes))

    def search(self) -> str:
        """Find the memory about the port, and return its id."""
        best = self._best()
        expect("port 8000", best["body"])
        return str(best["id"])

    def correct(self, memory_id: str) -> None:
        """Say which port it is now."""
        reason = ("--reason", "moved behind the proxy")
        self.run("brain", "revise", "supersede", memory_id, CORRECTION, *reason)
        expect("port 9000", self._best()["body"])

    def work_as_the_agent(self) -> None:
        """Start the configured server, recall over MCP, and send a prompt through the hook."""
        configured = self._read_json(".claude.json")["mcpServers"]["commonbrain"]
        asyncio.run(self._work(configured))

    async def _work(self, configured: Mapping[str, Any]) -> None:
        server = StdioServerParameters(
            command=configured["command"],
            args=configured["args"],
            env=visitor(self.home, **configured["env"]),
            cwd=self.home,
        )
        async with Client(server) as client:
            reply = await client.call_tool("recall", {"query": QUESTION})
            answer = json.dumps([part.model_dump(mode="json") for part in reply.content])
            expect("port 9000", answer, unexpected="port 8000")
            # The hook asks the running server; without one it has to load the model first.
            await asyncio.to_thread(self._prompt)

    def _prompt(self) -> None:
        [group] = self._read_json(".claude/settings.json")["hooks"]["UserPromptSubmit"]
        [hook] = group["hooks"]
        prompt = {
            "hook_event_name": "UserPromptSubmit",
            "session_id": "newcomer",
            "cwd": str(self.home),
            "prompt": QUESTION,
        }
        added = self.run(hook["command"], *hook["args"], stdin=json.dumps(prompt))
        expect("port 9000", added, unexpected="port 8000")

    def ask_for_packages(self) -> None:
        """Run commands of packages that are not installed: each says what to install."""
        for extra, words in PACKAGED.items():
            try:
                self.run("brain", *words.split())
            except StepFailedError as refusal:
                expect(f"pip install 'commonbrain[{extra}]'", str(refusal), unexpected="Traceback")
            else:
                raise StepFailedError(f"{words} ran without its package")

    def _best(self) -> Mapping[str, Any]:
        answer = json.loads(self.run("brain", "recall", QUESTION, "--json"))
        if not answer["items"]:
            raise StepFailedError(f"Recall found nothing: {answer}")
        return cast("Mapping[str, Any]", answer["items"][0])

    def _read_json(self, name: str) -> Mapping[str, Any]:
        return cast("Mapping[str, Any]", json.loads((self.home / name).read_text("utf-8")))

    def timed(self, name: str, step: Callable[[], str | None]) -> str:
        """Run a step, store how long it took, and return what it gives."""
        started = time.perf_counter()
        given = step()
        self.durations_s[name] = time.perf_counter() - started
        return given or ""


def expect(text: str, seen: str, *, unexpected: str | None = None) -> None:
    """Check what a step shows.

    Raises:
        StepFailedError: the text is missing, or the unexpected one is there.

    """
    if text not in seen or (unexpected is not None and unexpected in seen):
        raise StepFailedError(f"Expected {text!r}, without {unexpected!r}, in:\n{seen}")


def first_ten_minutes(dist: Path, folder: Path) -> Mapping[str, float]:
    """Do everything in an empty folder, and return the seconds per step.

    Raises:
        StepFailedError: a step did not do what a newcomer is promised.

    """
    newcomer = Newcomer(folder=folder)
    newcomer.timed("install", lambda: newcomer.install(dist))
    newcomer.timed("connect Claude Code", newcomer.connect)
    newcomer.timed("import a MEMORY.md", newcomer.import_notes)
    results = newcomer.timed("search", newcomer.search)
    newcomer.timed("correct a memory", lambda: newcomer.correct(results))
    newcomer.timed("recall as the agent", newcomer.work_as_the_agent)
    newcomer.timed("ask for what is not installed", newcomer.ask_for_packages)
    return newcomer.durations_s


def main(arguments: list[str]) -> None:
    """Print the seconds per step."""
    with tempfile.TemporaryDirectory(prefix="newcomer-") as name:
        folder = Path(name)
        dist = Path(arguments[0]).absolute() if arguments else build(folder / "dist")
        durations_s = first_ten_minutes(dist, folder / "machine")
    for step, seconds in durations_s.items():
        print(f"{seconds:6.1f} s  {step}")  # noqa: T201 it is the answer
    print(f"{sum(durations_s.values()):6.1f} s  together")  # noqa: T201 the same


if __name__ == "__main__":
    main(sys.argv[1:])
