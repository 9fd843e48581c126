"""Skills: rules with a trigger, shown when a query contains one of their keywords.

The author gives the trigger (`read_trigger` validates it); it is stored as JSON with the rule and
read as a `Skill`, whatever store or import it came from.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, cast

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import RuleDetail
from commonbrain.model.limits import NAME_CHARS_MAX
from commonbrain.model.memory import Memory
from commonbrain.model.values import dataclass, replace

KEYWORDS_MAX: Final = 50
KEYWORD_LETTERS_MIN: Final = 3
"""Shorter keywords occur within too many words."""

_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """The trigger of a rule: any keyword is enough; no projects means every project."""

    name: str
    keywords: tuple[str, ...] = ()
    """Case-folded, at least three letters each."""
    projects: tuple[str, ...] = ()
    always_on: bool = False

    def fires(self, query: str, project: str | None) -> bool:
        """Return whether a query in a project, or in none, contains a keyword."""
        folded = _folded(query)
        return self.holds_in(project) and any(word in folded for word in self.keywords)

    def holds_in(self, project: str | None) -> bool:
        """Return whether it applies in a project; one with projects needs one of them."""
        return not self.projects or project in self.projects


_PARTS: Final = tuple(Skill.__dataclass_fields__)


def read_trigger(given: Mapping[str, object]) -> dict[str, object]:
    """Validate a trigger and return it as stored; keywords are normalized, omitted parts are off.

    Raises:
        InvalidInputError: `gate_skill`, a part is missing, unknown or malformed.

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
    keywords = tuple(dict.fromkeys(map(_folded, _words(given.get("keywords"), "keywords"))))
    if not keywords and not always_on:
        raise _wrong("A skill has keywords, or is always on.")
    if not all(map(_is_distinctive, keywords)):
        raise _wrong(f"A keyword has at least {KEYWORD_LETTERS_MIN} letters.")
    projects = _words(given.get("projects"), "projects")
    # Lists, as JSON returns them, so that stored and read values are equal.
    return {
        "name": name,
        "keywords": list(keywords),
        "projects": list(projects),
        "always_on": always_on,
    }


def read_skill(trigger: Mapping[str, object]) -> Skill | None:
    """Parse a stored trigger; None if it has no name."""
    name = trigger.get("name")
    if not isinstance(name, str) or not name.strip():
        return None
    keywords = (_folded(word) for word in _texts(trigger.get("keywords")))
    return Skill(
        name=name.strip(),
        keywords=tuple(word for word in keywords if _is_distinctive(word)),
        projects=tuple(_texts(trigger.get("projects"))),
        always_on=trigger.get("always_on") is True,
    )


def skill_of(memory: Memory) -> Skill | None:
    """Return the skill of a memory; a project's rule is a skill of that project.

    Projects in the trigger take precedence over the memory's own.
    """
    trigger = memory.detail.skill if isinstance(memory.detail, RuleDetail) else None
    skill = read_skill(trigger) if trigger else None
    if skill is None or skill.projects or memory.project is None:
        return skill
    return replace(skill, projects=(memory.project,))


def _is_distinctive(keyword: str) -> bool:
    return sum(map(str.isalpha, keyword)) >= KEYWORD_LETTERS_MIN


def _folded(text: str) -> str:
    """Normalize case and spaces, so that a keyword of two words matches across lines."""
    return " ".join(text.casefold().split())


def _words(given: object, what: str) -> tuple[str, ...]:
    listed = [given] if isinstance(given, str) else given or []
    if not isinstance(listed, list | tuple):
        raise _wrong(f"The {what} of a skill are a list of words.")
    words = list(cast("list[object]", listed))
    if len(words) > KEYWORDS_MAX:
        raise _wrong(f"A skill has {len(words)} {what}; {KEYWORDS_MAX} are allowed.")
    if not all(isinstance(word, str) and 0 < len(word.strip()) <= NAME_CHARS_MAX for word in words):
        raise _wrong(f"The {what} of a skill are words of at most {NAME_CHARS_MAX} characters.")
    return tuple(dict.fromkeys(str(word).strip() for word in words))


def _texts(given: object) -> Iterable[str]:
    if not isinstance(given, Sequence) or isinstance(given, str):
        return ()
    return (one for one in cast("Sequence[object]", given) if isinstance(one, str))


def _wrong(message: str) -> InvalidInputError:
    return InvalidInputError(
        message,
        code="gate_skill",
        hint="Give name, keywords, and projects or always_on where they matter.",
    )
