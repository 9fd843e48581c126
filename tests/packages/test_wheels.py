"""The packages of a release: complete, and nothing is built or fetched when they are installed."""

import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.packages.artifacts import (
    BUILD_S_MAX,
    ROOT,
    copy_tracked_files,
    metadata,
    uv,
    visitor,
    wheels,
)

pytestmark = pytest.mark.packages
PACKAGES = {"commonbrain", *(one.name.replace("-", "_") for one in (ROOT / "packages").iterdir())}
PYTHONS = ("3.11", "3.12", "3.13", "3.14")


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
    scripts = files(wheels(dist)["commonbrain_assets"])
    names = {name.rpartition("/")[2] for name in scripts if "/files/" in name}
    assert {"htmx.min.js", "uPlot.iife.min.js", "uPlot.min.css", "cytoscape.min.js"} <= names


def test_metadata_names_the_licence_the_pythons_and_the_project(dist: Path) -> None:
    for wheel in wheels(dist).values():
        fields = metadata(wheel)
        classifiers = fields.get_all("Classifier", [])
        assert {f"Programming Language :: Python :: {one}" for one in PYTHONS} <= {*classifiers}
        urls = {one.partition(",")[0] for one in fields.get_all("Project-URL", [])}
        assert urls == {"Documentation", "Source", "Changelog", "Issues"}
        assert fields["License-Expression"] == "Apache-2.0"
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
