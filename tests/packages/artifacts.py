"""Wheels and source distributions of all packages, built as for a release."""

import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Mapping
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
BUILD_S_MAX: Final = 600
"""A cold build downloads some 100 MB; with a network near it takes 15 s."""
IS_RELEASE: Final = "COMMONBRAIN_TEST_DIST" in os.environ
"""Whether the packages of a release are tested; others are built without the multilingual model."""
INSTALLED: Final = ("commonbrain", "commonbrain_assets", "commonbrain_minilm")
"""What `pip install commonbrain` installs of ours, by the names of wheels."""


def uv() -> str:
    """Find uv.

    Raises:
        FileNotFoundError: it is not installed.

    """
    program = shutil.which("uv")
    if program is None:
        raise FileNotFoundError("uv was not found on PATH: install it, then try again")
    return program


def build(
    folder: Path, *arguments: str, clone: Path = ROOT, environment: Mapping[str, str] | None = None
) -> Path:
    """Build as a release does: all source distributions, and wheels from them, into a folder."""
    just = shutil.which("just") or "just"
    model = {} if IS_RELEASE else {"COMMONBRAIN_BUILD_WITHOUT_MODEL": "1"}
    justfile = ("--justfile", str(clone / "justfile"), "--quiet")
    subprocess.run(
        [just, *justfile, "build", "--quiet", *arguments, "--out-dir", str(folder)],
        cwd=clone,
        env={**(os.environ if environment is None else environment), **model},
        check=True,
        timeout=BUILD_S_MAX,
    )
    return folder


def copy_tracked_files(folder: Path) -> None:
    """Copy what a clone contains, as it is in the working tree."""
    listed = subprocess.run(
        [shutil.which("git") or "git", "ls-files", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)


def wheels(folder: Path) -> Mapping[str, Path]:
    """Return the wheels in a folder by the name of their package."""
    return {path.name.partition("-")[0]: path for path in sorted(folder.glob("*.whl"))}


def metadata(wheel: Path) -> Message:
    """Read a wheel's metadata; its payload is the readme."""
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if re.search(r"dist-info/METADATA$", name)]
        return HeaderParser().parsestr(archive.read(name).decode())


def visitor(home: Path, **more: str) -> dict[str, str]:
    """Return the environment of a user at a machine with no settings, whose home is `home`."""
    foreign = ("PYTHON", "COMMONBRAIN_", "XDG_", "VIRTUAL_ENV", "UV_PROJECT")
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(foreign)
    }
    state = {"HOME": str(home), "USERPROFILE": str(home), "APPDATA": str(home / "AppData")}
    return {**environment, **state, **more}
