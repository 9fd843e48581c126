"""Private and temporary folders, and full disks."""

import errno
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from commonbrain.model.errors import UnavailableError

_MODE: Final = 0o700
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


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


def default_store() -> Path:
    """Return the file of the user's store, unless a setting names another."""
    return _user_folder("data", usual="share") / "brain.db"


def default_state() -> Path:
    """Return the folder of the user's state, unless a setting names another."""
    return _user_folder("state", usual="state")


def _user_folder(sort: str, *, usual: str) -> Path:
    """Return what platformdirs does; on Linux without its imports, a tenth of a hook's time."""
    home, given = os.environ.get("HOME", ""), os.environ.get(f"XDG_{sort.upper()}_HOME", "")
    if sys.platform == "linux" and home.startswith("/") and "ANDROID_ROOT" not in os.environ:
        base = given if given.startswith("/") else f"{home}/.local/{usual}"
        return Path(base) / "commonbrain"
    from platformdirs import PlatformDirs  # noqa: PLC0415 see above

    folders = PlatformDirs("commonbrain", appauthor=False)
    return folders.user_data_path if sort == "data" else folders.user_state_path


def name_digest(text: str, *, chars: int = 64) -> str:
    """Return the first hexadecimal characters of a SHA-256, for names of files."""
    # It loads OpenSSL, which most hooks do without.
    from hashlib import sha256  # noqa: PLC0415

    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:chars]


@contextmanager
def temporary_folder(parent: Path | None = None) -> Generator[Path]:
    """Yield a temporary folder, which is deleted when the block ends.

    Raises:
        UnavailableError: `io_error`, its disk became full in the block.

    """
    # It takes a tenth of the time of a hook, which makes no temporary folders.
    from tempfile import TemporaryDirectory  # noqa: PLC0415

    with (
        reporting_full_disk(parent),
        TemporaryDirectory(prefix="commonbrain-", dir=parent) as folder,
    ):
        yield Path(folder)


@contextmanager
def reporting_full_disk(folder: Path | None = None) -> Generator[None]:
    """Convert the error of a full disk in a block that writes temporary files.

    Args:
        folder: where it writes them; the system's folder by default.

    Raises:
        UnavailableError: `io_error`, the disk became full in the block.

    """
    try:
        yield
    except OSError as error:
        if is_disk_full(error):
            # See `temporary_folder`.
            from tempfile import gettempdir  # noqa: PLC0415

            raise UnavailableError(
                f"The disk for temporary files is full: {folder or gettempdir()}.",
                code="io_error",
                hint="Free space on it, or set another folder in TMPDIR; then retry.",
            ) from error
        raise


def is_disk_full(error: BaseException) -> bool:
    """Return whether an error is that of a full disk, or of a quota that is used up."""
    return isinstance(error, OSError) and error.errno in _FULL
