"""Writes the bill of materials of a release: what is installed, with what wheels contain.

Usage: `python -m tests.packages.bill_of_materials ENVIRONMENT DIST BILL`; ENVIRONMENT is a
CycloneDX file of the installed packages, DIST a folder of wheels. What a wheel says of itself lies
in its `.dist-info/sboms` (PEP 770): the model with origin, licence and hashes, the page's scripts.
"""

import json
import re
import sys
import zipfile
from pathlib import Path
from typing import Any


def bill_of(wheel: Path) -> list[dict[str, Any]]:
    """Read the components that a wheel says it contains; none is an empty list."""
    with zipfile.ZipFile(wheel) as archive:
        named = [name for name in archive.namelist() if re.search(r"\.dist-info/sboms/", name)]
        return [part for name in named for part in json.loads(archive.read(name))["components"]]


def with_contents(bill: dict[str, Any], dist: Path) -> dict[str, Any]:
    """Put what each wheel contains below the component of its package."""
    contained = {
        wheel.name.partition("-")[0].replace("_", "-"): bill_of(wheel)
        for wheel in dist.glob("*.whl")
    }
    components = [
        {**part, "components": parts} if (parts := contained.get(part["name"])) else part
        for part in bill["components"]
    ]
    return {**bill, "components": components}


def main(environment: Path, *, dist: Path, target: Path) -> None:
    """Write the bill of a release."""
    bill = with_contents(json.loads(environment.read_text("utf-8")), dist)
    target.write_text(json.dumps(bill, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), dist=Path(sys.argv[2]), target=Path(sys.argv[3]))
