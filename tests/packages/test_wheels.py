"""The packages of a release: complete, and nothing is built or fetched when they are installed."""

import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.packages.artifacts import (
    BUILD_S_MAX,
    IS_RELEASE,
    ROOT,
    build,
    copy_tracked_files,
    metadata,
    uv,
    visitor,
    wheels,
)
from tests.packages.bill_of_materials import bill_of, with_contents

pytestmark = pytest.mark.packages
PACKAGES = {"commonbrain", *(one.name.replace("-", "_") for one in (ROOT / "packages").iterdir())}
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
FOREIGN = {
    "commonbrain-minilm/src/commonbrain_minilm": (
        *("model.onnx", "model-unsigned.onnx", "model.onnx.data", "tokenizer.json"),
    ),
    "commonbrain-multilingual/src/commonbrain_multilingual": (
        *("model.onnx", "model.onnx.data", "pieces.txt", "scores.f32"),
    ),
    "commonbrain-assets/src/commonbrain_assets/files": (
        *("htmx.min.js", "uPlot.iife.min.js", "uPlot.min.css", "cytoscape.min.js"),
    ),
    "commonbrain-client/src/commonbrain_client/generated": ("operations.py", "more.py"),
}
"""Files in the folders that builds write to, as an earlier build or another program left them."""
MULTILINGUAL = {"model.onnx": 100_000, "model.onnx.data": 70_000_000, "pieces.txt": 1_000_000}
"""The least bytes of its files, which only a release is built with."""


def files(wheel: Path) -> dict[str, int]:
    """Return the size of each file in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {one.filename: one.file_size for one in archive.infolist()}


def test_every_package_has_a_wheel_for_any_machine_and_its_source(dist: Path) -> None:
    assert wheels(dist).keys() == PACKAGES
    assert all(path.name.endswith("-py3-none-any.whl") for path in wheels(dist).values())
    sources = {path.name.partition("-")[0] for path in dist.glob("*.tar.gz")}
    assert sources == PACKAGES


def test_wheels_contain_the_model_and_the_scripts(dist: Path) -> None:
    model = files(wheels(dist)["commonbrain_minilm"])
    assert model["commonbrain_minilm/model.onnx"] > 100_000
    assert model["commonbrain_minilm/model.onnx.data"] > 20_000_000
    assert model["commonbrain_minilm/tokenizer.json"] > 100_000
    multilingual = files(wheels(dist)["commonbrain_multilingual"])
    sizes = {name: multilingual.get(f"commonbrain_multilingual/{name}", 0) for name in MULTILINGUAL}
    assert all(size >= MULTILINGUAL[name] for name, size in sizes.items()) is IS_RELEASE
    scripts = files(wheels(dist)["commonbrain_assets"])
    names = {name.rpartition("/")[2] for name in scripts if "/files/" in name}
    assert {"htmx.min.js", "uPlot.iife.min.js", "uPlot.min.css", "cytoscape.min.js"} <= names


def test_another_clone_with_foreign_files_builds_equal_bytes_and_leaves_nothing(
    dist: Path, tmp_path: Path
) -> None:
    clone, home = tmp_path / "another clone", tmp_path / "home"
    home.mkdir()
    copy_tracked_files(clone)
    for file in clone.rglob("*"):
        if file.is_file():
            file.chmod(0o600)
            os.utime(file, (1e9, 1e9))
    for folder, names in FOREIGN.items():
        for name in names:
            (clone / "packages" / folder).mkdir(exist_ok=True)
            (clone / "packages" / folder / name).write_text("foreign")
    cache = subprocess.run([uv(), "cache", "dir"], check=True, capture_output=True, text=True)
    environment = visitor(home, UV_CACHE_DIR=cache.stdout.strip(), UV_PYTHON=sys.executable)
    # Both from the folder: a wheel that is built from its source distribution never sees the files.
    again = build(tmp_path / "again", "--sdist", "--wheel", clone=clone, environment=environment)
    names = sorted(path.name for path in dist.iterdir() if path.suffix in {".whl", ".gz"})
    assert len(names) == 2 * len(PACKAGES)
    differing = [name for name in names if _digest(dist / name) != _digest(again / name)]
    assert not differing
    # Where rustup is installed, pip has it say a version, which writes its settings.
    left = [path for path in home.rglob("*") if path.is_file() and ".rustup" not in path.parts]
    assert not left


def test_bill_of_a_release_lists_what_wheels_contain_with_licences_and_hashes(dist: Path) -> None:
    ours: list[dict[str, Any]] = [{"name": name.replace("_", "-")} for name in PACKAGES]
    bill = with_contents({"components": [*ours, {"name": "numpy"}]}, dist)
    parts: dict[str, dict[str, Any]] = {
        part["name"]: part for one in bill["components"] for part in one.get("components", [])
    }
    models = {"all-MiniLM-L6-v2-int8", "multilingual-e5-small-int8"}
    assert models | {"htmx.org", "uplot", "cytoscape"} == parts.keys()
    assert all(part["licenses"] for part in parts.values())
    for name, wheel in wheels(dist).items():
        if name == "commonbrain_multilingual" and not IS_RELEASE:
            continue
        with zipfile.ZipFile(wheel) as archive:
            digests = {
                name.rpartition("/")[2]: hashlib.sha256(archive.read(name)).hexdigest()
                for name in archive.namelist()
            }
        for file in (file for part in bill_of(wheel) for file in part["components"]):
            assert digests[file["name"]] == file["hashes"][0]["content"], file["name"]


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_metadata_names_the_licence_the_pythons_and_the_project(dist: Path) -> None:
    for wheel in wheels(dist).values():
        fields = metadata(wheel)
        classifiers = fields.get_all("Classifier", [])
        assert {f"Programming Language :: Python :: {one}" for one in PYTHONS} <= {*classifiers}
        urls = {one.partition(",")[0] for one in fields.get_all("Project-URL", [])}
        assert urls == {"Documentation", "Source", "Changelog", "Issues"}
        assert fields["License-Expression"] in {"Apache-2.0", "Apache-2.0 AND MIT"}
        assert any(name.endswith("licenses/LICENSE") for name in files(wheel))


def test_links_of_the_readme_work_outside_the_repository(dist: Path) -> None:
    readme = metadata(wheels(dist)["commonbrain"]).get_payload()
    assert isinstance(readme, str)
    assert "](docs/" not in readme
    assert "](https://github.com/commonbrain/commonbrain/blob/" in readme


def test_all_packages_have_one_version_and_require_it_of_each_other(dist: Path) -> None:
    versions = {metadata(wheel)["Version"] for wheel in wheels(dist).values()}
    assert len(versions) == 1
    [version] = versions
    for wheel in wheels(dist).values():
        required = metadata(wheel).get_all("Requires-Dist", [])
        ours = [one.partition(";")[0].strip() for one in required if one.startswith("commonbrain")]
        assert all(one.endswith(f"=={version}") for one in ours)


def test_second_run_in_a_clone_builds_nothing(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    copy_tracked_files(clone)

    def run() -> str:
        started = subprocess.run(
            [uv(), "run", "--locked", "--no-dev", "brain", "--version"],
            cwd=clone,
            env=visitor(Path(os.path.expanduser("~"))),  # noqa: PTH111 uv's cache is in it
            check=True,
            capture_output=True,
            text=True,
            timeout=BUILD_S_MAX,
        )
        return started.stderr

    assert "Built commonbrain-minilm" in run()
    assert run() == ""
