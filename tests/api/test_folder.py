"""Which project a folder belongs to: the nearest that says so, or the nearest repository."""

from pathlib import Path

import pytest

from commonbrain.api.project_folder import CONFIG_FILE, find_folder_config
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


def test_name_in_the_configuration_overrides_that_of_the_repository(tmp_path: Path) -> None:
    repository = made(tmp_path / "tides", git=True, told='project = "moon"\n')

    assert find_folder_config(repository / "src").project == "moon"


def test_nearest_configuration_is_used(tmp_path: Path) -> None:
    above = made(tmp_path / "work", told='project = "all"\nhooks = false\ncapture = "tags"\n')
    repository = made(above / "tides", git=True)

    assert find_folder_config(above).project == "all"
    folder_config = find_folder_config(repository)
    assert folder_config.project == "tides"
    # What is said of hooks holds for everything below.
    assert (folder_config.has_hooks, folder_config.capture) == (False, "tags")


def test_worktrees_of_a_repository_are_one_project(tmp_path: Path) -> None:
    worktree = made(tmp_path / "tides-fix")
    (worktree / ".git").write_text(f"gitdir: {tmp_path}/tides/.git/worktrees/tides-fix\n")
    module = made(tmp_path / "tides" / "vendor")
    (module / ".git").write_text("gitdir: ../.git/modules/vendor\n")

    assert find_folder_config(worktree).project == "tides"
    assert find_folder_config(module).project == "vendor"


def test_home_that_is_a_repository_is_no_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(made(tmp_path / "ann", git=True)))

    assert find_folder_config(made(tmp_path / "ann" / "notes")).project is None


@pytest.mark.parametrize(
    "told",
    ["hooks = fals", 'hooks = "no"', "project = 3", 'project = ""', 'capture = "all"', "\x00"],
)
def test_malformed_configuration_is_invalid(told: str, tmp_path: Path) -> None:
    made(tmp_path, told=told)

    with pytest.raises(InvalidInputError, match=r"\.commonbrain\.toml"):
        find_folder_config(tmp_path)
