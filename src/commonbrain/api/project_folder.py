"""The project of a folder, and what the files of its folders say of hooks.

A `.commonbrain.toml` may come with a clone or an archive, so that it only takes away: it switches
hooks off, except for the rules that bind, and capture down. The project that it names counts once
the user trusted that name for that file.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from commonbrain.folders import make_private_folder, name_digest
from commonbrain.model.errors import InvalidInputError, RejectedError, UnavailableError
from commonbrain.model.limits import NAME_CHARS_MAX
from commonbrain.model.values import dataclass
from commonbrain.observability.hook_runs import state_folder
from commonbrain.working_tree import DEPTH_MAX, Repository

if TYPE_CHECKING:
    from commonbrain.model.scope import Caller

CONFIG_FILE: Final = ".commonbrain.toml"
"""The settings file for a folder and everything below it."""
AT_ONCE: Final = "auto"
CAPTURE_MODES: Final = ("off", "propose", AT_ONCE)
"""What hooks store: nothing; an agent's tagged lines, and proposals of what the user says; or also
an agent's decisions, and at once what the user surely said."""
_EARLIER_MODES: Final = {"tags": "propose", "turns": AT_ONCE}
LEFT_ON: Final = frozenset({"boot", "status"})
"""Tools that a folder cannot switch off, since its file may come with a clone: rules bind."""
_TRUSTED: Final = "trusted-projects"
"""The file of digests of trusted files and their names, in the folder of the state."""
_BYTES_MAX: Final = 2048
"""Long names with many dots take the parser time by their square; this many bytes take 0.02 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderConfig:
    """What holds in a folder."""

    project: str | None = None
    has_hooks: bool = True
    """If not, hooks show the rules that bind, and nothing else."""
    capture: str = AT_ONCE
    """What hooks store of messages: the narrowest mode of the user and of the files."""
    source: Path | None = None
    """The nearest file that switches hooks off."""
    memory_off_by: Path | None = None
    """The nearest file that switches the memory off, for hooks and for an agent's tools."""
    notices: tuple[str, ...] = ()
    """What of the files is not used, for the agent and the user; without a text of theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _FolderFile:
    """One file. If it is broken, nothing is stored or shown, since it may have asked for that."""

    path: Path
    project: str | None = None
    has_hooks: bool = False
    has_memory: bool = True
    capture: str | None = CAPTURE_MODES[0]
    problem: str | None = None


def find_folder_config(path: Path, *, state: Path | None = None) -> FolderConfig:
    """Find the settings of a folder in it and the folders above; broken files are noticed.

    The nearest folder that is a repository or names a trusted project decides on the project. Every
    file can switch hooks off, and narrow the capture that the environment of this process sets.

    Args:
        path: the folder.
        state: the folder of the user's state; that of the environment by default.

    """
    above = [path, *path.parents][:DEPTH_MAX]
    files = _files(above)
    modes = [_user_mode(os.environ), *(one.capture for one in files if one.capture)]
    off = [one.path for one in files if not one.has_hooks]
    notices = [one.problem for one in files if one.problem]
    project = None
    trusted = _trusted(state) if any(one.project for one in files) else frozenset[str]()
    by_folder = {one.path.parent: one for one in files if one.project}
    for folder in above:
        file = by_folder.get(folder)
        if file and _digest(file) in trusted:
            project = file.project
            break
        if file:
            notices.append(
                f"The project that {file.path} names is not used. If you know the file, run "
                "`brain hook trust` in its folder."
            )
        if project := _repository(folder):
            break
    return FolderConfig(
        project=project,
        has_hooks=not off,
        capture=min(modes, key=CAPTURE_MODES.index),
        source=next(iter(off), None),
        memory_off_by=next((one.path for one in files if not one.has_memory), None),
        notices=tuple(notices),
    )


def folder_config_of(caller: "Caller") -> FolderConfig:
    """Return the settings of the folder in which a caller's client was started, if it has one."""
    folder = caller.contact.cwd
    return find_folder_config(Path(folder)) if folder else FolderConfig()


def switched_off_error(file: Path) -> RejectedError:
    """Return the error of a call in a folder whose file switches the memory off."""
    return RejectedError(
        f"The memory is switched off here by {file}.",
        code="switched_off",
        hint="Go on without it, or ask the user to change the file.",
    )


