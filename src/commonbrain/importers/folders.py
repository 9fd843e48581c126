"""Where Markdown files lie, and which project a file is about."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from commonbrain.ports.importing import Unreadable

_SKIPPED: Final = frozenset({"node_modules"})
"""Folders of other people's texts; hidden ones, such as .git, are skipped as well."""
_FLATTENED: Final = re.compile(r"[^A-Za-z0-9]")
"""Claude Code names a project's folder by its path, with a dash for each of these."""


def markdown_files(root: Path) -> Iterator[Path | Unreadable]:
    """Give the files below a folder in the order of their paths, each once, links followed.

    A link that leaves the folder is not followed but reported: what lies there was not offered.
    """
    yield from _Walk(root=root, real=root.resolve()).below(root)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Walk:
    """One walk, with the real paths it has seen, so that links cannot lead it in circles."""

    root: Path
    real: Path
    seen: set[Path] = field(default_factory=set[Path])

    def below(self, folder: Path) -> Iterator[Path | Unreadable]:
        self.seen.add(folder.resolve())
        try:
            names = sorted(os.listdir(folder))  # noqa: PTH208 names sort alike on every system
        except OSError as error:
            yield self._unreadable(folder, f"The folder cannot be opened: {error.strerror}.")
            return
        for name in names:
            yield from self._at(folder / name)

    def _at(self, path: Path) -> Iterator[Path | Unreadable]:
        is_folder = path.is_dir()
        if is_folder and (path.name.startswith(".") or path.name in _SKIPPED):
            return
        if not is_folder and path.suffix.lower() != ".md":
            return
        real = path.resolve()
        if real in self.seen:
            return
        if not real.is_relative_to(self.real):
            yield self._unreadable(path, "It is a link that leaves the folder.")
        elif is_folder:
            yield from self.below(path)
        elif path.is_file():
            self.seen.add(real)
            yield path
        else:
            yield self._unreadable(path, "It is not a file.")

    def _unreadable(self, path: Path, reason: str) -> Unreadable:
        return Unreadable(where=path.relative_to(self.root).as_posix(), reason=reason)


def project_of(file: Path) -> str | None:
    """Name the project that a file is about: by Claude Code's folder, or by the repository.

    A file under `.claude/projects/<path with dashes>/` is about the folder of that path; one in a
    repository (the nearest folder above with `.git`) about that repository; another about none.
    """
    above = file.absolute().parents
    for folder in above:
        if folder.parent.name == "projects" and folder.parent.parent.name == ".claude":
            return _of_flattened(folder.name)
    return next((folder.name for folder in above if (folder / ".git").exists()), None) or None


def _of_flattened(flat: str) -> str:
    """Find the folder that a flattened path means, or keep all of it below the home folder.

    The dashes cannot be undone (`my-app` and `my/app` look alike), so folders on the disk decide.
    """
    found = _below(Path(Path.home().anchor), flat.removeprefix("-"))
    if found is not None:
        return found.name
    home = _FLATTENED.sub("-", str(Path.home())) + "-"
    return flat.removeprefix(home).strip("-") or flat


def _below(folder: Path, flat: str) -> Path | None:
    """Find the path below a folder that flattens to this, trying longer names first."""
    try:
        names = sorted(os.listdir(folder), key=len, reverse=True)  # noqa: PTH208 names are enough
    except OSError:
        return None
    for name in names:
        flattened = _FLATTENED.sub("-", name)
        if flat == flattened and (folder / name).is_dir():
            return folder / name
        if flat.startswith(f"{flattened}-"):
            found = _below(folder / name, flat[len(flattened) + 1 :])
            if found is not None:
                return found
    return None
