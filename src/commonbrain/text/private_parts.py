"""Parts of a text that its author calls private: they are neither stored nor sent.

Imports must be fast: hooks remove them before they do anything else.
"""

import json
import re
from typing import Any, Final, cast

from commonbrain.text.patterns import lazy_pattern

_PRIVATE: Final = lazy_pattern(
    r"<\s{0,9}(?P<end>/?)\s{0,9}private(?:\s+[\w-]+\s*=[^<>]{0,200})?\s{0,9}>", re.IGNORECASE
)
CONTROLS: Final = lazy_pattern(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Control characters that would affect a terminal; tab and newline stay."""


def without_private(text: str) -> str:
    """Remove what stands between `<private>` and `</private>`, in any case, and the marks.

    Parts may be nested; one without an end extends to the end of the text.
    """
    if "<" not in text:
        return text
    parts: list[str] = []
    done = depth = 0
    for mark in _PRIVATE.finditer(text):
        if depth == 0:
            parts.append(text[done : mark.start()])
        depth = max(depth - 1, 0) if mark["end"] else depth + 1
        done = mark.end()
    return "".join([*parts, "" if depth else text[done:]])


def without_private_values(raw: bytes) -> bytes:
    """Return a JSON document without the private parts of its texts.

    What is no JSON is returned as it is.
    """
    # Either stands in every document that has a mark: "<" can also be written as an escape.
    if b"<" not in raw and b"\\u" not in raw:
        return raw
    try:
        value: object = json.loads(raw)
        cleaned = _cleaned(value)
    except ValueError:
        return raw
    except RecursionError:
        # So deep nests no client; what is private in it must not be read.
        return b"[]"
    return raw if cleaned == value else json.dumps(cleaned).encode()


def _cleaned(value: object) -> object:
    match value:
        case str() if "<" in value:
            # A control character within a mark does not hide it.
            plain = CONTROLS.sub("", value)
            public = without_private(plain)
            return value if public == plain else public
        case dict():
            pairs = cast("dict[str, Any]", value).items()
            return {cast("str", _cleaned(name)): _cleaned(one) for name, one in pairs}
        case list():
            return [_cleaned(one) for one in cast("list[Any]", value)]
        case _:
            return value
