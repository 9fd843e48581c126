"""Makes `samples/claude-code` with Claude Code and a scripted model: a session with tools that is
resumed, forked, compacted and continued, and one with a name and a subagent.

Made with 2.1.330, in a folder outside the tree with
`npm install @anthropic-ai/claude-code@2.1.330`:

    python -m tests.transfer.make.claude_code PROGRAM tests/transfer/samples/claude-code
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.clients.claude_code import COMMAND_S_MAX, QUIET
from tests.clients.processes import Place
from tests.clients.scripted_model import ScriptedModel, ToolCall
from tests.transfer.make.samples import renamer, shortened


def make(program: Path, out: Path) -> None:
    """Run the sessions and write their transcripts."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        work = home / "code" / "heron-web"
        work.mkdir(parents=True)
        (work / "README.md").write_text("Heron\n")
        subprocess.run(["git", "init", "--quiet"], cwd=work, check=True)  # noqa: S607
        listing = ToolCall("Bash", {"command": "ls", "description": "List the folder"})
        read = ToolCall("Read", {"file_path": str(work / "README.md")})
        request = _Asked(program=program, work=work, home=home)
        answer = "The berth table is in README.md."
        first = request([listing, read], "Where is the berth table?", answer)
        rest = [listing, read]
        again = "--resume", first
        request(rest, "Which berth has power?", "Berth 4 is the one with power.", *again)
        request(rest, "Which berth has water?", "Berth 5 has water.", *again, "--fork-session")
        request(rest, "/compact", "A summary: berths 4 and 5 are equipped.", *again)
        request([], "And which one is free?", "Berth 7 is free.", *again)
        helper = {"description": "Count", "prompt": "Count the berths"}
        count = ToolCall("Agent", {**helper, "subagent_type": "general-purpose"})
        request(
            [count], "Let an agent count the berths.", "There are nine.", "--name", "Berth count"
        )
        _write(home, out)


class _Asked:
    """Asks the program once, in print mode."""

    def __init__(self, *, program: Path, work: Path, home: Path) -> None:
        self.program, self.work, self.home = program, work, home

    def __call__(self, script: list[ToolCall], prompt: str, words: str, *options: str) -> str:
        """Return the id of the session."""
        with ScriptedModel(script, last_words=words) as model:
            place = Place(home=self.home, environment={"PATH": "/usr/local/bin:/usr/bin:/bin"})
            allowed = ("--allowedTools", "Bash", "Read", "Agent", "--output-format", "json")
            inside = ("sh", "-c", 'cd "$1" && shift && exec "$@"', "sh", self.work)
            command = (*inside, self.program, "-p", prompt, *options, *allowed)
            access = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "scripted"}
            ended = place.run(command, timeout_s=COMMAND_S_MAX, **QUIET, **access)
        assert ended.status == 0, ended
        return str(json.loads(ended.out)["session_id"])


def _write(home: Path, out: Path) -> None:
    projects = home / ".claude" / "projects"
    [folder] = projects.iterdir()
    flat = folder.name.removesuffix("-code-heron-web")
    rename = renamer(home, flat)
    shutil.rmtree(out, ignore_errors=True)
    sessions = sorted(folder.glob("*.jsonl"), key=lambda one: one.stat().st_mtime)
    # One subagent is enough: a model that says the same to everything starts several.
    for file in (*sessions, next(folder.glob("*/subagents/*.jsonl"))):
        target = out / rename(file.relative_to(projects).as_posix())
        target.parent.mkdir(parents=True, exist_ok=True)
        lines = [shortened(rename(one)) for one in file.read_text("utf-8").splitlines()]
        target.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    make(Path(sys.argv[1]).absolute(), Path(sys.argv[2]))
