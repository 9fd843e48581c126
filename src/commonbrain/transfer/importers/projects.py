"""The project of a file or of a session: from the folders of this machine, or from text alone."""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath
from typing import Final, Protocol

_FLATTENED_CHARS: Final = re.compile(r"[^A-Za-z0-9]")
"""Claude Code names a project's folder by its path, with a dash for each of these."""
_HOME: Final = re.compile(r"^(?:[A-Za-z]-)?-(?:home|Users)-[^-]+-|^-root-|^-")
"""The home folder of another machine, flattened: of Linux, macOS or Windows."""
_PROJECTS: Final = re.compile(
    r"^(?:(?:documents|desktop|github|gitlab|git|repos?|projects?|code|src|dev|work|workspaces?)-)+",
    re.IGNORECASE,
)
"""Folders in which people keep their projects."""


class Projects(Protocol):
    """How an importer knows the project of what it reads."""

    def of_file(self, file: Path, source: Path) -> str | None:
        """Return the project of a file of a source."""
        ...

    def of_folder(self, folder: str | None) -> str | None:
        """Return the project of a folder that a session names."""
        ...


@dataclass(frozen=True, slots=True)
class LocalProjects:
    """Projects of a source that is where its programs wrote it: existing folders decide."""

    def of_file(self, file: Path, source: Path) -> str | None:  # noqa: ARG002 of the interface
        """Return the project by Claude Code's folder, or by the repository.

        A file under `.claude/projects/<path with dashes>/` belongs to the folder of that path; one
        in a repository (the nearest folder above with `.git`) to that repository; others to none.
        """
        path = file.absolute()
        flat = _flattened_above(path)
        return _resolve_flattened(flat) if flat else _repository_above(path)

    def of_folder(self, folder: str | None) -> str | None:
        """Return the repository of the folder if it is here, or the folder's own name.

        A folder of another machine may have separators of another system.
        """
        path = Path(folder or "")
        here = _repository_above(path / "here") if path.is_absolute() else None
        return here or _last_name(folder)


LOCAL: Final[Projects] = LocalProjects()
"""How projects are known unless a copy is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedProjects:
    """Projects of a copy of a source: those that are given, or else what its paths say.

    The disk of this machine is not read: its folders have nothing to do with the source, and the
    sender of the copy could find out which of them exist.
    """

    known: Mapping[str, str]
    """Projects by folder: as a session names it, or below the source (`.` is the source)."""

    def of_file(self, file: Path, source: Path) -> str | None:
        """Return the project given for the nearest folder, or the one in the path of the file."""
        place = PurePosixPath("." if file == source else file.relative_to(source).parent)
        above = (one.as_posix() for one in (place, *place.parents))
        given = next((self.known[one] for one in above if one in self.known), None)
        flat = _flattened_above(PurePosixPath(source.name) / place / file.name)
        return given or (_name_of_flattened(flat) if flat else None)

    def of_folder(self, folder: str | None) -> str | None:
        """Return the project given for a folder, or its name."""
        return self.known.get(folder or "") or _last_name(folder)


def projects_below(source: Path, files: Iterable[Path], *, projects: Projects) -> dict[str, str]:
    """Return the projects of files by folder below their source, where `NamedProjects` needs it."""
    known: dict[str, str] = {}
    # A folder is known before those below it.
    for file in sorted(files, key=lambda one: len(one.parts)):
        project = projects.of_file(file, source)
        if project and NamedProjects(known=known).of_file(file, source) != project:
            place = "." if file == source else file.relative_to(source).parent.as_posix()
            known[place] = project
    return known


def projects_of_folders(folders: Iterable[str], *, projects: Projects) -> dict[str, str]:
    """Return the projects of folders that sessions name, where their names do not say them."""
    named = {one: projects.of_folder(one) for one in dict.fromkeys(folders)}
    return {
        one: project for one, project in named.items() if project and project != _last_name(one)
    }


def _last_name(folder: str | None) -> str | None:
    return (folder or "").replace("\\", "/").rstrip("/").rpartition("/")[2] or None


def _repository_above(path: Path) -> str | None:
    return next((one.name for one in path.parents if (one / ".git").exists()), None) or None


def _flattened_above(path: PurePath) -> str | None:
    """Return the folder of Claude Code's projects that a file is in."""
    for folder in path.parents:
        if folder.parent.name == "projects" and folder.parent.parent.name == ".claude":
            return folder.name
    return None


def _resolve_flattened(flat: str) -> str:
    """Find the folder of a flattened path, or return its part below a home folder.

    Flattening cannot be reversed (`my-app` and `my/app` look alike), so existing folders decide.
    """
    path = _match_below(Path(Path.home().anchor), flat.removeprefix("-"))
    if path is not None:
        return path.name
    home = _FLATTENED_CHARS.sub("-", str(Path.home())) + "-"
    return (
        _below_projects(flat.removeprefix(home), flat)
        if flat.startswith(home)
        else (_name_of_flattened(flat))
    )


def _name_of_flattened(flat: str) -> str:
    """Return the part of a flattened path below the home folder and a usual folder of projects."""
    return _below_projects(_HOME.sub("", flat, count=1), flat)


def _below_projects(below: str, flat: str) -> str:
    return _PROJECTS.sub("", below.strip("-")) or flat


def _match_below(folder: Path, flat: str) -> Path | None:
    """Find the path below a folder that flattens to this, trying longer names first."""
    try:
        names = sorted(os.listdir(folder), key=len, reverse=True)  # noqa: PTH208 names are enough
    except OSError:
        return None
    for name in names:
        flattened = _FLATTENED_CHARS.sub("-", name)
        if flat == flattened and (folder / name).is_dir():
            return folder / name
        if flat.startswith(f"{flattened}-"):
            path = _match_below(folder / name, flat[len(flattened) + 1 :])
            if path is not None:
                return path
    return None
