"""What shell commands run, and which memories are about them."""

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.text.commands import names_command, read_commands

CASES = Path(__file__).parent / "commands.jsonl"
HEREDOC = "<<'END'\nit's done\ngit status\nEND\n"


def runs_commit(command: str) -> bool:
    return any(one.head == ("git", "commit") for one in read_commands(command))


def is_about(text: str, *, kind: str, command: str) -> bool:
    return any(
        names_command(one, text)
        or (kind in {"rule", "incident"} and any(named.says.search(text) for named in one.kinds))
        for one in read_commands(command)
    )


def test_memory_is_about_a_command_that_it_names(subtests: pytest.Subtests) -> None:
    cases = [json.loads(line) for line in CASES.read_text().splitlines()]
    for case in cases:
        with subtests.test(command=case["command"], text=case["text"]):
            result = is_about(case["text"], kind=case["kind"], command=case["command"])

            assert result is case["shown"]


@pytest.mark.parametrize(
    "command",
    ["./scripts/deploy.sh prod", "bash scripts/deploy.sh", "git push --force"],
)
def test_command_is_read_from_its_key(command: str) -> None:
    [read] = read_commands(command)

    assert read_commands(read.key) == (read,)


def test_text_to_search_for_is_no_command() -> None:
    for command in ('grep -rn "git push --force" .', 'rg "kubectl apply" .'):
        assert not any(one.kinds for one in read_commands(command))


def test_commit_is_recognised_in_every_shell_form(subtests: pytest.Subtests) -> None:
    for command in [
        "git commit",
        "git add -A && git commit -m x",
        "git commit>log",
        "git add -A # don't forget\ngit commit",
        "git add notes#1.md && git commit",
        "git commit -m 'fix #12'",
        "git -C 'my dir' commit",
        "git --git-dir /x --work-tree=/y commit",
        'git -c user.name="Ann Lee" commit',
        "git -P commit",
        "git \\\n  commit",
        "/usr/bin/git commit",
        "'/opt/my tools/git.exe' commit",
        "A=1 B='x y' git commit",
        "env -u X A=1 git commit",
        "sudo -u ann git commit",
        "timeout -k 5 10 git commit",
        "time git commit",
        "nohup git commit &",
        "if ! git diff --quiet; then git commit -m x; fi",
        "for f in a b; do git commit -m $f; done",
        "case x in a) git commit;; esac",
        "{ git commit; }",
        "(cd x && git commit)",
        "x=$(git commit)",
        "echo `git commit`",
        "true || git commit",
        "git add . > /dev/null 2>&1; git commit",
        f'git commit -m "$(cat {HEREDOC})"',
        "bash -c 'git commit -m x'",
        'bash -lc "cd x && git commit"',
        "sh -c \"bash -c 'git commit'\"",
        "2>>log git commit -m y",
        "eval git commit",
        "git diff --name-only | xargs -n 5 git commit -m y",
        "bash -s <<'END'\ncd x\ngit commit -m y\nEND\nls",
        "sudo sh <<END | tee log\ngit commit\nEND\nls",
    ]:
        with subtests.test(command=command):
            assert runs_commit(command)


def test_command_that_resembles_a_commit_is_not_recognised_as_one(
    subtests: pytest.Subtests,
) -> None:
    for command in [
        "git commit-tree",
        "git committed",
        "git help commit",
        "git -C commit status",
        "git --git-dir commit log",
        "git log --grep commit",
        "git config alias.ci commit",
        "git stash push -m commit",
        "mygit commit",
        "echo git commit",
        "grep 'git commit' x.sh",
        'git status && echo "git commit"',
        "echo 'x; git commit'",
        "ls # ; git commit",
        "bash git commit",
        "git commit --dry-run",
        "git commit -m y --dry-run",
        "git commit --help",
        'echo "\\$(git commit)"',
        'echo "(git commit)"',
        'echo "$(date) git commit"',
        'echo "`date` git commit"',
        "echo '$(git commit)'",
        "",
    ]:
        with subtests.test(command=command):
            assert not runs_commit(command)


def test_hostile_command_is_read_in_linear_time(subtests: pytest.Subtests) -> None:
    for part in [
        "'",
        '"',
        "\\",
        "(",
        "`$(",
        " #",
        "git ",
        "git -c ",
        "X=1 ",
        "env ",
        "sudo ",
        "bash -c '",
        "<<a",
        "<<'a",
        "<<a ",
        "<<a\n",
        "<<a\na\n",
        "x <<a ",
        "bash <<a\n",
        '"$(',
        '"`',
        '"$(x)"',
        "2>",
        "22",
        "eval ",
        "a'b'\"c\"",
        "\\\n",
        "a; ",
    ]:
        with subtests.test(part=part):
            text = part * (16 * 1024 // len(part))
            since = time.process_time()
            for command in (text, f"commit {text}", f"{text[:-7]} commit"):
                runs_commit(command)

            # A second try of each part would take several seconds.
            assert time.process_time() - since < 1


@given(st.text(alphabet="git comt'\"\\\n;&|()<>`$#=-", max_size=200))
def test_arbitrary_command_can_be_read(command: str) -> None:
    runs_commit(f"{command} commit")


@given(st.text(alphabet="abc '\"\\$;\n-", max_size=60))
def test_quoted_command_is_treated_as_a_word(text: str) -> None:
    quoted = "'" + text.replace("'", "'\\''") + "'"

    assert runs_commit(f"echo {quoted}; git commit -m {quoted}")


def test_rule_about_commits_is_shown_for_one(subtests: pytest.Subtests) -> None:
    for rule in [
        "Keep git history linear in the docs repo",
        "The subject line of a commit starts with the area, such as `api:`",
        "Use Conventional Commits",
        "The pre-commit hook must pass",
        "Do not commit directly to the release branch",
        "Notebooks are committed without their outputs",
        "Generated files must not be checked in",
        "Credentials do not belong in git",
        "We squash when we merge pull requests",
        "Update the changelog in the same commit as the feature. Use one transaction per test.",
    ]:
        with subtests.test(rule=rule):
            assert is_about(rule, kind="rule", command="git commit -m x")


def test_rule_about_another_subject_is_not_shown_for_a_commit(subtests: pytest.Subtests) -> None:
    for rule in [
        "Ann committed to the deadline",
        "Vendors commit to a delivery date in writing",
        "git is in the base image, so do not install it again",
        "Commit the transaction before you publish the event",
        "Always call session.commit() in the service layer",
        "Use two-phase commit between billing and stock",
        "Docker images are tagged with the commit SHA",
        "Branch coverage must exceed 80%",
        "Passengers check in at pier 4",
        "Tests use a fake clock",
    ]:
        with subtests.test(rule=rule):
            assert not is_about(rule, kind="rule", command="git commit -m x")


def test_text_is_read_once_however_often_a_hook_asks() -> None:
    text = "bash -c 'git push --force' && make deploy"

    assert read_commands(text) is read_commands(text)
