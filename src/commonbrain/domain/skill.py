"""The trigger of a skill: by which words, where, a rule is shown unasked."""

import re
from collections.abc import Mapping
from typing import Final, cast

from commonbrain.domain.errors import Invalid
from commonbrain.domain.limits import NAME_CHARS_MAX

KEYWORDS_MAX: Final = 50
KEYWORD_LETTERS_MIN: Final = 3
"""Shorter ones are inside of too many words."""

_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_PARTS: Final = ("name", "keywords", "projects", "always_on")


def read_skill(given: Mapping[str, object]) -> dict[str, object]:
    """Read a trigger; keywords are folded, `projects` empty means all, `always_on` is off.

    Raises:
        Invalid: `gate_skill`, a part is missing, unknown or malformed.

    """
    unknown = sorted(str(part) for part in given if part not in _PARTS)
    if unknown:
        raise _wrong(f"A skill has no {', '.join(unknown)[:80]}.")
    name = given.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > NAME_CHARS_MAX:
        raise _wrong("A skill has a name of lower-case letters, digits and hyphens.")
    always_on = given.get("always_on") or False
    if not isinstance(always_on, bool):
        raise _wrong("always_on is true or false.")
    keywords = [word.casefold() for word in _words(given.get("keywords"), "keywords")]
    if not keywords and not always_on:
        raise _wrong("A skill has keywords, or is always on.")
    if any(sum(map(str.isalpha, word)) < KEYWORD_LETTERS_MIN for word in keywords):
        raise _wrong(f"A keyword has at least {KEYWORD_LETTERS_MIN} letters.")
    projects = _words(given.get("projects"), "projects")
    return {"name": name, "keywords": keywords, "projects": projects, "always_on": always_on}


def _words(given: object, what: str) -> list[str]:
    listed = [given] if isinstance(given, str) else given or []
    if not isinstance(listed, list | tuple):
        raise _wrong(f"The {what} of a skill are a list of words.")
    words = list(cast("list[object]", listed))
    if len(words) > KEYWORDS_MAX:
        raise _wrong(f"A skill has {len(words)} {what}; {KEYWORDS_MAX} are allowed.")
    if not all(isinstance(word, str) and 0 < len(word.strip()) <= NAME_CHARS_MAX for word in words):
        raise _wrong(f"The {what} of a skill are words of at most {NAME_CHARS_MAX} characters.")
    return list(dict.fromkeys(str(word).strip() for word in words))


def _wrong(message: str) -> Invalid:
    return Invalid(
        message,
        code="gate_skill",
        hint="Give name, keywords, and projects or always_on where they matter.",
    )
