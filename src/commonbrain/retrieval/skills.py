"""Skills: rules with a trigger, matched by the words of a query or loaded by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from commonbrain.model import ids
from commonbrain.model.kinds import RuleDetail, Severity
from commonbrain.model.limits import SKILLS_PAGE_MAX
from commonbrain.model.memory import Memory
from commonbrain.model.paging import Listing
from commonbrain.model.query import Filter
from commonbrain.model.scope import Caller, Scope
from commonbrain.model.skills import Skill, read_skill, skill_of
from commonbrain.model.values import dataclass
from commonbrain.services import Services
from commonbrain.storage.interface import QueryScope, Trigger
from commonbrain.text.normalisation import normalise

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedSkill:
    """A skill with its trigger."""

    name: str
    id: str
    headline: str
    keywords: tuple[str, ...]
    projects: tuple[str, ...]
    """Projects in which it applies; empty means all."""
    always_on: bool
    severity: Severity
    scope: Scope
    agent: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillList:
    """Skills, in the requested order."""

    skills: tuple[ListedSkill, ...]
    next: str | None = None
    """The cursor of the next page; None on the last one."""
    more: int = 0
    """Skills after this page; 1,000 means 1,000 or more."""


@dataclass(frozen=True, slots=True)
class Skills:
    """The current skills that one caller may see."""

    services: Services
    caller: Caller

    def __call__(self, *, limit: int = SKILLS_PAGE_MAX, cursor: str | None = None) -> SkillList:
        """List skills by name.

        Args:
            limit: 1 to 100 skills.
            cursor: `next` of the page before.

        Raises:
            InvalidInputError: the cursor is malformed.
            RejectedError: `limit_exceeded`.
            UnavailableError: the store cannot be read.

        """
        listing = Listing(name="skills", limit=limit, cursor=cursor).checked(SKILLS_PAGE_MAX)
        with self.services.store.snapshot(self.caller.tenant) as tx:
            named = [(one.name, id_) for id_, one in _triggers(tx, self._query_scope()).items()]
            page = listing.page_of_all(named, key=lambda row: row)
            rules = tx.memories.get([id_ for _, id_ in page.rows])
        listed = tuple(_listed(rules[id_]) for _, id_ in page.rows)
        return SkillList(skills=listed, next=page.next, more=page.more)

    def firing(self, query: str, *, project: str | None = None) -> SkillList:
        """List the skills that a query would trigger, in the order of display.

        Args:
            query: the query, as given to recall.
            project: the project of the query; by default the caller's.

        Raises:
            UnavailableError: the store cannot be read.

        """
        where = project or self.caller.project
        with self.services.store.snapshot(self.caller.tenant) as tx:
            rules = match_skills(tx, self._query_scope(), query=normalise(query), project=where)
        return SkillList(skills=tuple(map(_listed, rules)))

    def _query_scope(self) -> QueryScope:
        return QueryScope(caller=self.caller, filter=Filter(), now=self.services.clock.now())


def match_skills(
    tx: Transaction, query_scope: QueryScope, *, query: str, project: str | None
) -> list[Memory]:
    """Return the rules whose trigger the query contains: of people, of the project, newest."""
    fired = fired_skills(tx, query_scope, query=query, project=project)
    rules = tx.memories.get(fired)
    return [rules[id_] for id_ in fired if id_ in rules]


def fired_skills(
    tx: Transaction, query_scope: QueryScope, *, query: str, project: str | None
) -> list[int]:
    """Return the ids of `match_skills`; no memory is read whole for it."""
    triggers = tx.memories.skills(query_scope)
    fired = [
        (-triggers[id_].authority.rank, bool(one.projects), id_)
        for id_, one in _skills(triggers).items()
        if one.fires(query, project) and one.holds_in(project)
    ]
    return [id_ for *_, id_ in sorted(fired, reverse=True)]


def always_on(tx: Transaction, query_scope: QueryScope, *, project: str | None) -> list[Memory]:
    """Return the rules that need no keyword: a person's, then the project's own, then newest."""
    known = [id_ for id_, one in _triggers(tx, query_scope).items() if one.always_on]
    return _in_order(tx.memories.get(known).values(), project=project)


def skill_named(
    tx: Transaction, query_scope: QueryScope, *, name: str, project: str | None
) -> list[Memory]:
    """Return the rules with this name: the project's own, then global ones, then others."""
    folded_name = name.strip().casefold()
    rules = [
        id_ for id_, one in _triggers(tx, query_scope).items() if one.name.casefold() == folded_name
    ]
    known = tx.memories.get(rules).values()
    here = _in_order(known, project=project)
    return [*here, *(one for one in known if one not in here)]


def _triggers(tx: Transaction, query_scope: QueryScope) -> Mapping[int, Skill]:
    return _skills(tx.memories.skills(query_scope))


def _skills(triggers: Mapping[int, Trigger]) -> Mapping[int, Skill]:
    read = ((id_, read_skill(one.fields)) for id_, one in triggers.items())
    return {id_: one for id_, one in read if one}


def _in_order(memories: Iterable[Memory], *, project: str | None) -> list[Memory]:
    """Drop rules for other projects; put a person's first, then those for this project."""
    known = [(one, skill_of(one)) for one in memories]
    here = [(one, skill) for one, skill in known if skill and skill.holds_in(project)]
    here.sort(key=lambda pair: (bool(pair[1].projects), pair[0].id), reverse=True)
    return sorted((one for one, _ in here), key=lambda one: one.authority.rank)


def _listed(memory: Memory) -> ListedSkill:
    skill = skill_of(memory) or Skill(name="")
    detail = memory.detail
    return ListedSkill(
        name=skill.name,
        id=ids.show(ids.MEMORY, memory.id),
        headline=memory.headline,
        keywords=skill.keywords,
        projects=skill.projects,
        always_on=skill.always_on,
        severity=detail.severity if isinstance(detail, RuleDetail) else Severity.PATTERN,
        scope=memory.scope,
        agent=memory.agent,
    )
