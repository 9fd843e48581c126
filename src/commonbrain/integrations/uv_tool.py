"""Installs this program permanently if uvx runs it, whose environments are in uv's cache."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

from commonbrain.model.errors import UnavailableError

_PACKAGE: Final = "commonbrain"
_INSTALL_S_MAX: Final = 300
"""uvx has just put all packages into uv's cache, so that an installation takes a second."""


def uv_of_uvx(environment: Mapping[str, str], *, prefix: Path) -> str | None:
    """Return the uv that runs the Python environment `prefix` from its cache; None if none does.

    Caches are marked by a file (https://bford.info/cachedir/). uv marks an ordinary environment,
    too, but in its own folder.
    """
    is_cached = any((folder / "CACHEDIR.TAG").is_file() for folder in prefix.parents)
    return environment.get("UV") if is_cached else None


def tool_command() -> Path | None:
    """Return the path of `brain` as a tool of uv, installed or not; None unless uvx runs this.

    uvx runs the installed tool, if there is one, by another path than the link that users run.

    Raises:
        UnavailableError: uv failed.

    """
    prefix = Path(sys.prefix)
    is_tool = (prefix / "uv-receipt.toml").is_file()
    uv = os.environ.get("UV") if is_tool else uv_of_uvx(os.environ, prefix=prefix)
    if uv is None:
        return None
    folder = Path(_run(uv, "tool", "dir", "--bin").strip())
    return folder / ("brain.exe" if sys.platform == "win32" else "brain")


def install_tool() -> str | None:
    """Install the running version as a tool of uv; return its requirement, None without uvx.

    Raises:
        UnavailableError: uv failed, for example because another program has the same name.

    """
    uv = uv_of_uvx(os.environ, prefix=Path(sys.prefix))
    if uv is None:
        return None
    own = distribution(_PACKAGE)
    required = requirement(own.version, direct_url=own.read_text("direct_url.json"))
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    _run(uv, "tool", "install", "--quiet", "--python", python, required)
    return required


def requirement(version: str, *, direct_url: str | None) -> str:
    """Return the requirement of a version, or of the URL from which it was installed.

    `direct_url` is the text of the file of that name in an installed package, None if it came from
    an index (https://packaging.python.org/en/latest/specifications/direct-url/).
    """
    if direct_url is None:
        return f"{_PACKAGE}=={version}"
    origin = json.loads(direct_url)
    control = origin.get("vcs_info")
    url = f"{control['vcs']}+{origin['url']}@{control['commit_id']}" if control else origin["url"]
    folder = origin.get("subdirectory")
    return f"{_PACKAGE} @ {url}" + (f"#subdirectory={folder}" if folder else "")


def _run(uv: str, *words: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603 uv runs this program
            [uv, *words],
            capture_output=True,
            encoding="utf-8",
            timeout=_INSTALL_S_MAX,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"uv {' '.join(words)} failed: {error}") from error
    if done.returncode:
        raise UnavailableError(
            f"uv {' '.join(words)} failed: {done.stderr.strip()}",
            hint=f"Run `uv tool install {_PACKAGE}`, then `brain connect` again.",
        )
    return done.stdout
