"""Skills: rules with a trigger, which come up by themselves where their keywords are named."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from commonbrain.domain.kinds import RuleDetail
from commonbrain.domain.memory import Memory

KEYWORD_LETTERS_MIN: Final = 3
"""A shorter keyword would be part of too many words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """The trigger of a rule: any keyword fires it; no projects means every project."""

    name: str
    keywords: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    always_on: bool = False

    def fires(self, query: str, project: str | None) -> bool:
        """Say whether a question, asked in a project or in none, names one of its keywords."""
        folded = query.casefold()
        return self.holds_in(project) and any(word in folded for word in self.keywords)

    def holds_in(self, project: str | None) -> bool:
        """Say whether it is meant for a project; one of named projects needs one of them."""
        return not self.projects or project in self.projects


def read_skill(trigger: Mapping[str, object]) -> Skill | None:
    """Read a stored trigger; None when it has no name to call it by."""
    name = trigger.get("name")
    if not isinstance(name, str) or not name.strip():
        return None
    keywords = (word.strip().casefold() for word in _texts(trigger.get("keywords")))
    return Skill(
        name=name.strip(),
        keywords=tuple(word for word in keywords if len(word) >= KEYWORD_LETTERS_MIN),
        projects=tuple(_texts(trigger.get("projects"))),
        always_on=trigger.get("always_on") is True,
    )


def skill_of(memory: Memory) -> Skill | None:
    """Give the skill that a memory is, if it is one."""
    trigger = memory.detail.skill if isinstance(memory.detail, RuleDetail) else None
    return read_skill(trigger) if trigger else None


def _texts(given: object) -> Iterable[str]:
    if not isinstance(given, Sequence) or isinstance(given, str):
        return ()
    return (one for one in cast("Sequence[object]", given) if isinstance(one, str))
