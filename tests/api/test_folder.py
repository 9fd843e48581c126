"""Which project a folder belongs to, and what its files can switch off."""

import subprocess
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.api.project_folder import (
    CAPTURE_MODES,
    CONFIG_FILE,
    FolderConfig,
    find_folder_config,
    trust_project,
)
from commonbrain.model.errors import InvalidInputError


def made(path: Path, *, git: bool = False, told: str | None = None) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    if git:
        (path / ".git").mkdir()
    if told is not None:
        (path / CONFIG_FILE).write_text(told)
    return path


def test_repository_is_the_project_of_all_folders_in_it(tmp_path: Path) -> None:
    repository = made(tmp_path / "tides", git=True)

    assert find_folder_config(made(repository / "a" / "b")).project == "tides"
    assert find_folder_config(repository / "not" / "there").project == "tides"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMMONBRAIN_STATE", str(tmp_path / "state"))


def test_name_in_the_configuration_counts_once_it_is_trusted(tmp_path: Path) -> None:
    repository = made(tmp_path / "tides", git=True, told='project = "moon"\n')
    folder = made(tmp_path / "notes", told='project = "sun"\n')

    before = find_folder_config(repository / "src")
    assert before.project == "tides"
    assert "brain hook trust" in before.notices[0]
    assert "moon" not in before.notices[0]
    assert find_folder_config(folder).project is None

    assert trust_project(repository / "src") == (repository / CONFIG_FILE, "moon")
    assert find_folder_config(repository / "src") == FolderConfig(project="moon")
    assert find_folder_config(folder).project is None

    # A later version of the file, and another file with the same name, are not trusted.
    (repository / CONFIG_FILE).write_text('project = "sun"\n')
    (folder / CONFIG_FILE).write_text('project = "moon"\n')
    assert find_folder_config(repository).project == "tides"
    assert find_folder_config(folder).project is None


def test_trust_needs_a_file_that_names_a_project(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="names a project"):
        trust_project(made(tmp_path / "tides", git=True, told="hooks = false\n"))


MODES: Final = st.sampled_from(CAPTURE_MODES)


@given(user=MODES, files=st.lists(st.none() | MODES | st.just("broken"), max_size=4))
def test_no_file_widens_what_the_user_or_another_file_lets_hooks_store(
    tmp_path_factory: pytest.TempPathFactory, user: str, files: list[str | None]
) -> None:
    folder = tmp_path_factory.mktemp("folder")
    for number, mode in enumerate(files):
        folder = made(folder / str(number), told=f'capture = "{mode}"\n' if mode else "")

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COMMONBRAIN_CAPTURE", user)
        captured = find_folder_config(folder).capture

    modes = ["off" if mode == "broken" else mode for mode in files if mode]
    assert captured == min([user, *modes], key=CAPTURE_MODES.index)


def test_nearest_name_is_used_and_every_file_can_switch_off(tmp_path: Path) -> None:
    above = made(tmp_path / "work", told='project = "all"\nhooks = false\ncapture = "tags"\n')
    repository = made(above / "tides", git=True, told="hooks = true\n")

    trust_project(above)
    assert find_folder_config(above).project == "all"
    folder_config = find_folder_config(repository)
    assert folder_config.project == "tides"
    # What is said of hooks holds for everything below.
    assert (folder_config.has_hooks, folder_config.capture) == (False, "propose")


def test_worktrees_of_a_repository_are_one_project(tmp_path: Path) -> None:
    def git(folder: Path, *words: str) -> None:
        options = (*("-c", "user.name=ann"), *("-c", "user.email=ann@example.org"))
        always = ("-c", "protocol.file.allow=always", *options)
        line = ["git", *always, *words]
        subprocess.run(line, cwd=folder, check=True, capture_output=True)

    lib, tides, bare = made(tmp_path / "lib"), made(tmp_path / "tides"), made(tmp_path / "moon.git")
    for folder in (lib, tides):
        git(folder, "init", "-b", "main")
        git(folder, "commit", "--allow-empty", "-m", "Begin")
    git(tides, "submodule", "add", str(lib), "vendor/lib")
    git(tides, "worktree", "add", str(tmp_path / "tides-fix"))
    git(tides / "vendor" / "lib", "worktree", "add", "-b", "fix", str(tmp_path / "lib-fix"))
    git(bare, "clone", "--bare", str(lib), ".")
    git(bare, "worktree", "add", "-b", "fix", str(tmp_path / "moon-fix"))

    for folder, project in [
        (tmp_path / "tides-fix" / "src", "tides"),
        (tides / "vendor" / "lib", "lib"),
        (tmp_path / "lib-fix", "lib"),
        (tmp_path / "moon-fix", "moon"),
    ]:
        assert find_folder_config(folder).project == project


def test_file_that_came_with_a_folder_makes_it_no_worktree_of_another(tmp_path: Path) -> None:
    secret = made(tmp_path / "secret")
    line = ["git", "init", "-b", "main"]
    subprocess.run(line, cwd=secret, check=True, capture_output=True)
    (secret / ".git" / "worktrees" / "x").mkdir(parents=True)
    hostile = made(tmp_path / "hostile")
    for target in (secret / ".git" / "worktrees" / "x", secret / ".git", Path("../secret/.git")):
        (hostile / ".git").write_text(f"gitdir: {target}\n")
        assert find_folder_config(hostile).project == "hostile"


def test_home_that_is_a_repository_is_no_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(made(tmp_path / "ann", git=True)))

    assert find_folder_config(made(tmp_path / "ann" / "notes")).project is None


@pytest.mark.parametrize(
    "told",
    [
        "hooks = fals",
        'hooks = "no"',
        "project = 3",
        'project = ""',
        'capture = "all"',
        "\x00",
        f"a = {'[' * 30_000}",
        f"a = {'9' * 30_000}",
        # The parser takes a time that grows with the square of these.
        f"a{'.a' * 30_000} = 1",
        f"a = {'[' * 1_000}",
    ],
)
def test_broken_file_switches_off_and_is_said(told: str, tmp_path: Path) -> None:
    repository = made(tmp_path / "tides", git=True, told=told)

    config = find_folder_config(repository)

    assert (config.project, config.has_hooks, config.capture) == ("tides", False, "off")
    assert len(config.notices) == 1
    assert str(repository / CONFIG_FILE) in config.notices[0]
