import os
import subprocess
import sys
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from commonbrain.coordination.processes import LocalProcesses, client_among, terminal_among
from commonbrain.model.limits import PATH_CHARS_MAX
from tests.processes import TIMEOUT_S

HOLD = (
    "import sys; from commonbrain.coordination.processes import LocalProcesses as P; "
    "print(P().own().created_at.isoformat(), flush=True); sys.stdin.read()"
)
ASK = "from commonbrain.coordination.processes import LocalProcesses as P; print(P().client().pid)"


@pytest.mark.requirement("SE-29")
def test_process_is_identified_by_its_number_and_start_time() -> None:
    here = LocalProcesses()
    process = here.own()

    assert here.is_alive(process)
    assert process.host == here.host
    assert not here.is_alive(replace(process, created_at=process.created_at - timedelta(minutes=1)))


@pytest.mark.requirement("SE-08")
def test_killed_process_counts_as_dead_before_its_parent_waits_for_it() -> None:
    here = LocalProcesses()
    with subprocess.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        line = child.stdout.readline()
        process = replace(
            here.own(), pid=child.pid, created_at=datetime.fromisoformat(line.strip())
        )
        assert here.is_alive(process)
        child.kill()
        if sys.platform != "win32":
            # It is dead when this returns, and its exit code is still to be asked for.
            os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
            assert not here.is_alive(process)
        child.wait(TIMEOUT_S)
        assert not here.is_alive(process)
    assert not here.is_alive(process)


@pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell")
def test_client_is_identified_past_the_shell_that_it_launched() -> None:
    # With a command after it, the shell stays and starts a child.
    line = f'"{sys.executable}" -c "{ASK}"; true'
    done = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, check=True)

    assert int(done.stdout) == LocalProcesses().own().pid


def test_shell_or_launcher_is_not_the_client(subtests: pytest.Subtests) -> None:
    for names, at in [
        (["claude", "bash", "sshd"], 0),
        (["sh", "uv", "npm exec @x/y", "codex", "-zsh"], 3),
        (["uvx.exe", "cmd.exe", "Cursor.exe"], 2),
        (["bash", "systemd"], None),
        (["python3"], 0),
        ([], None),
    ]:
        with subtests.test(names=names):
            assert client_among(names) == at


def test_folder_given_by_the_client_takes_precedence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("CLAUDE_PROJECT_DIR", "CURSOR_PROJECT_DIR", "GEMINI_PROJECT_DIR"):
        monkeypatch.delenv(name, raising=False)
    here = LocalProcesses()
    assert here.folder() == str(tmp_path)
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", "/home/ann/api")
    assert here.folder() == "/home/ann/api"
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", "/" * (PATH_CHARS_MAX + 1))
    assert here.folder() is None


def test_session_in_the_environment_belongs_to_the_client_that_set_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = LocalProcesses()
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "c0ffee")
    assert here.session("claude-code") == "c0ffee"
    assert here.session("codex") is None
    for unfit in ("", "x" * 129, "a\x1bb"):
        monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", unfit)
        assert here.session("claude-code") is None


@pytest.mark.requirement("SE-35")
def test_terminal_is_its_shell_or_the_program_that_runs_in_it(subtests: pytest.Subtests) -> None:
    for ancestors, leader, at in [
        ([(3, "bash"), (2, "gnome-terminal-"), (1, "systemd")], 3, 0),
        ([(4, "uv"), (3, "-zsh"), (2, "tmux: server")], 3, 1),
        ([(5, "sh"), (4, "claude"), (3, "bash"), (2, "sshd")], 3, 1),
        ([(4, "claude"), (3, "bash")], 9, 0),
        ([(4, "sh"), (3, "python")], 0, 0),
        ([], 9, None),
        ([(4, "uv.exe"), (3, "pwsh.exe"), (2, "WindowsTerminal.exe")], None, 1),
        ([(3, "codex.exe"), (2, "explorer.exe")], None, 0),
    ]:
        with subtests.test(ancestors=ancestors, leader=leader):
            assert terminal_among(ancestors, leader=leader) == at


@pytest.mark.requirement("DM-35")
def test_branch_and_worktree_are_those_of_the_folder(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        identity = ("-c", "user.name=ann", "-c", "user.email=ann@example.org")
        line = ["git", *identity, *words]
        subprocess.run(line, cwd=main, check=True, capture_output=True)

    main, side = tmp_path / "api", tmp_path / "api-2"
    (main / "src").mkdir(parents=True)
    git("init", "-b", "main")
    git("commit", "--allow-empty", "-m", "Begin")
    git("worktree", "add", "-b", "fix/parser", str(side))
    here = LocalProcesses()

    assert here.checkout(str(main / "src")) == {"branch": "main", "worktree": str(main)}
    assert here.checkout(str(side)) == {"branch": "fix/parser", "worktree": str(side)}
    git("checkout", "--detach")
    assert len(here.checkout(str(main))["branch"]) == 12
    (side / ".git").write_text("gitdir: /nowhere")
    assert here.checkout(str(side)) == here.checkout(None) == {}
