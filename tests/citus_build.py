"""Builds Citus from its public source for the Postgres of the development wheel.

`python -m tests.citus_build SOURCE FOLDER` needs a C compiler and make, and takes a minute or
two. SOURCE is a Git directory of Citus, 12 or newer. FOLDER gets a copy of that Postgres with Citus
in it; what is there already is used again.
"""

import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Final

from commonbrain_server.dev_servers import installed_postgres

_WITHOUT: Final = ("--without-lz4", "--without-zstd")
"""Compression of columnar tables, of which a store has none."""
_WARNINGS: Final = re.compile(r" -W(?!l,)[\w+=-]+")
"""Flags of the compiler that built the wheel, not all of which another compiler knows."""
_LIBRARY: Final = "lib/postgresql/citus.so"


def build(source: Path, folder: Path) -> Path:
    """Return the installation folder of a Postgres with Citus, built unless it is there.

    Raises:
        LookupError: The wheel of Postgres is not installed.
        OSError: A step failed; the message names its log.

    """
    installed = installed_postgres()
    # Git and make run in other folders.
    folder = folder.absolute()
    programs = folder / installed.parent.name / installed.name
    if (programs / _LIBRARY).exists():
        return programs
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(installed, programs, symlinks=True)
    # Libraries of the programs are in a folder next to the package.
    libraries = installed.parent.with_name(f"{installed.parent.name}.libs")
    shutil.copytree(libraries, folder / libraries.name)
    for makefile in programs.rglob("Makefile.global"):
        makefile.write_text(_WARNINGS.sub("", makefile.read_text("utf-8")), "utf-8")
    tree = folder / "source"
    _unpack(source, tree)
    configure = ["./configure", f"PG_CONFIG={programs / 'bin' / 'pg_config'}", *_WITHOUT]
    for name, step in {
        "configure": configure,
        "make": ["make", "-s", "-j2"],
        "install": ["make", "-s", "install"],
    }.items():
        _run(step, folder=tree, log=folder / f"{name}.log")
    shutil.rmtree(tree)
    return programs


def _unpack(source: Path, into: Path) -> None:
    """Write the newest commit of a Git directory into a folder."""
    archive = into.with_suffix(".tar")
    subprocess.run(["git", "-C", str(source), "archive", "-o", str(archive), "HEAD"], check=True)  # noqa: S607 the caller's own
    with tarfile.open(archive) as packed:
        packed.extractall(into, filter="data")
    archive.unlink()


def _run(command: list[str], *, folder: Path, log: Path) -> None:
    with log.open("wb") as output:
        ended = subprocess.run(command, cwd=folder, stdout=output, stderr=output, check=False)
    if ended.returncode:
        raise OSError(f"{command[0]} failed, see {log}.")


if __name__ == "__main__":
    print(build(Path(sys.argv[1]), Path(sys.argv[2])))  # noqa: T201 its result