def trust_project(path: Path) -> tuple[Path, str]:
    """Let the nearest file with a project's name decide on the project; return both.

    Raises:
        InvalidInputError: no file names one.
        UnavailableError: it cannot be recorded.

    """
    files = _files([path, *path.parents][:DEPTH_MAX])
    file = next((one for one in files if one.project), None)
    if file is None or file.project is None:
        raise InvalidInputError(
            f"No {CONFIG_FILE} in {path} or above names a project.",
            hint='Write project = "a name" into one.',
        )
    state = state_folder(os.environ)
    try:
        make_private_folder(state)
        with (state / _TRUSTED).open("a", encoding="ascii") as lines:
            lines.write(f"{_digest(file)}\n")
    except OSError as error:
        raise UnavailableError(
            f"The trust in {file.path} cannot be recorded: {error.strerror}.",
            hint="Set COMMONBRAIN_STATE to a folder that you can write.",
        ) from error
    return file.path, file.project


def _user_mode(environment: Mapping[str, str]) -> str:
    given = environment.get("COMMONBRAIN_CAPTURE", "")
    mode = _EARLIER_MODES.get(given, given)
    return mode if mode in CAPTURE_MODES else AT_ONCE


def _files(above: Sequence[Path]) -> list[_FolderFile]:
    return [_read(one / CONFIG_FILE) for one in above if (one / CONFIG_FILE).is_file()]


def _trusted(state: Path | None) -> frozenset[str]:
    file = (state or state_folder(os.environ)) / _TRUSTED
    try:
        return frozenset(file.read_text("ascii").split())
    except (OSError, ValueError):
        return frozenset()


def _digest(file: _FolderFile) -> str:
    return name_digest(f"{file.path.resolve()}\0{file.project}")


def _repository(folder: Path) -> str | None:
    """Return the name of a repository; None for other folders.

    A home folder that is a repository, as some users have for their settings, is no project.
    """
    repository = None if folder == Path.home() else Repository.at(folder)
    name = repository.name if repository else ""
    return name if name.isprintable() and 0 < len(name) <= NAME_CHARS_MAX else None


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_BYTES_MAX + 1)


def _short(text: bytes) -> bytes:
    if len(text) > _BYTES_MAX:
        raise InvalidInputError(f"It has over {_BYTES_MAX:,} bytes.", hint="Shorten it.")
    return text


def _read(path: Path) -> _FolderFile:
    # Most folders have no such file.
    import tomllib  # noqa: PLC0415

    try:
        table = tomllib.loads(_short(_head(path)).decode())
        return _FolderFile(
            path=path,
            project=_text(table, "project"),
            has_hooks=_flag(table, "hooks") and _flag(table, "memory"),
            has_memory=_flag(table, "memory"),
            capture=_choice(table, "capture"),
        )
    except InvalidInputError as error:
        problem = f"{error.message} {error.hint}"
    # The parser recurses, and converts long numbers.
    except (OSError, ValueError, RecursionError):
        problem = "It is not valid TOML."
    return _FolderFile(
        path=path,
        problem=f"{path} is broken, so hooks show only the rules that bind and store nothing. "
        f"{problem}",
    )


def _text(table: Mapping[str, object], key: str) -> str | None:
    value = table.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or not (value.isprintable() and 0 < len(value) <= NAME_CHARS_MAX):
        raise InvalidInputError(f"{key} is not a valid name.", hint=f'Write {key} = "a name".')
    return value


def _flag(table: Mapping[str, object], key: str) -> bool:
    value = table.get(key, True)
    if not isinstance(value, bool):
        raise InvalidInputError(f"{key} is neither true nor false.", hint=f"Write {key} = false.")
    return value


def _choice(table: Mapping[str, object], key: str) -> str | None:
    given = _text(table, key)
    value = given and _EARLIER_MODES.get(given, given)
    if value is not None and value not in CAPTURE_MODES:
        raise InvalidInputError(
            f"{key} is unknown.", hint=f"Choose one of {', '.join(CAPTURE_MODES)}."
        )
    return value
