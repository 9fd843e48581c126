"""Labelled rows that ship with the package, and the half that each belongs to."""

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from commonbrain.retrieval.calibration import Half, half_of

__all__ = ["Half", "half_of", "read_rows"]


def read_rows(name: str) -> list[Mapping[str, Any]]:
    """Read a file of JSON lines of this package, in its order."""
    text = files("commonbrain_evals").joinpath(name).read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]
