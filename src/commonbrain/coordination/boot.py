"""Boot: start a session with a briefing of rules, tasks, messages and other sessions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from commonbrain.coordination.briefing import (
    Briefing,
    BriefingEntry,
    InheritedHandoff,
    WorkingContext,
)
from commonbrain.coordination.briefing_items import (
    active_session_of,
    context_of,
    handoff_of,
    item_entry,
    message_entry,
    note_of,
    rule_entry,
    skill_entry,
    task_entry,
)
from commonbrain.coordination.briefing_packing import (
    CAPS,
    CUT_IDS_MAX,
    BriefingMaterial,
    Listed,
    pack_briefing,
)
from commonbrain.coordination.handoff import last_handoff
from commonbrain.coordination.inbox import unread_of
from commonbrain.coordination.registry import active_sessions, open_session
from commonbrain.coordination.scratchpad import pinned_notes
from commonbrain.embeddings.interface import Matrix
from commonbrain.history.unit_of_work import UnitOfWork
from commonbrain.ingestion.pending_acks import pending_items
from commonbrain.ingestion.secret_scanning import scan_text
from commonbrain.ingestion.skills import always_on, match_skills
from commonbrain.model.errors import RejectedError, UnavailableError
from commonbrain.model.kinds import Kind
from commonbrain.model.limits import NAME_CHARS_MAX, QUERY_CHARS_MAX, SKILLS_MAX, TASK_CHARS_MAX
from commonbrain.model.memory import Memory, State
from commonbrain.model.query import Filter, is_allowed
from commonbrain.model.scope import Caller
from commonbrain.model.scoring import is_dormant
from commonbrain.observability.tool_events import ToolEvent
from commonbrain.services import Services
from commonbrain.storage.coordination import RankedRule
from commonbrain.storage.query_scope import QueryScope
from commonbrain.text.normalisation import normalise_line


def attach_early_events(services: Services, caller: Caller) -> None:
    """Assign the early tool events of the caller's agent to its session.

    Raises:
        UnavailableError: the store cannot be written; the events wait.

    """

    def write(events: Sequence[ToolEvent]) -> None:
        own = [replace(event, session=caller.session) for event in events]
        services.journal.note_now(caller.tenant, own)

    services.early.drain(caller.tenant, caller.agent, write=write)


_T = TypeVar("_T")


def gather_material(unit: UnitOfWork, *, task: str, task_vector: Matrix | None) -> BriefingMaterial:
    """Collect what the caller may see; patterns are chosen by similarity to the task."""
    tx, caller, now, project = unit.tx, unit.caller, unit.now, unit.caller.project
    rules = _rules_and_tasks(unit, task_vector)
    pending = pending_items(tx, caller, project=project, now=now)
    mail = unread_of(tx, caller, project=project, now=now)
    return BriefingMaterial(
        blockers=rules.blockers,
        skills=_skills(unit),
        notes=_first("notes", map(note_of, pinned_notes(tx, project=project, now=now))),
        action_items=_first("action_items", (item_entry(one, project=project) for one in pending)),
        handoff=_handoff(unit),
        urgent=_first("urgent", map(message_entry, mail.urgent)),
        unread=mail.count,
        siblings=_first(
            "siblings", (active_session_of(one, now=now) for one in active_sessions(unit, project))
        ),
        patterns=rules.patterns,
        tasks=rules.tasks,
        working_context=_context(unit, task),
        writes_blocked=bool(pending),
        session=caller.session,
        project=project,
    )


def active_scope(unit: UnitOfWork, kind: Kind) -> QueryScope:
    """Return the scope of current memories: the caller's project and global ones, or all."""
    return unit.query_scope(
        Filter(kinds=(kind,), states=(State.ACTIVE,), project=unit.caller.project)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _RulesAndTasks:
    blockers: Listed[BriefingEntry]
    patterns: Listed[BriefingEntry]
    tasks: Listed[BriefingEntry]


def _rules_and_tasks(unit: UnitOfWork, task_vector: Matrix | None) -> _RulesAndTasks:
    """Find rules and tasks, and fetch those shown together."""
    board, project = unit.tx.board, unit.caller.project
    blockers = board.blockers(active_scope(unit, Kind.RULE), limit=_section_limit("blockers"))
    patterns = _patterns(unit, task_vector)
    tasks = board.owed(active_scope(unit, Kind.TASK), limit=_section_limit("tasks"))
    known = unit.tx.memories.get([*blockers.ids, *patterns.ids, *tasks.ids])
    return _RulesAndTasks(
        blockers=_listed(
            blockers, [rule_entry(one, project=project) for one in _of(unit, blockers, known=known)]
        ),
        patterns=_listed(
            patterns, [rule_entry(one, project=project) for one in _of(unit, patterns, known=known)]
        ),
        tasks=_listed(
            tasks,
            [task_entry(one, unit.caller, now=unit.now) for one in _of(unit, tasks, known=known)],
        ),
    )


def _patterns(unit: UnitOfWork, task_vector: Matrix | None) -> RankedRule:
    """Choose pinned patterns, then the most similar to the task, then the newest."""
    pinned = unit.tx.board.patterns(active_scope(unit, Kind.RULE))
    near = {} if task_vector is None else unit.tx.index.similarities(task_vector, list(pinned))
    order = sorted(pinned, key=lambda id_: (pinned[id_], near.get(id_, -1.0)), reverse=True)
    return RankedRule(ids=tuple(order[: _section_limit("patterns")]), total=len(pinned))


def _skills(unit: UnitOfWork) -> Listed[BriefingEntry]:
    found = always_on(unit.tx, active_scope(unit, Kind.RULE), project=unit.caller.project)
    return _first("skills", (skill_entry(one) for one in found if _holds(unit, one)))


def _handoff(unit: UnitOfWork) -> InheritedHandoff | None:
    last = last_handoff(unit.tx, unit.caller, project=unit.caller.project, now=unit.now)
    return handoff_of(last) if last and not is_dormant(last, unit.now) else None


def _context(unit: UnitOfWork, task: str) -> WorkingContext | None:
    if not task:
        return None
    named = match_skills(
        unit.tx, active_scope(unit, Kind.RULE), query=task, project=unit.caller.project
    )
    return context_of(task, [one for one in named if _holds(unit, one)][:SKILLS_MAX])


def _of(unit: UnitOfWork, ranked: RankedRule, *, known: Mapping[int, Memory]) -> Iterable[Memory]:
    return (known[id_] for id_ in ranked.ids if id_ in known and _holds(unit, known[id_]))


def _holds(unit: UnitOfWork, memory: Memory) -> bool:
    """Check visibility and validity of a memory again."""
    wanted = active_scope(unit, memory.kind).filter
    is_open = is_allowed(memory, unit.caller, wanted=wanted, now=unit.now)
    return is_open and not is_dormant(memory, unit.now)


def _section_limit(section: str) -> int:
    """Return the number of entries to read: those shown, and those named as omitted."""
    return CAPS[section] + CUT_IDS_MAX


def _listed(ranked: RankedRule, shown: Sequence[BriefingEntry]) -> Listed[BriefingEntry]:
    # Entries that the caller may not see are not counted either.
    return Listed(first=tuple(shown), total=ranked.total - len(ranked.ids) + len(shown))


def _first(section: str, found: Iterable[_T]) -> Listed[_T]:
    shown = tuple(found)
    return Listed(first=shown[: _section_limit(section)], total=len(shown))


@dataclass(frozen=True, slots=True)
class Boot:
    """Boots sessions for one caller."""

    services: Services
    caller: Caller

    def __call__(
        self, project: str | None = None, task: str | None = None, *, client: str | None = None
    ) -> Briefing:
        """Start a session and return its briefing, in at most 2,000 tokens.

        Args:
            project: the project in which the agent works; by default the caller's.
            task: its task in at most 2,000 characters, by which patterns are chosen.
            client: the program that runs the agent, for display.

        Returns:
            The briefing. If the store cannot be written, there is no session, and `degraded` says
            so; it also says if the embedder did not answer.

        Raises:
            InvalidInputError: a name is too long or not printable.
            RejectedError: `limit_exceeded`, the task is too long; `secret_detected`.
            UnavailableError: the store cannot be read.

        """
        task_text = self._checked_task(task)
        caller = self._caller(project or self.caller.project, client)
        degraded: list[str] = []
        try:
            with self.services.store.begin(caller.tenant) as tx:
                unit = UnitOfWork(
                    tx=tx, services=self.services, caller=caller, now=self.services.clock.now()
                )
                opened = open_session(
                    unit, contact=caller.contact, task=task_text[:TASK_CHARS_MAX] or None
                )
            caller = replace(caller, session=opened.key)
            attach_early_events(self.services, caller)
        except UnavailableError as error:
            degraded.append(f"session: {error.code}, {error.message}")
        task_vector = self._embed_task(caller, task_text, degraded=degraded)
        with self.services.store.snapshot(caller.tenant) as tx:
            unit = UnitOfWork(
                tx=tx, services=self.services, caller=caller, now=self.services.clock.now()
            )
            material = gather_material(unit, task=task_text, task_vector=task_vector)
        return pack_briefing(replace(material, degraded=tuple(degraded)))

    def _checked_task(self, task: str | None) -> str:
        """Return the task on one line, checked and without secrets."""
        if task is not None and len(task) > QUERY_CHARS_MAX:
            raise RejectedError(
                f"The task has {len(task):,} characters; {QUERY_CHARS_MAX:,} are allowed.",
                code="limit_exceeded",
                hint="Say in a sentence or two what you are at.",
            )
        return scan_text(normalise_line(task or "") or "", what="task", services=self.services)

    def _caller(self, project: str | None, client: str | None) -> Caller:
        named = normalise_line(client or "")
        contact = self.caller.contact
        if named:
            contact = replace(contact, client=named[:NAME_CHARS_MAX])
        return replace(self.caller, project=project, contact=contact)

    def _embed_task(self, caller: Caller, task: str, *, degraded: list[str]) -> Matrix | None:
        """Embed the task once, only if there are patterns to choose."""
        if not task:
            return None
        with self.services.store.snapshot(caller.tenant) as tx:
            unit = UnitOfWork(
                tx=tx, services=self.services, caller=caller, now=self.services.clock.now()
            )
            if not tx.board.has_patterns(active_scope(unit, Kind.RULE)):
                return None
        try:
            return self.services.embedder.query(task)
        except UnavailableError as error:
            degraded.append(f"patterns: {error.code}, {error.message}")
            return None
