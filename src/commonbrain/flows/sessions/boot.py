"""Boot: an agent begins, and is told what binds it, what is owed and who else is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from commonbrain.domain.boot import CAPS, CUT_IDS_MAX, Listed, Material, brief
from commonbrain.domain.briefing import Briefing, Entry, WorkingContext
from commonbrain.domain.errors import Refused, Unavailable
from commonbrain.domain.kinds import Kind
from commonbrain.domain.limits import NAME_CHARS_MAX, QUERY_CHARS_MAX, SKILLS_MAX, TASK_CHARS_MAX
from commonbrain.domain.memory import Memory, State
from commonbrain.domain.normalise import normalise_line
from commonbrain.domain.query import Filter, is_allowed
from commonbrain.domain.scope import Caller
from commonbrain.domain.scoring import is_dormant
from commonbrain.flows.act import Act
from commonbrain.flows.duty import pending_items
from commonbrain.flows.house import House
from commonbrain.flows.screening import screened
from commonbrain.flows.sessions.notes import pinned_notes
from commonbrain.flows.sessions.registry import open_session, siblings
from commonbrain.flows.sessions.shown import (
    context_of,
    item_entry,
    note_of,
    rule_entry,
    sibling_of,
    skill_entry,
    task_entry,
)
from commonbrain.flows.skills import always_on, fired
from commonbrain.ports.look import Look
from commonbrain.ports.models import Matrix

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Boot:
    """Booting for one caller."""

    house: House
    caller: Caller

    def __call__(
        self, project: str | None = None, task: str | None = None, *, client: str | None = None
    ) -> Briefing:
        """Begin a session and say what its agent should know, in at most 2,000 tokens.

        Args:
            project: where the agent is at work; by default the caller's own.
            task: what it is at, in at most 2,000 characters: chooses the patterns shown.
            client: the program it runs in, for people.

        Returns:
            The briefing. Where the store takes no writes there is no session, which `degraded`
            says, as it does when the embedder did not answer.

        Raises:
            Invalid: a name is too long or not printable.
            Refused: `limit_exceeded`, the task is too long; `secret_detected`.
            Unavailable: the store cannot be read.

        """
        said = self._said(task)
        caller = self._caller(project or self.caller.project, client)
        degraded: list[str] = []
        try:
            with self.house.store.begin(caller.tenant) as tx:
                act = Act(tx=tx, house=self.house, caller=caller, now=self.house.clock.now())
                opened = open_session(
                    act, contact=caller.contact, task=said[:TASK_CHARS_MAX] or None
                )
            caller = replace(caller, session=opened.key)
        except Unavailable as error:
            degraded.append(f"session: {error.code}, {error.message}")
        meaning = self._meaning(caller, said, degraded=degraded)
        with self.house.store.snapshot(caller.tenant) as tx:
            act = Act(tx=tx, house=self.house, caller=caller, now=self.house.clock.now())
            material = _Board(act, task=said, meaning=meaning).material()
        return brief(replace(material, degraded=tuple(degraded)))

    def _begin(self, caller: Caller, task: str) -> str:
        """Open the session; give its key."""
        with self.house.store.begin(caller.tenant) as tx:
            act = Act(tx=tx, house=self.house, caller=caller, now=self.house.clock.now())
            told = task[:TASK_CHARS_MAX] or None
            return open_session(act, contact=caller.contact, task=told).key

    def _said(self, task: str | None) -> str:
        """Give the task as it may be kept, on one line."""
        if task is not None and len(task) > QUERY_CHARS_MAX:
            raise Refused(
                f"The task has {len(task):,} characters; {QUERY_CHARS_MAX:,} are allowed.",
                code="limit_exceeded",
                hint="Say in a sentence or two what you are at.",
            )
        return screened(normalise_line(task or "") or "", what="task", house=self.house)

    def _caller(self, project: str | None, client: str | None) -> Caller:
        named = normalise_line(client or "")
        contact = self.caller.contact
        if named:
            contact = replace(contact, client=named[:NAME_CHARS_MAX])
        return replace(self.caller, project=project, contact=contact)

    def _meaning(self, caller: Caller, task: str, *, degraded: list[str]) -> Matrix | None:
        """Embed the task once, and only where there are patterns to choose by it."""
        if not task:
            return None
        with self.house.store.snapshot(caller.tenant) as tx:
            act = Act(tx=tx, house=self.house, caller=caller, now=self.house.clock.now())
            if not tx.board.has_patterns(_look(act, Kind.RULE)):
                return None
        try:
            return self.house.embedder.query(task)
        except Unavailable as error:
            degraded.append(f"patterns: {error.code}, {error.message}")
            return None


@dataclass(frozen=True, slots=True)
class _Board:
    """Everything a briefing could tell, as of one moment."""

    act: Act
    task: str
    meaning: Matrix | None

    @property
    def _project(self) -> str | None:
        return self.act.caller.project

    def material(self) -> Material:
        """Gather it."""
        caller, tx, now = self.act.caller, self.act.tx, self.act.now
        pending = pending_items(tx, caller, project=self._project, now=now)
        notes = pinned_notes(tx, project=self._project, now=now)
        others = siblings(self.act, self._project)
        return Material(
            blockers=self._blockers(),
            skills=self._skills(),
            notes=_listed(notes, len(notes), "notes", show=note_of),
            action_items=_listed(
                pending,
                len(pending),
                "action_items",
                show=lambda one: item_entry(one, project=self._project),
            ),
            siblings=_listed(
                others, len(others), "siblings", show=lambda one: sibling_of(one, now=now)
            ),
            patterns=self._patterns(),
            tasks=self._tasks(),
            working_context=self._context(),
            writes_blocked=bool(pending),
            session=caller.session,
            project=self._project,
        )

    def _blockers(self) -> Listed[Entry]:
        found = self.act.tx.board.blockers(_look(self.act, Kind.RULE), limit=_wanted("blockers"))
        return self._rules(found.ids, found.total, "blockers")

    def _patterns(self) -> Listed[Entry]:
        """Choose the pinned, then the nearest to the task, then the newest."""
        pinned = self.act.tx.board.patterns(_look(self.act, Kind.RULE))
        near: dict[int, float] = {}
        if self.meaning is not None:
            near = self.act.tx.index.similarities(self.meaning, list(pinned))
        order = sorted(pinned, key=lambda id_: (pinned[id_], near.get(id_, -1.0)), reverse=True)
        return self._rules(order[: _wanted("patterns")], len(pinned), "patterns")

    def _rules(self, ids: Sequence[int], total: int, section: str) -> Listed[Entry]:
        shown = self._current(ids)
        return _listed(
            shown, total, section, show=lambda one: rule_entry(one, project=self._project)
        )

    def _skills(self) -> Listed[Entry]:
        found = always_on(self.act.tx, _look(self.act, Kind.RULE), project=self._project)
        shown = [one for one in found if self._holds(one)]
        return _listed(shown, len(shown), "skills", show=skill_entry)

    def _tasks(self) -> Listed[Entry]:
        found = self.act.tx.board.owed(_look(self.act, Kind.TASK), limit=_wanted("tasks"))
        caller, now = self.act.caller, self.act.now
        return _listed(
            self._current(found.ids),
            found.total,
            "tasks",
            show=lambda one: task_entry(one, caller, project=self._project, now=now),
        )

    def _context(self) -> WorkingContext | None:
        if not self.task:
            return None
        look = _look(self.act, Kind.RULE)
        named = fired(self.act.tx, look, query=self.task, project=self._project)
        return context_of(self.task, [one for one in named if self._holds(one)][:SKILLS_MAX])

    def _current(self, ids: Sequence[int]) -> list[Memory]:
        found = self.act.tx.memories.get(ids)
        return [found[id_] for id_ in ids if id_ in found and self._holds(found[id_])]

    def _holds(self, memory: Memory) -> bool:
        """Let the policy have the last word on every memory."""
        wanted = _look(self.act, memory.kind).filter
        is_open = is_allowed(memory, self.act.caller, wanted=wanted, now=self.act.now)
        return is_open and not is_dormant(memory, self.act.now)


def _look(act: Act, kind: Kind) -> Look:
    """Look at what is awake in the caller's project and in none; everywhere where it has none."""
    awake = Filter(kinds=(kind,), states=(State.ACTIVE,), project=act.caller.project)
    return act.look(awake)


def _wanted(section: str) -> int:
    """Give how many of a section to look up: those shown, and those that a cut names."""
    return CAPS[section] + CUT_IDS_MAX


_S = TypeVar("_S")


def _listed(
    found: Sequence[_T], total: int, section: str, *, show: Callable[[_T], _S]
) -> Listed[_S]:
    return Listed(first=tuple(map(show, found[: _wanted(section)])), total=total)
