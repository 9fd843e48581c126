"""Prints what the builds of all packages require, as `just build-requirements` locks it."""

import sys
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
BUILDER: Final = "uv"
"""The program that builds, which the image installs by its hash too."""


def build_requirements() -> set[str]:
    """Return the requirements of every package's build system, and the builder."""
    projects = [ROOT / "pyproject.toml", *ROOT.glob("packages/*/pyproject.toml")]
    read = [tomllib.loads(project.read_text("utf-8")) for project in projects]
    return {BUILDER, *(one for project in read for one in project["build-system"]["requires"])}


if __name__ == "__main__":
    sys.stdout.write("\n".join(sorted(build_requirements())) + "\n")
