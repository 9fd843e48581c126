"""Makes `samples/codex` with Codex and a scripted model: a session with a command, resumed once.

Made with 0.169.0, in a folder outside the tree with
`npm install @openai/codex-linux-x64@npm:@openai/codex@0.169.0-linux-x64`:

    python -m tests.transfer.make.codex PROGRAM tests/transfer/samples/codex
"""

import shutil
import sys
import tempfile
from pathlib import Path

from tests.clients.agents import RUN_S_MAX
from tests.clients.processes import Place
from tests.clients.scripted_model import ScriptedModel, ToolCall
from tests.transfer.make.samples import renamer, shortened


def make(program: Path, out: Path) -> None:
    """Run the sessions and write their rollouts."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        work = home / "code" / "heron-web"
        work.mkdir(parents=True)
        (work / "AGENTS.md").write_text("Be brief.\n")
        listing = ToolCall("exec_command", {"cmd": "ls"})
        for words, text in (
            (("Where is the berth table?",), "The berth table is in README.md."),
            (("resume", "--last", "Which berth has power?"), "Berth 4 is the one with power."),
        ):
            with ScriptedModel([listing], last_words=text) as model:
                place = Place(home=home, environment={"PATH": "/usr/local/bin:/usr/bin:/bin"})
                inside = ("sh", "-c", 'cd "$1" && shift && exec "$@"', "sh", work)
                command = (*inside, program, "exec", *_options(model.url), *words)
                ended = place.run(command, timeout_s=RUN_S_MAX, SCRIPTED_KEY="scripted")
            assert ended.status == 0, ended
        sessions = home / ".codex" / "sessions"
        rename = renamer(home, "")
        shutil.rmtree(out, ignore_errors=True)
        for file in sorted(sessions.rglob("*.jsonl")):
            target = out / "sessions" / rename(file.relative_to(sessions).as_posix())
            target.parent.mkdir(parents=True, exist_ok=True)
            lines = [shortened(rename(one)) for one in file.read_text("utf-8").splitlines()]
            target.write_text("\n".join(lines) + "\n", "utf-8")


def _options(url: str) -> list[str]:
    provider = {"name": "scripted", "base_url": f"{url}/v1", "wire_api": "responses"}
    written = ",".join(f'{name}="{value}"' for name, value in provider.items())
    settings = (
        "model=scripted",
        "model_provider=scripted",
        f'model_providers.scripted={{{written},env_key="SCRIPTED_KEY"}}',
    )
    plain = ("--skip-git-repo-check", "--sandbox", "danger-full-access")
    return [*plain, *(word for setting in settings for word in ("-c", setting))]


if __name__ == "__main__":
    make(Path(sys.argv[1]).absolute(), Path(sys.argv[2]))
