"""Reads the schemas of tools as an agent does."""

import re
from collections.abc import Mapping
from typing import Any, Final

_DETAIL: Final = re.compile(r"(\w+)(?: \([^)]*\))?(?:, |$)")


def arguments_in(schema: Mapping[str, Any]) -> set[str]:
    """Give the arguments that a schema describes, and those that it names in the details."""
    described = dict(schema["properties"])
    details = described.pop("details", {"description": ""})
    return {*described, *_DETAIL.findall(details["description"])}
