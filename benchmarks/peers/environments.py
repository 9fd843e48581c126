"""Environments of exact versions, made once and kept in a folder of the user's cache."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import platformdirs

from benchmarks.peers.systems import Peer

ROOT: Final = Path(__file__).parents[2]
_REQUIREMENTS: Final = Path(__file__).with_name("requirements")
_MODEL: Final = ROOT / "packages" / "commonbrain-minilm"
_IMPORT: Final = ROOT / "packages" / "commonbrain-import"
"""It reads files of conversations; texts alone need it not."""
_INSTALLED: Final = "installed.json"
"""Written last: an environment without it is incomplete, and is made anew."""
_TIMEOUT_S: Final = 900
"""The largest, of 170 packages, downloads in two minutes."""
_REASON_LINES: Final = 3
"""Of what uv prints when it fails, the last lines name the cause."""


class UnavailableEnvironmentError(Exception):
    """It cannot be installed; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """An interpreter with the packages of one peer."""

    python: Path
    installed_mb: float
    """Size of the packages, without bytecode and without the bare environment."""


def environments_folder() -> Path:
    """Return the folder of the user's cache."""
    return platformdirs.user_cache_path("commonbrain") / "peers"


def prepare(peer: Peer, folder: Path) -> Environment:
    """Return the environment of a peer, installing what is not there.

    Raises:
        UnavailableEnvironmentError: uv is missing or could not install it.

    """
    requirements = _requirements(peer)
    digest = hashlib.sha256("\n".join([*requirements, peer.python or sys.version]).encode())
    place = folder / f"{peer.worker}-{digest.hexdigest()[:12]}"
    python = place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    record = place / _INSTALLED
    if not record.exists():
        shutil.rmtree(place, ignore_errors=True)
        _uv("venv", "--quiet", "--python", peer.python or sys.executable, str(place))
        bare = _size(place)
        if requirements:
            listed = place / "requirements.txt"
            listed.write_text("\n".join(requirements), "utf-8")
            _install(python, "--requirements", str(listed))
            _install(python, "--no-deps", str(_MODEL))
        record.write_text(json.dumps({"bare": bare}), "utf-8")
    if peer.is_ours:
        ours = (ROOT, _IMPORT) if peer.imports else (ROOT,)
        _install(python, "--no-deps", "--reinstall", *map(str, ours))
    installed = _size(place) - json.loads(record.read_text("utf-8"))["bare"]
    return Environment(python=python, installed_mb=installed / 1e6)


def _requirements(peer: Peer) -> list[str]:
    if peer.is_ours:
        options = ("--frozen", "--quiet", "--no-dev", "--no-emit-workspace", "--no-hashes")
        extra = ("--extra", "import") if peer.imports else ()
        return _pinned(_uv("export", *options, *extra))
    if peer.requirements is None:
        return []
    return _pinned((_REQUIREMENTS / f"{peer.requirements}.txt").read_text("utf-8"))


def _pinned(text: str) -> list[str]:
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return [line for line in lines if line]


def _install(python: Path, *arguments: str) -> None:
    # An editable install would count nothing, and would follow the working tree.
    _uv("pip", "install", "--quiet", "--no-editable", "--python", str(python), *arguments)


def _uv(*arguments: str) -> str:
    program = shutil.which("uv")
    if program is None:
        raise UnavailableEnvironmentError("uv is not installed")
    ran = subprocess.run(  # noqa: S603 a fixed program
        [program, *arguments],
        cwd=ROOT,
        capture_output=True,
        check=False,
        text=True,
        timeout=_TIMEOUT_S,
    )
    if ran.returncode:
        lines = [line.strip() for line in ran.stderr.splitlines() if line.strip()]
        raise UnavailableEnvironmentError("; ".join(lines[-_REASON_LINES:]))
    return ran.stdout


def _size(place: Path) -> int:
    files = (path for path in place.rglob("*") if path.is_file() and not path.is_symlink())
    return sum(path.stat().st_size for path in files if path.suffix != ".pyc")
