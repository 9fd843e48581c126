"""What a repository can do to those who work in it, by its files and by what looks like Git's."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from commonbrain.api.project_folder import find_folder_config
from commonbrain.model.sessions import ClientInfo
from commonbrain.testing.builders import a_brain
from commonbrain.working_tree import FILE_BYTES_MAX, Repository, WorkingTree

TEXT = "Card charges are tried three times because the gateway drops one in fifty"
OUTSIDE = "Only the owner reads this line of another folder"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "hostile"
    (root / ".git").mkdir(parents=True)
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / "outside.py").write_text(f"{OUTSIDE}\n")
    return root


def tree(root: Path) -> WorkingTree:
    opened_tree = WorkingTree.above(str(root))
    assert opened_tree is not None
    return opened_tree


def test_nothing_outside_of_the_root_is_read(root: Path, tmp_path: Path) -> None:
    (root / "link.py").symlink_to(tmp_path / "outside.py")
    (root / "folder").symlink_to(tmp_path)
    (root / "loop.py").symlink_to(root / "loop.py")
    (root / "inside.py").write_text("x = 1\n")
    (root / "own.py").symlink_to(root / "inside.py")
    paths = [
        "link.py",
        "folder/outside.py",
        "../outside.py",
        "loop.py",
        str(tmp_path / "outside.py"),
    ]
    paths += ["\0", "a" * 5000, ".", "", "inside.py/x", "missing.py"]

    assert [tree(root).read(path) for path in paths] == [None] * len(paths)
    assert tree(root).read("own.py") == "x = 1\n"
    assert list(tree(root).others("gone.py", has_name=False)) == ["inside.py"]


def test_names_that_no_reply_can_say_are_left_out(tmp_path: Path) -> None:
    root = tmp_path / os.fsdecode(b"shop-\xfe")
    (root / ".git").mkdir(parents=True)
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (root / "pay.py").write_text("def charge(card):\n    return card.take(retries=3)\n")
    contact = ClientInfo(cwd=str(root))
    with a_brain(tmp_path / "brain.db") as brain:
        [item] = brain.acting_as(contact=contact).remember(TEXT, cites=["pay.py#charge"]).items
    (root / "pay.py").rename(root / os.fsdecode(b"new\n\xfe.py"))

    assert item.status == "stored"
    assert list(tree(root).others("pay.py", has_name=False)) == []


def test_files_that_never_end_are_too_large_or_not_text_are_not_read(root: Path) -> None:
    os.mkfifo(root / "pipe.py")
    (root / "large.py").write_bytes(b"x = 1\n" * (FILE_BYTES_MAX // 6 + 1))
    (root / "data.py").write_bytes(b"x = 1\0\n")
    (root / "latin.py").write_bytes("grün = 1\r\n".encode("latin-1"))

    assert [tree(root).read(f"{name}.py") for name in ("pipe", "large", "data")] == [None] * 3
    assert tree(root).read("latin.py") == "gr\ufffdn = 1\n"
    with a_brain(root.parent / "brain.db") as opened:
        brain = opened.acting_as(contact=ClientInfo(cwd=str(root)))
        [stored] = brain.remember(TEXT, cites=["pipe.py:1", "large.py:1", "data.py#x"]).items
        assert "cannot be read here" in stored.warnings[0]
        assert brain.recall(TEXT).items


def test_imitations_of_git_lead_nowhere(root: Path, tmp_path: Path) -> None:
    git = root / ".git"
    (tmp_path / "key").write_text(f"{'ab' * 20}\n")
    for head in (
        "ref: refs/heads/../../../key",
        "ref: /etc/passwd",
        "ref: refs/heads/" + "x" * 5000,
        f"{OUTSIDE}",
        "",
        "\0",
    ):
        (git / "HEAD").write_text(head)
        repository = Repository.at(root)
        assert repository is not None
        assert repository.commit is None
        assert repository.branch is None or ".." in repository.branch
        assert not repository.is_unmerged("../../../key")
    (git / "HEAD").unlink()
    os.mkfifo(git / "HEAD")
    os.mkfifo(git / "packed-refs")
    repository = Repository.at(root)
    assert repository is not None
    assert (repository.branch, repository.commit, repository.default_branch) == (None, None, None)
    with a_brain(tmp_path / "brain.db") as opened:
        brain = opened.acting_as(contact=ClientInfo(cwd=str(root)))
        assert brain.remember(TEXT).items[0].id
        assert brain.recall(TEXT).items


def test_pointers_of_git_end(tmp_path: Path) -> None:
    folder = tmp_path / "pointed"
    folder.mkdir()
    for pointer in (
        "gitdir: .git",
        "gitdir: /",
        "gitdir: /dev/zero",
        "gitdir:",
        "x" * 100_000,
        "\0",
    ):
        (folder / ".git").write_text(pointer)
        repository = Repository.above(folder)
        assert repository is not None
        assert (repository.name, repository.branch) == ("pointed", None)
        assert find_folder_config(folder).project == "pointed"


def test_settings_of_a_repository_run_no_program(tmp_path: Path) -> None:
    root = tmp_path / "hostile"
    root.mkdir()

    def git(*words: str) -> None:
        line = ["git", "-c", "user.name=ann", "-c", "user.email=ann@example.org", *words]
        subprocess.run(line, cwd=root, check=True, capture_output=True)

    git("init", "-b", "main")
    git("commit", "--allow-empty", "-m", "Begin")
    git("branch", "side")
    mark = tmp_path / "ran"
    for name, value in {
        "core.fsmonitor": f"touch {mark}",
        "core.sshCommand": f"touch {mark}",
        "core.pager": f"touch {mark}",
        "core.hooksPath": str(root),
        "extensions.partialClone": "origin",
        "remote.origin.url": f"ext::touch {mark}",
        "remote.origin.promisor": "true",
        "protocol.ext.allow": "always",
    }.items():
        git("config", name, value)
    # A commit that is not there makes Git fetch it.
    (root / ".git" / "refs" / "heads" / "side").write_text(f"{'ab' * 20}\n")
    repository = Repository.at(root)
    assert repository is not None

    assert not repository.is_unmerged("side")
    assert not mark.exists()


def test_a_recall_waits_for_no_hostile_file(root: Path, tmp_path: Path) -> None:
    cites = [f"file{number}.py:{line}" for number in range(4) for line in (2, 3)]
    for number in range(4):
        (root / f"file{number}.py").write_text("first = 1\nreturn second(x)\nreturn third(y)\n")
    with a_brain(tmp_path / "brain.db") as opened:
        brain = opened.acting_as(contact=ClientInfo(cwd=str(root)))
        brain.remember(TEXT, cites=cites)
        for number in range(4):
            (root / f"file{number}.py").write_text("return [\n" * 100_000)
        brain.recall("warm up")
        began = time.process_time()
        [item] = brain.recall(TEXT).items
        assert time.process_time() - began < 2
        assert len(item.cites) == len(cites)
