"""Makes what a program wrote fit for the repository: short, and without this machine in it."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

# The programs' own prompts and settings, which are theirs and of no interest to an importer.
TEXT_CHARS_MAX: Final = 120
HOME: Final = "/home/ada"
_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def renamer(home: Path, flat: str) -> Callable[[str], str]:
    """Return a function that replaces a home folder, flattened too, and numbers all UUIDs."""
    known: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        return known.setdefault(match[0], f"00000000-0000-4000-8000-{len(known) + 1:012d}")

    def rename(text: str) -> str:
        plain = text.replace(str(home), HOME)
        if flat:
            plain = plain.replace(flat, HOME.replace("/", "-"))
        return _UUID.sub(number, plain)

    return rename


def shortened(line: str) -> str:
    """Return a line of JSON with its long texts cut."""
    return json.dumps(_cut(json.loads(line)), ensure_ascii=False, separators=(",", ":"))


def _cut(value: Any) -> Any:  # noqa: ANN401 any JSON
    if isinstance(value, str):
        return value if len(value) <= TEXT_CHARS_MAX else f"{value[:40]} ... (cut)"
    if isinstance(value, list):
        return [_cut(one) for one in cast("list[Any]", value)[:3]]
    if isinstance(value, dict):
        return {key: _cut(one) for key, one in cast("dict[str, Any]", value).items()}
    return value
