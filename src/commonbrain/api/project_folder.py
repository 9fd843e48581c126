"""The project of a folder, and its owner's settings for hooks in it.

The nearest folder upwards that names a project in `.commonbrain.toml`, or that is a repository,
decides. No other files are read.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.limits import NAME_CHARS_MAX

CONFIG_FILE: Final = ".commonbrain.toml"
"""The settings file for a folder and everything below it."""
CAPTURE_MODES: Final = ("off", "tags", "turns")
"""What hooks store of an agent's last message: nothing, tagged lines, or decisions too."""
_DEPTH_MAX: Final = 64
_BYTES_MAX: Final = 65_536
_WORKTREES: Final = "/.git/worktrees/"
"""Follows the repository's folder in the `.git` file of a worktree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderConfig:
    """The configuration of a folder; None for what is not set."""

    project: str | None = None
    has_hooks: bool = True
    capture: str | None = None
    source: Path | None = None
    """The file with these settings."""


def find_folder_config(path: Path) -> FolderConfig:
    """Find the settings of a folder in it and the folders above.

    Raises:
        InvalidInputError: the nearest `.commonbrain.toml` is not valid.

    """
    above = [path, *path.parents][:_DEPTH_MAX]
    file = next((one / CONFIG_FILE for one in above if (one / CONFIG_FILE).is_file()), None)
    table = _read(file)
    name = _text(table, "project", file=file)
    nearer = above[: above.index(file.parent)] if file and name else above
    return FolderConfig(
        project=next(_repositories(nearer), None) or name,
        has_hooks=_flag(table, "hooks", file=file),
        capture=_choice(table, "capture", file=file),
        source=file,
    )


def capture_mode(folder: FolderConfig, environment: Mapping[str, str]) -> str:
    """Return what to store of messages: the folder's mode, else the user's, else the default."""
    mode = environment.get("COMMONBRAIN_CAPTURE", "")
    return folder.capture or (mode if mode in CAPTURE_MODES else CAPTURE_MODES[-1])


def _repositories(folders: list[Path]) -> Iterator[str]:
    """Yield the names of the repositories among folders, nearest first.

    A home folder that is a repository, as some users have for their settings, is no project.
    """
    home = Path.home()
    for folder in folders:
        mark = folder / ".git"
        if folder != home and mark.exists():
            name = _main_worktree(mark).name
            if name.isprintable() and 0 < len(name) <= NAME_CHARS_MAX:
                yield name


def _main_worktree(mark: Path) -> Path:
    """Return the folder of the main worktree, since all worktrees are one project."""
    if mark.is_file():
        points_to, _, _ = _head(mark).decode(errors="replace").partition(_WORKTREES)
        repository = points_to.removeprefix("gitdir:").strip()
        if repository and _WORKTREES in _head(mark).decode(errors="replace"):
            return Path(repository)
    return mark.parent


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_BYTES_MAX)


def _read(file: Path | None) -> Mapping[str, object]:
    if file is None:
        return {}
    # Most folders have no such file.
    import tomllib  # noqa: PLC0415

    try:
        return tomllib.loads(_head(file).decode())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidInputError(f"{file} is not valid TOML.", hint="Fix or remove it.") from error


def _text(table: Mapping[str, object], key: str, *, file: Path | None) -> str | None:
    value = table.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or not (value.isprintable() and 0 < len(value) <= NAME_CHARS_MAX):
        raise InvalidInputError(
            f"{key} in {file} is not a valid name.", hint=f'Write {key} = "a name".'
        )
    return value


def _flag(table: Mapping[str, object], key: str, *, file: Path | None) -> bool:
    value = table.get(key, True)
    if not isinstance(value, bool):
        raise InvalidInputError(
            f"{key} in {file} is neither true nor false.", hint=f"Write {key} = false."
        )
    return value


def _choice(table: Mapping[str, object], key: str, *, file: Path | None) -> str | None:
    value = _text(table, key, file=file)
    if value is not None and value not in CAPTURE_MODES:
        raise InvalidInputError(
            f"{key} in {file} is unknown.", hint=f"Choose one of {', '.join(CAPTURE_MODES)}."
        )
    return value
