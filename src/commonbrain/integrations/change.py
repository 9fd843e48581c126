"""Changes to files of other programs: computed, shown, then written atomically with a backup."""

import difflib
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from commonbrain.model.errors import InvalidInputError, UnavailableError

_PRIVATE: Final = 0o600
"""Such files can contain tokens of other servers, so only the owner may read a new one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A file's text before and after; None before means that there is no file."""

    path: Path
    before: str | None
    after: str | None

    @property
    def is_new(self) -> bool:
        """Whether the change creates the file."""
        return self.before is None and self.after is not None

    @property
    def is_needed(self) -> bool:
        """Whether the texts differ; if not, the client is connected (or disconnected) already."""
        return self.before != self.after

    @property
    def backup(self) -> Path:
        """The path of the backup."""
        return self.path.with_name(f"{self.path.name}.bak")


def read(path: Path) -> str | None:
    """Read a file as it is, line ends included; None if there is none.

    Raises:
        InvalidInputError: the file is not UTF-8 text.
        UnavailableError: the file cannot be read.

    """
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            f"{path} is not UTF-8 text.", hint="Fix it first; it is unchanged."
        ) from error
    except OSError as error:
        raise UnavailableError(f"{path} cannot be read: {error.strerror}.") from error


def diff(change: Change) -> str:
    """Render a change as a unified diff; empty if there is none."""
    name = str(change.path)
    lines = difflib.unified_diff(
        (change.before or "").splitlines(),
        (change.after or "").splitlines(),
        fromfile="/dev/null" if change.is_new else name,
        tofile=name,
        lineterm="",
    )
    return "".join(f"{line}\n" for line in lines)


def apply(change: Change) -> None:
    """Back up the file to `.bak`, then replace it with the new text in one step.

    Raises:
        InvalidInputError: the file is no longer UTF-8 text; it is unchanged.
        UnavailableError: the file has changed since it was read, or cannot be written; it is
            unchanged.

    """
    if change.after is None or not change.is_needed:
        return
    if read(change.path) != change.before:
        raise UnavailableError(
            f"{change.path} has changed in the meantime.", hint="Run the command again."
        )
    # Replace the target of a link, not the link: some users link to files in a repository.
    target = change.path.resolve()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = _PRIVATE if change.before is None else stat.S_IMODE(target.stat().st_mode)
        if change.before is not None:
            _replace_file(change.backup, change.before, mode=mode)
        _replace_file(target, change.after, mode=mode)
    except OSError as error:
        raise UnavailableError(f"{change.path} cannot be written: {error.strerror}.") from error


def _replace_file(target: Path, text: str, *, mode: int) -> None:
    """Write a temporary file and rename it, so that a crash leaves the old or the new text."""
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(mode)
        Path(name).replace(target)
    finally:
        # It no longer exists after the rename.
        Path(name).unlink(missing_ok=True)
