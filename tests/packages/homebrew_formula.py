"""Writes the Homebrew formula of a release: its wheels, and those of the lock, by their digests.

Usage: `python -m tests.packages.homebrew_formula DIST FORMULA`; DIST is a folder with the wheels
of the release. Some of what is needed has no source distribution, so that wheels are installed.
"""

import hashlib
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from packaging.markers import Marker
from packaging.tags import Tag, compatible_tags, cpython_tags, mac_platforms
from packaging.utils import parse_wheel_filename

from tests.packages.artifacts import INSTALLED, ROOT, uv

PYTHON: Final = (3, 13)
RELEASES: Final = "https://github.com/commonbrain/commonbrain/releases/download"
_GLIBC_MINOR: Final = range(39, 16, -1)
"""Up to the glibc of Homebrew's own images, from the one of `manylinux2014`."""


def _linux(machine: str) -> list[str]:
    return [*(f"manylinux_2_{minor}_{machine}" for minor in _GLIBC_MINOR), f"linux_{machine}"]


PLATFORMS: Final[Mapping[tuple[str, str], tuple[dict[str, str], Sequence[str]]]] = {
    ("macos", "arm"): (
        {"sys_platform": "darwin", "platform_machine": "arm64", "platform_system": "Darwin"},
        [*mac_platforms((14, 0), "arm64")],
    ),
    ("linux", "arm"): (
        {"sys_platform": "linux", "platform_machine": "aarch64", "platform_system": "Linux"},
        _linux("aarch64"),
    ),
    ("linux", "intel"): (
        {"sys_platform": "linux", "platform_machine": "x86_64", "platform_system": "Linux"},
        _linux("x86_64"),
    ),
}
"""Each system and processor with the markers and the tags of its wheels, the best first."""
_HEAD: Final = """\
class Commonbrain < Formula
  include Language::Python::Virtualenv

  desc "One long-term memory that all your coding agents share"
  homepage "https://github.com/commonbrain/commonbrain"
  url "{url}", using: :nounzip
  sha256 "{digest}"
  license "Apache-2.0"

  depends_on "python@{python}"
  on_macos do
    # onnxruntime has no wheel for others.
    depends_on arch: :arm64
  end

"""
_TAIL: Final = """
  def install
    resources.each do |wheel|
      wheel.stage { (buildpath/"wheels").install Dir["*.whl"] }
    end
    virtualenv_create(libexec, "python{python}")
    system "python{python}", "-m", "pip", "--python=#{libexec}/bin/python", "install",
           "--no-deps", "--no-index", "--no-compile", *Dir["*.whl"], *Dir["wheels/*.whl"]
    bin.install_symlink libexec/"bin/brain"
  end

  test do
    ENV["COMMONBRAIN_STORE"] = testpath/"brain.db"
    system bin/"brain", "remember", "The staging database is rebuilt every night"
    assert_match "rebuilt every night", shell_output("#{bin}/brain recall 'staging database'")
  end
end
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """A wheel, where it is, and what it must be."""

    name: str
    url: str
    sha256: str

    @property
    def resource(self) -> list[str]:
        """Its lines of the formula."""
        lines = (f'url "{self.url}", using: :nounzip', f'sha256 "{self.sha256}"')
        return [f'resource "{self.name}" do', *(f"  {line}" for line in lines), "end"]


def released(dist: Path) -> list[Wheel]:
    """Find what the release installs of ours, the package of the command first."""
    return [_released(dist, name) for name in INSTALLED]


def _released(dist: Path, name: str) -> Wheel:
    [file] = dist.glob(f"{name}-*.whl")
    _, version, *_ = parse_wheel_filename(file.name)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    url = f"{RELEASES}/v{version}/{file.name}"
    return Wheel(name=name.replace("_", "-"), url=url, sha256=digest)


def locked_packages() -> list[dict[str, Any]]:
    """Read the packages that the lock names for the command, with their wheels and markers."""
    options = ("--frozen", "--no-dev", "--no-emit-workspace", "--package", "commonbrain")
    command = [uv(), "export", "--quiet", *options, "--format", "pylock.toml"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return tomllib.loads(done.stdout)["packages"]


def wheels_of(platform: tuple[str, str], packages: Sequence[Mapping[str, Any]]) -> list[Wheel]:
    """Choose the wheels of one system and processor.

    Raises:
        LookupError: a package has no wheel for it.

    """
    names, tags = PLATFORMS[platform]
    minor = ".".join(map(str, PYTHON))
    markers = {**names, "python_version": minor, "python_full_version": f"{minor}.0"}
    markers |= {"platform_python_implementation": "CPython", "implementation_name": "cpython"}
    ranks = {tag: rank for rank, tag in enumerate(_tags(tags))}
    needed = (one for one in packages if Marker(one.get("marker", "extra == ''")).evaluate(markers))
    return [_best(one, ranks) for one in needed]


def _tags(platforms: Sequence[str]) -> Iterator[Tag]:
    yield from cpython_tags(PYTHON, platforms=platforms)
    interpreter = f"cp{PYTHON[0]}{PYTHON[1]}"
    yield from compatible_tags(PYTHON, interpreter=interpreter, platforms=platforms)


def _best(package: Mapping[str, Any], ranks: Mapping[Tag, int]) -> Wheel:
    fits = [
        (min(ranks[tag] for tag in tags), one)
        for one in package.get("wheels", ())
        if (tags := parse_wheel_filename(one["url"].rpartition("/")[2])[3] & ranks.keys())
    ]
    if not fits:
        raise LookupError(f"{package['name']} {package['version']} has no wheel")
    _, best = min(fits, key=lambda one: one[0])
    return Wheel(name=package["name"], url=best["url"], sha256=best["hashes"]["sha256"])


def formula(dist: Path) -> str:
    """Write the formula of a release.

    Raises:
        LookupError: a package has no wheel for one of the platforms.

    """
    command, *others = released(dist)
    packages = locked_packages()
    chosen = {platform: wheels_of(platform, packages) for platform in PLATFORMS}
    same = [one for one in chosen["macos", "arm"] if all(one in each for each in chosen.values())]
    lines = [line for one in (*others, *same) for line in one.resource]
    for (system, processor), each in chosen.items():
        own = [f"    {line}" for one in each if one not in same for line in one.resource]
        lines += [f"on_{system} do", f"  on_{processor} do", *own, "  end", "end"]
    python = ".".join(map(str, PYTHON))
    head = _HEAD.format(url=command.url, digest=command.sha256, python=python)
    body = "".join(f"  {line}\n" for line in lines)
    return head + body + _TAIL.replace("{python}", python)


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(formula(Path(sys.argv[1])), "utf-8")
