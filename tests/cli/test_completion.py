"""Shells complete commands, options and closed sets of values, and open no store for it."""

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from commonbrain.api.operations import OPERATIONS
from commonbrain.integrations import CLIENTS
from commonbrain.model.kinds import Kind
from commonbrain.transfer.importers import InstalledImporters
from commonbrain.transfer.merge import OWN_FORMAT
from tests.in_process import run_brain
from tests.processes import TIMEOUT_S, clean_environment

BASH = shutil.which("bash")
OWN = {"mcp", "import", "export", "backup", "restore", "connect", "resume"}
COMMANDS = OWN | {row.name for row in OPERATIONS if row.name in row.commands}


def completed(store: Path, *words: str) -> set[str]:
    """Complete as bash does: the words typed so far, the last of them unfinished."""
    typed = {"COMP_WORDS": shlex.join(["brain", *words]), "COMP_CWORD": str(len(words))}
    if not words[-1]:
        typed["COMP_WORDS"] = shlex.join(["brain", *words[:-1]]) + " "
    return set(output(store, _BRAIN_COMPLETE="complete_bash", **typed).split())


def output(store: Path, *words: str, **environment: str) -> str:
    done = run_brain(*words, COMMONBRAIN_STORE=str(store), **environment)
    assert done.status == 0, done.err
    return done.out


COMPLETIONS: tuple[tuple[tuple[str, ...], set[str]], ...] = (
    (("re",), {name for name in COMMANDS if name.startswith("re")}),
    (("connect", ""), set(CLIENTS)),
    (("connect", "cu"), {"cursor"}),
    (("connect", "cl"), {"claude-code", "claude-desktop", "cline"}),
    (("connect", "codex", "--scope", ""), {"user", "project"}),
    (("import", ""), {*InstalledImporters(), OWN_FORMAT}),
    (("remember", "x", "--kind", ""), set(Kind)),
    (("recall", "--kind", "ru"), {"rule"}),
    (("recall", "--field", "o"), {"outcome"}),
    (("remember", "x", "--trust", ""), {"trusted_tool", "user_claim", "untrusted_web"}),
    (("revise", "un"), {"unlink", "unpin"}),
    (("get", "mem_1", "--view", "hi"), {"history"}),
    (("get", ""), set()),
)


def test_bash_completes_commands_and_closed_sets_of_values(
    path: Path, subtests: pytest.Subtests
) -> None:
    assert completed(path, "") >= COMMANDS
    for typed, expected in COMPLETIONS:
        with subtests.test(typed=typed):
            assert completed(path, *typed) == expected
    assert not path.exists()


def test_mistyped_command_does_not_disturb_completion(path: Path) -> None:
    assert completed(path, "remembor", "") == completed(path, "")


def test_bash_completes_options(path: Path) -> None:
    assert {"--max-items", "--kind", "--as-of", "--json"} <= completed(path, "recall", "--")


def test_zsh_and_fish_complete_commands_with_their_purpose(
    path: Path, subtests: pytest.Subtests
) -> None:
    typed = {"_TYPER_COMPLETE_ARGS": "brain ", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    for shell in ("zsh", "fish"):
        with subtests.test(shell=shell):
            shown = output(path, _BRAIN_COMPLETE=f"complete_{shell}", **typed)

            assert all(name in shown for name in COMMANDS)
            assert "Count what is stored" in shown


@pytest.mark.skipif(BASH is None, reason="there is no bash here")
def test_script_for_bash_completes_in_bash(path: Path) -> None:
    script = output(path, _BRAIN_COMPLETE="source_bash")
    typed = 'COMP_WORDS=(brain stat); COMP_CWORD=1; _brain_completion brain; echo "${COMPREPLY[@]}"'
    folder = Path(sys.executable).parent
    done = subprocess.run(
        [str(BASH), "-c", f"PATH={shlex.quote(str(folder))}:$PATH\n{script}\n{typed}"],
        env=clean_environment(COMMONBRAIN_STORE=str(path)),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=True,
    )

    assert done.stdout.split() == ["status", "statusline"]


def test_help_of_connect_names_every_client(path: Path) -> None:
    shown = output(path, "connect", "--help")

    assert all(name in shown for name in CLIENTS)
