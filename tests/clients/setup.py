"""Installs the clients that the lock file names beside these tests, once for each lock file."""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
LOCK = FOLDER / "package-lock.json"
# npm empties its folder before it installs, so a stamp in there cannot outlive what it vouches for.
STAMP = FOLDER / "node_modules" / ".installed"
# A cold download of some 700 MB; half a minute where the registry is near.
INSTALL_S_MAX = 900


def is_installed() -> bool:
    """Tell whether what lies in node_modules is what the lock file names."""
    return STAMP.is_file() and STAMP.read_text() == _digest()


def install() -> None:
    """Run `npm ci` unless it already ran for this lock file.

    Raises:
        SystemExit: there is no npm, or it failed; its own words are on the terminal.

    """
    if is_installed():
        return
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit("npm was not found on PATH: install Node.js (20 or newer), then try again")
    done = subprocess.run([npm, "ci"], cwd=FOLDER, timeout=INSTALL_S_MAX, check=False)
    if done.returncode != 0:
        raise SystemExit(f"npm ci failed with exit status {done.returncode} in {FOLDER}")
    STAMP.write_text(_digest())


def _digest() -> str:
    return hashlib.sha256(LOCK.read_bytes()).hexdigest()


if __name__ == "__main__":
    sys.exit(install())
