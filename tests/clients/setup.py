"""Installs the clients that are named here, once for each list of them."""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

FOLDER = Path(__file__).parent
LOCK = FOLDER / "package-lock.json"
# npm empties its folder before it installs, so a stamp in there cannot outlive what it vouches for.
STAMP = FOLDER / "node_modules" / ".installed"
# A cold download of some 1.1 GB; half a minute where the registry is near.
INSTALL_S_MAX = 900
VENVS = FOLDER / "node_modules" / ".python"
"""Each in an environment of its own: one of them is on the first version of the SDK."""
PYTHON_CLIENTS: Final[Mapping[str, str]] = {
    "fastmcp": "fastmcp==4.1.2",
    "langchain": "langchain-mcp-adapters==0.3.2",
    "openai-agents": "openai-agents==0.24.0",
    "pydantic-ai": "pydantic-ai-slim[mcp]==2.68.0",
}


def is_installed() -> bool:
    """Tell whether what lies in node_modules is what the lock file names."""
    return STAMP.is_file() and STAMP.read_text() == _digest()


def python_of(client: str) -> Path | None:
    """Give the Python that has a client; None where it is not installed as it is named here."""
    stamp = VENVS / client / ".installed"
    is_there = stamp.is_file() and stamp.read_text() == PYTHON_CLIENTS[client]
    return VENVS / client / "bin" / "python" if is_there else None


def install() -> None:
    """Install what is missing.

    Raises:
        SystemExit: there is no npm or no uv, or one of them failed; its words are on the terminal.

    """
    _install_modules()
    for client in PYTHON_CLIENTS:
        if python_of(client) is None:
            _install_python(client)


def _install_modules() -> None:
    """Run `npm ci` unless it already ran for this lock file."""
    if is_installed():
        return
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit("npm was not found on PATH: install Node.js (20 or newer), then try again")
    _run(npm, "ci")
    STAMP.write_text(_digest())


def _install_python(client: str) -> None:
    uv = shutil.which("uv")
    if uv is None:
        raise SystemExit("uv was not found on PATH: install it, then try again")
    folder = VENVS / client
    _run(uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder))
    python = str(folder / "bin" / "python")
    _run(uv, "pip", "install", "--quiet", "--python", python, PYTHON_CLIENTS[client])
    (folder / ".installed").write_text(PYTHON_CLIENTS[client])


def _run(program: str, *words: str) -> None:
    done = subprocess.run([program, *words], cwd=FOLDER, timeout=INSTALL_S_MAX, check=False)
    if done.returncode != 0:
        reason = f"{program} {words[0]} failed with exit status {done.returncode} in {FOLDER}"
        raise SystemExit(reason)


def _digest() -> str:
    return hashlib.sha256(LOCK.read_bytes()).hexdigest()


if __name__ == "__main__":
    sys.exit(install())
