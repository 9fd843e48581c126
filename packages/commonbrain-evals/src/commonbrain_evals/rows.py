"""Labelled rows that ship with the package."""

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any


def read_rows(name: str) -> list[Mapping[str, Any]]:
    """Read a file of JSON lines of this package, in its order."""
    text = files("commonbrain_evals").joinpath(name).read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]
