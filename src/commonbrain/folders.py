"""Folders of this user alone."""

import errno
from contextlib import suppress
from pathlib import Path
from typing import Final

_MODE: Final = 0o700


def make_private_folder(folder: Path) -> None:
    """Create a folder and its missing parents for their owner only; existing ones stay as they are.

    `Path.mkdir` gives parents the default mode, whatever the mode of the folder.

    Raises:
        OSError: one of them cannot be created, or a file is in its place.

    """
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        with suppress(FileExistsError):
            one.mkdir(mode=_MODE)
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "Not a directory", str(folder))
