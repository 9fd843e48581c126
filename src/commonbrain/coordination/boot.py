"""Boot: an agent begins, and is told what binds it, what is owed and who else is there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from commonbrain.coordination.briefing import Briefing, Entry, Inherited, WorkingContext
from commonbrain.coordination.briefing_items import (
    context_of,
    handoff_of,
    item_entry,
    message_entry,
    note_of,
    rule_entry,
    sibling_of,
    skill_entry,
    task_entry,
)
from commonbrain.coordination.briefing_packing import CAPS, CUT_IDS_MAX, Listed, Material, brief
from commonbrain.coordination.handoff import last_handoff
from commonbrain.coordination.inbox import unread_of
from commonbrain.coordination.registry import open_session, siblings
from commonbrain.coordination.scratchpad import pinned_notes
from commonbrain.embeddings.interface import Matrix
from commonbrain.history.unit_of_work import Act
from commonbrain.ingestion.pending_acks import pending_items
from commonbrain.ingestion.secret_scanning import screened
from commonbrain.ingestion.skills import always_on, fired
from commonbrain.model.errors import Refused, Unavailable
from commonbrain.model.kinds import Kind
from commonbrain.model.limits import NAME_CHARS_MAX, QUERY_CHARS_MAX, SKILLS_MAX, TASK_CHARS_MAX
from commonbrain.model.memory import Memory, State
from commonbrain.model.query import Filter, is_allowed
from commonbrain.model.scope import Caller
from commonbrain.model.scoring import is_dormant
from commonbrain.observability.tool_events import ToolEvent
from commonbrain.services import House
from commonbrain.storage.coordination import Ranked
from commonbrain.storage.query_scope import Look
from commonbrain.text.normalisation import normalise_line


def hand_over(house: House, caller: Caller) -> None:
    """Write the early events of the caller's agent as those of its session.

    Raises:
        Unavailable: the store cannot take them now; they wait on.

    """

    def write(events: Sequence[ToolEvent]) -> None:
        own = [replace(event, session=caller.session) for event in events]
        house.journal.note_now(caller.tenant, own)

    house.early.hand_over(caller.tenant, caller.agent, write=write)


_T = TypeVar("_T")


def gather(act: Act, *, task: str, meaning: Matrix | None) -> Material:
    """Gather what the caller may be told; patterns are chosen by the meaning of the task."""
    tx, caller, now, project = act.tx, act.caller, act.now, act.caller.project
    rules = _rules_and_tasks(act, meaning)
    pending = pending_items(tx, caller, project=project, now=now)
    mail = unread_of(tx, caller, project=project, now=now)
    return Material(
        blockers=rules.blockers,
        skills=_skills(act),
        notes=_first("notes", map(note_of, pinned_notes(tx, project=project, now=now))),
        action_items=_first("action_items", (item_entry(one, project=project) for one in pending)),
        handoff=_handoff(act),
        urgent=_first("urgent", map(message_entry, mail.urgent)),
        unread=mail.count,
        siblings=_first("siblings", (sibling_of(one, now=now) for one in siblings(act, project))),
        patterns=rules.patterns,
        tasks=rules.tasks,
        working_context=_context(act, task),
        writes_blocked=bool(pending),
        session=caller.session,
        project=project,
    )


def awake(act: Act, kind: Kind) -> Look:
    """Look at what is awake in the caller's project and in none; everywhere where it has none."""
    return act.look(Filter(kinds=(kind,), states=(State.ACTIVE,), project=act.caller.project))


@dataclass(frozen=True, slots=True, kw_only=True)
class _RulesAndTasks:
    blockers: Listed[Entry]
    patterns: Listed[Entry]
    tasks: Listed[Entry]


def _rules_and_tasks(act: Act, meaning: Matrix | None) -> _RulesAndTasks:
    """Find them, and fetch those shown together."""
    board, project = act.tx.board, act.caller.project
    blockers = board.blockers(awake(act, Kind.RULE), limit=_wanted("blockers"))
    patterns = _patterns(act, meaning)
    tasks = board.owed(awake(act, Kind.TASK), limit=_wanted("tasks"))
    known = act.tx.memories.get([*blockers.ids, *patterns.ids, *tasks.ids])
    return _RulesAndTasks(
        blockers=_listed(
            blockers, [rule_entry(one, project=project) for one in _of(act, blockers, known=known)]
        ),
        patterns=_listed(
            patterns, [rule_entry(one, project=project) for one in _of(act, patterns, known=known)]
        ),
        tasks=_listed(
            tasks,
            [task_entry(one, act.caller, now=act.now) for one in _of(act, tasks, known=known)],
        ),
    )


def _patterns(act: Act, meaning: Matrix | None) -> Ranked:
    """Choose the pinned, then the nearest to the task, then the newest."""
    pinned = act.tx.board.patterns(awake(act, Kind.RULE))
    near = {} if meaning is None else act.tx.index.similarities(meaning, list(pinned))
    order = sorted(pinned, key=lambda id_: (pinned[id_], near.get(id_, -1.0)), reverse=True)
    return Ranked(ids=tuple(order[: _wanted("patterns")]), total=len(pinned))


def _skills(act: Act) -> Listed[Entry]:
    found = always_on(act.tx, awake(act, Kind.RULE), project=act.caller.project)
    return _first("skills", (skill_entry(one) for one in found if _holds(act, one)))


def _handoff(act: Act) -> Inherited | None:
    last = last_handoff(act.tx, act.caller, project=act.caller.project, now=act.now)
    return handoff_of(last) if last and not is_dormant(last, act.now) else None


def _context(act: Act, task: str) -> WorkingContext | None:
    if not task:
        return None
    named = fired(act.tx, awake(act, Kind.RULE), query=task, project=act.caller.project)
    return context_of(task, [one for one in named if _holds(act, one)][:SKILLS_MAX])


def _of(act: Act, ranked: Ranked, *, known: Mapping[int, Memory]) -> Iterable[Memory]:
    return (known[id_] for id_ in ranked.ids if id_ in known and _holds(act, known[id_]))


def _holds(act: Act, memory: Memory) -> bool:
    """Let the policy have the last word on every memory."""
    wanted = awake(act, memory.kind).filter
    is_open = is_allowed(memory, act.caller, wanted=wanted, now=act.now)
    return is_open and not is_dormant(memory, act.now)


def _wanted(section: str) -> int:
    """Give how many of a section to look up: those shown, and those that a cut names."""
    return CAPS[section] + CUT_IDS_MAX


def _listed(ranked: Ranked, shown: Sequence[Entry]) -> Listed[Entry]:
    # What was found and may not be told is not counted either.
    return Listed(first=tuple(shown), total=ranked.total - len(ranked.ids) + len(shown))


def _first(section: str, found: Iterable[_T]) -> Listed[_T]:
    shown = tuple(found)
    return Listed(first=shown[: _wanted(section)], total=len(shown))


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
            hand_over(self.house, caller)
        except Unavailable as error:
            degraded.append(f"session: {error.code}, {error.message}")
        meaning = self._meaning(caller, said, degraded=degraded)
        with self.house.store.snapshot(caller.tenant) as tx:
            act = Act(tx=tx, house=self.house, caller=caller, now=self.house.clock.now())
            material = gather(act, task=said, meaning=meaning)
        return brief(replace(material, degraded=tuple(degraded)))

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
            if not tx.board.has_patterns(awake(act, Kind.RULE)):
                return None
        try:
            return self.house.embedder.query(task)
        except Unavailable as error:
            degraded.append(f"patterns: {error.code}, {error.message}")
            return None
