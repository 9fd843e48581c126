"""Boot: start a session with a briefing of rules, tasks, messages and other sessions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import Final, TypeVar

from commonbrain.coordination.briefing import (
    CUT_IDS_MAX,
    Briefing,
    BriefingEntry,
    BriefingMaterial,
    InheritedHandoff,
    Listed,
    PinnedNote,
    SiblingSession,
    WorkingContext,
    pack_briefing,
)
from commonbrain.coordination.handoff import last_handoffs
from commonbrain.coordination.inbox import unread_of
from commonbrain.coordination.session_registry import (
    active_sessions,
    checked_metadata,
    find_dead_sessions,
    new_session,
    open_session,
    program_caller,
)
from commonbrain.embeddings.interface import Matrix
from commonbrain.history.unit_of_work import UnitOfWork, read_unit, write_unit
from commonbrain.ingestion.pending_acks import is_owner, pending_items
from commonbrain.ingestion.pending_statements import PENDING_MAX, pending_statements
from commonbrain.ingestion.validation import check_address
from commonbrain.model import ids
from commonbrain.model.errors import RejectedError, UnavailableError
from commonbrain.model.escaping import inert, inert_line
from commonbrain.model.kinds import (
    KINDS,
    Kind,
    MessageDetail,
    Severity,
    TaskDetail,
    TaskPriority,
    TaskStatus,
    kinds_at_boot,
    severity_of,
)
from commonbrain.model.limits import NAME_CHARS_MAX, QUERY_CHARS_MAX, TASK_CHARS_MAX
from commonbrain.model.links import DISAGREEMENTS
from commonbrain.model.memory import Memory, State, is_dormant
from commonbrain.model.query import Filter, is_allowed
from commonbrain.model.recall_result import EARLIER
from commonbrain.model.scope import Authority, Caller
from commonbrain.model.sessions import (
    METADATA_SHOWN,
    WORKTREE,
    Session,
    is_idle,
)
from commonbrain.model.skills import Skill, skill_of
from commonbrain.model.timestamps import show_day
from commonbrain.observability.tool_events import ToolEvent
from commonbrain.retrieval.skills import always_on, match_skills
from commonbrain.retrieval.value_history import ChangeReader
from commonbrain.services import Capability, Services
from commonbrain.storage.interface import QueryScope, RankedRule
from commonbrain.text.entities import extract_entities
from commonbrain.text.normalisation import normalise_line

TASK_SHOWN_CHARS: Final = 200
"""Characters of the task shown in the working context."""
SIBLING_TASK_CHARS: Final = 100
METADATA_SHOWN_CHARS: Final = 40
_NAMES_MAX: Final = 8
"""Entities of the task that are shown."""
_NAME_CHARS: Final = 60
CHANGED_WITHIN: Final = timedelta(days=7)
"""A session a week finds each change once; older ones come with what is recalled."""


def entry(memory: Memory, *notes: str | None) -> BriefingEntry:
    """Convert a memory to an entry, with further details."""
    shown_notes = [note for note in notes if note]
    return BriefingEntry(
        id=ids.show(ids.MEMORY, memory.id),
        headline=inert_line(memory.headline),
        note=", ".join(shown_notes) or None,
    )


def skill_entry(memory: Memory) -> BriefingEntry:
    """Convert a skill to an entry with its name; one that no person wrote or confirmed says so."""
    skill = skill_of(memory)
    is_strict = severity_of(memory.detail) is Severity.BLOCKER
    is_persons = memory.authority is Authority.PERSON
    name = f"skill:{inert_line(skill.name)}" if skill else None
    return entry(
        memory,
        name,
        Severity.BLOCKER if is_strict else None,
        None if is_persons else "a model's, which does not bind",
    )


def task_entry(memory: Memory, caller: Caller, *, now: datetime) -> BriefingEntry:
    """Convert a task, with the details needed to choose one."""
    detail = memory.detail
    if not isinstance(detail, TaskDetail):
        return entry(memory, _elsewhere(memory, caller.project))
    is_taken = detail.lease_until is not None and detail.lease_until > now
    taken = is_taken and detail.lease_holder not in {None, caller.session}
    return entry(
        memory,
        None if detail.priority is TaskPriority.MEDIUM else str(detail.priority),
        None if detail.status is TaskStatus.OPEN else str(detail.status),
        f"due {show_day(detail.due_at)}" if detail.due_at else None,
        f"for {inert_line(detail.assignee)}" if detail.assignee else None,
        "claimed by another session" if taken else None,
        _elsewhere(memory, caller.project),
    )


def _sender(message: Memory) -> str:
    detail = message.detail
    return (detail.sender if isinstance(detail, MessageDetail) else None) or message.agent


def sibling_session_of(session: Session, *, now: datetime, idle_after: timedelta) -> SiblingSession:
    """Convert another session."""
    is_quiet = is_idle(session, now, after=idle_after)
    return SiblingSession(
        session=inert_line(session.key),
        agent=inert_line(session.agent),
        task=_cut(session.task, SIBLING_TASK_CHARS) if session.task else None,
        note=", ".join([*_metadata_of(session), *(["idle"] if is_quiet else [])]) or None,
    )


def _metadata_of(session: Session) -> Iterator[str]:
    for name in METADATA_SHOWN:
        if value := session.metadata.get(name):
            # The last folder tells worktrees apart; the whole path would cost too much.
            shown = re.split(r"[/\\]", value)[-1] if name == WORKTREE else value
            yield f"{name} {_cut(shown, METADATA_SHOWN_CHARS)}"


def context_of(task: str, skills: Iterable[BriefingEntry]) -> WorkingContext:
    """Build the working context from the text of a task."""
    named = extract_entities(task)
    names = (*named.references, *named.people, *named.tags, *named.topics)
    return WorkingContext(
        task=_cut(task, TASK_SHOWN_CHARS),
        names=tuple(name for name in map(inert_line, names) if len(name) <= _NAME_CHARS)[
            :_NAMES_MAX
        ],
        skills=tuple(skills),
    )


def _elsewhere(memory: Memory, project: str | None) -> str | None:
    """Return the project of a memory if none was requested."""
    named = memory.project if project is None else None
    return f"project {inert_line(named)}" if named else None


def _cut(text: str, chars: int) -> str:
    line = inert_line(text)
    return line if len(line) <= chars else f"{line[: chars - 1].rstrip()}…"


def attach_early_events(services: Services, caller: Caller) -> None:
    """Assign the early tool events of the caller's agent to its session.

    Raises:
        UnavailableError: the store cannot be written; the events wait.

    """

    def write(events: Sequence[ToolEvent]) -> None:
        own = [replace(event, session=caller.session) for event in events]
        services.journal.note_now(caller.tenant, own)

    if services.early is not None:
        services.early.drain(caller.tenant, caller.agent, write=write)


_ANY: Final = Skill(name="")
"""The trigger of what has none: it holds in every project."""
_T = TypeVar("_T")
_Entries = Listed[BriefingEntry]


def gather_material(
    unit: UnitOfWork,
    *,
    task: str,
    task_vector: Matrix | None,
    dead_ids: frozenset[int] = frozenset(),
) -> BriefingMaterial:
    """Collect what the caller may see; patterns are chosen by similarity to the task.

    `dead_ids` are sessions that were found dead and are not ended yet.
    """
    tx, caller, now, project = unit.tx, unit.caller, unit.now, unit.caller.project
    blockers, patterns, tasks = _rules_and_tasks(unit, task_vector)
    skills, handoff = _skills(unit), _handoff(unit)
    pending = pending_items(tx, caller, project=project, now=now)
    changes = _changes(unit)
    mail = unread_of(tx, caller, project=project, now=now)
    chars = unit.services.briefing_limits.note_chars
    idle_after = unit.services.session_idle
    siblings = [
        sibling_session_of(one, now=now, idle_after=idle_after)
        for one in active_sessions(unit, project, dead_ids=dead_ids)
    ]
    urgent = [entry(one, f"from {inert_line(_sender(one))}") for one in mail.urgent]
    items = [
        entry(one, f"{one.kind} by {inert_line(one.agent)}", _elsewhere(one, project))
        for one in pending
    ]
    notes = [
        PinnedNote(key=inert_line(one.key), value=_cut(one.value, chars))
        for one in sorted(
            unit.tx.scratchpad.pinned(project, now=now), key=lambda one: one.authority.rank
        )
    ]
    return BriefingMaterial(
        blockers=blockers,
        skills=skills,
        notes=_first(unit, "notes", entries=notes),
        action_items=_first(unit, "action_items", entries=items),
        unconfirmed=_first(unit, "unconfirmed", entries=map(entry, _unconfirmed(unit))),
        handoff=handoff,
        urgent=_first(unit, "urgent", entries=urgent),
        unread=mail.count,
        siblings=_first(unit, "siblings", entries=siblings),
        pinned=_pinned(unit, task_vector, others=(*skills.first, *tasks.first, handoff, *urgent)),
        patterns=patterns,
        tasks=tasks,
        changes=Listed(first=changes, total=len(changes)),
        working_context=_context(unit, task),
        writes_blocked=bool(pending) and not is_owner(unit.services, caller),
        session=caller.session,
        project=project,
    )


def _unconfirmed(unit: UnitOfWork) -> list[Memory]:
    """Return what the user said that waits for a person."""
    scope = unit.query_scope(Filter(project=unit.caller.project))
    return pending_statements(unit.tx, scope, limit=PENDING_MAX)


def active_scope(unit: UnitOfWork, section: str) -> QueryScope:
    """Return the scope of a section: current memories of the caller's project, or of all."""
    kinds = kinds_at_boot(section)
    return unit.query_scope(
        Filter(
            kinds=kinds,
            states=(State.ACTIVE,),
            project=unit.caller.project,
            trust_min=unit.trust_min,
        )
    )


def _rules_and_tasks(
    unit: UnitOfWork, task_vector: Matrix | None
) -> tuple[Listed[BriefingEntry], Listed[BriefingEntry], Listed[BriefingEntry]]:
    """Return blockers, patterns and open tasks; those shown are fetched together."""
    board, project = unit.tx.briefing, unit.caller.project
    blockers = board.blockers(
        active_scope(unit, "blockers"), limit=_section_limit(unit, "blockers")
    )
    patterns = _patterns(unit, task_vector)
    tasks = board.open_tasks(active_scope(unit, "tasks"), limit=_section_limit(unit, "tasks"))
    known = unit.tx.memories.get([*blockers.ids, *patterns.ids, *tasks.ids])
    earlier = _earlier(unit, list(known.values()))

    def listed(ranked: RankedRule, convert: Callable[[Memory], BriefingEntry]) -> _Entries:
        memories = [known[id_] for id_ in ranked.ids if id_ in known and _holds(unit, known[id_])]
        if ranked is not blockers:
            memories.sort(key=lambda one: one.id in earlier)
        shown = tuple(_noted(convert(one), earlier.get(one.id)) for one in memories)
        # Entries that the caller may not see are not counted either.
        return Listed(first=shown, total=ranked.total - len(ranked.ids) + len(shown))

    def rule(memory: Memory) -> BriefingEntry:
        return entry(memory, _elsewhere(memory, project))

    task = partial(task_entry, caller=unit.caller, now=unit.now)
    return listed(blockers, rule), listed(patterns, rule), listed(tasks, task)


def _reader(unit: UnitOfWork) -> ChangeReader:
    criteria = Filter(project=unit.caller.project, trust_min=unit.trust_min)
    return ChangeReader(tx=unit.tx, caller=unit.caller, now=unit.now, criteria=criteria)


def _earlier(unit: UnitOfWork, memories: Sequence[Memory]) -> Mapping[int, str]:
    """Return a note for each memory that a newer one changed; a note never changes a BLOCKER."""
    if not memories:
        return {}
    changes = _reader(unit).successors(memories)
    return {
        id_: f"{EARLIER}, changed by {ids.show(ids.MEMORY, change.newer.id)} "
        f"on {show_day(change.newer.occurred_at)}"
        for id_, change in changes.items()
        if KINDS[change.newer.kind].is_binding
        or severity_of(change.older.detail) is not Severity.BLOCKER
    }


def _noted(shown: BriefingEntry, note: str | None) -> BriefingEntry:
    """Add a note to an entry."""
    return replace(shown, note=", ".join(filter(None, (shown.note, note)))) if note else shown


def _changes(unit: UnitOfWork) -> tuple[BriefingEntry, ...]:
    """Name what changed in the last days and still holds, latest first, with what it said."""
    criteria = Filter(
        kinds=kinds_at_boot("changes"), project=unit.caller.project, trust_min=unit.trust_min
    )
    links = unit.tx.conflicts.open(
        unit.query_scope(criteria),
        limit=_section_limit(unit, "changes"),
        types=DISAGREEMENTS,
        since=unit.now - CHANGED_WITHIN,
    )
    if not links:
        return ()
    known = unit.tx.memories.get(list({link.from_id for link in links}))
    changed = sorted(known.values(), key=lambda one: -one.id)
    reader = _reader(unit)
    outdated = reader.successors(changed)
    lines = reader.histories([one for one in changed if one.id not in outdated])
    return tuple(
        entry(one, _elsewhere(one, unit.caller.project), f"{EARLIER}: {lines[one.id]}")
        for one in changed
        if one.id in lines
    )


def _patterns(unit: UnitOfWork, task_vector: Matrix | None) -> RankedRule:
    """Choose patterns of people, then pinned ones, then the nearest to the task, then new ones."""
    ranks = unit.tx.briefing.patterns(active_scope(unit, "patterns"))
    order = _by_precedence(unit, ranks, task_vector=task_vector)
    return RankedRule(ids=tuple(order[: _section_limit(unit, "patterns")]), total=len(ranks))


def _by_precedence(
    unit: UnitOfWork, ranks: Mapping[int, int], *, task_vector: Matrix | None
) -> list[int]:
    """Sort by precedence, then the nearest to the task, then in the given order."""
    near = {} if task_vector is None else unit.tx.index.similarities(task_vector, list(ranks))
    return sorted(ranks, key=lambda id_: (ranks[id_], near.get(id_, -1.0)), reverse=True)


_PINNED_FOR_ALL_MAX: Final = 5
"""Pinned memories without a project that no person wrote: each boot of each project has them."""


def _pinned(
    unit: UnitOfWork,
    task_vector: Matrix | None,
    *,
    others: Iterable[BriefingEntry | InheritedHandoff | None],
) -> _Entries:
    """List the pinned memories that other sections do not: of people, then nearest to the task."""
    shown = {ids.parse(ids.MEMORY, one.id) for one in others if one is not None}
    ranks = unit.tx.briefing.pinned(active_scope(unit, "pinned"))
    left = {id_: rank for id_, rank in ranks.items() if id_ not in shown}
    order = _by_precedence(unit, left, task_vector=task_vector)[: _section_limit(unit, "pinned")]
    known = unit.tx.memories.get(order)
    memories = [known[id_] for id_ in order if id_ in known and _holds(unit, known[id_])]
    project = unit.caller.project
    memories = [one for one in memories if (skill_of(one) or _ANY).holds_in(project)]
    for_all = [one for one in memories if one.authority is not Authority.PERSON and not one.project]
    cut = for_all[_PINNED_FOR_ALL_MAX:]
    memories = [one for one in memories if one not in cut]
    earlier = _earlier(unit, memories)
    entries = tuple(_noted(_pinned_entry(unit, one), earlier.get(one.id)) for one in memories)
    # Entries that the caller may not see are not counted either.
    return Listed(first=entries, total=len(left) - len(order) + len(entries) + len(cut))


def _pinned_entry(unit: UnitOfWork, memory: Memory) -> BriefingEntry:
    if memory.kind is Kind.RULE:
        return skill_entry(memory)
    return task_entry(memory, unit.caller, now=unit.now)


def _skills(unit: UnitOfWork) -> Listed[BriefingEntry]:
    skills = always_on(unit.tx, active_scope(unit, "skills"), project=unit.caller.project)
    shown = _skill_entries(unit, [one for one in skills if _holds(unit, one)])
    return _first(unit, "skills", entries=shown)


def _skill_entries(unit: UnitOfWork, skills: Sequence[Memory]) -> list[BriefingEntry]:
    earlier = _earlier(unit, skills)
    return [_noted(skill_entry(one), earlier.get(one.id)) for one in skills]


def _handoff(unit: UnitOfWork) -> InheritedHandoff | None:
    handoffs = last_handoffs(unit.tx, unit.caller, project=unit.caller.project, now=unit.now)
    known = [one for one in handoffs if not is_dormant(one, unit.now, parameters=unit.parameters)]
    if handoffs[:1] != known[:1] or not known:
        return None
    last = known[0]
    of_person = next((one for one in known if one.authority is Authority.PERSON), last)
    before = ids.show(ids.MEMORY, of_person.id)
    return InheritedHandoff(
        id=ids.show(ids.MEMORY, last.id),
        agent=inert_line(last.agent)
        + ("" if of_person is last else f", after a person's {before}"),
        date=show_day(last.occurred_at),
        text=inert(last.body),
    )


def _context(unit: UnitOfWork, task: str) -> WorkingContext | None:
    if not task:
        return None
    named = match_skills(
        unit.tx, active_scope(unit, "skills"), query=task, project=unit.caller.project
    )
    return context_of(
        task,
        _skill_entries(
            unit, [one for one in named if _holds(unit, one)][: _section_limit(unit, "skills")]
        ),
    )


def _holds(unit: UnitOfWork, memory: Memory) -> bool:
    """Check visibility and validity of a memory again."""
    criteria = Filter(states=(State.ACTIVE,), project=unit.caller.project, trust_min=unit.trust_min)
    is_open = is_allowed(memory, unit.caller, criteria=criteria, now=unit.now)
    return is_open and not is_dormant(memory, unit.now, parameters=unit.parameters)


def _section_limit(unit: UnitOfWork, section: str) -> int:
    """Return the number of entries to read: those shown, and those named as omitted."""
    return unit.services.briefing_limits.caps[section] + CUT_IDS_MAX


def _first(unit: UnitOfWork, section: str, *, entries: Iterable[_T]) -> Listed[_T]:
    shown = tuple(entries)
    return Listed(first=shown[: _section_limit(unit, section)], total=len(shown))


class Boot(Capability):
    """Boots sessions for one caller."""

    def __call__(
        self,
        project: str | None = None,
        task: str | None = None,
        *,
        client: str | None = None,
        metadata: Mapping[str, str] = MappingProxyType({}),
    ) -> Briefing:
        """Start a session and return its briefing, in at most 2,000 tokens unless set otherwise.

        Args:
            project: the project in which the agent works; by default the caller's.
            task: its task in at most 2,000 characters, by which patterns are chosen.
            client: the program that runs the agent, for display.
            metadata: what others are shown of the session, such as `branch`, `worktree`, `model`
                and up to 16 in all; by default, branch and worktree are those of the folder.

        Returns:
            The briefing. If the store cannot be written, there is no session, and `degraded` says
            so; it also says if the embedder did not answer.

        Raises:
            InvalidInputError: a name or value is too long or not printable.
            RejectedError: `limit_exceeded`, the task is too long; `secret_detected`.
            UnavailableError: the store cannot be read.

        """
        task_text = self._checked_task(task)
        caller = self._caller(project or self.caller.project, client)
        check_address((caller.project or "", client or ""), self.services.secret_scanner)
        given = checked_metadata(self.services, caller, given=metadata)
        checkout = self.services.processes.checkout(caller.contact.cwd)
        degraded: list[str] = []
        try:
            with write_unit(self.services, caller) as unit:
                opened = open_session(
                    unit,
                    contact=caller.contact,
                    task=task_text[:TASK_CHARS_MAX] or None,
                    metadata={**given, **checkout, **given},
                )
            caller = replace(caller, session=opened.key)
            attach_early_events(self.services, caller)
        except UnavailableError as error:
            degraded.append(f"session: {error.code}, {error.message}")
        return self._briefing(caller, task_text, degraded=degraded)

    def preview(self, project: str | None = None, task: str | None = None) -> Briefing:
        """Return the briefing that a boot would give; starts no session and changes nothing.

        Its session key is new and is not stored.

        Raises:
            InvalidInputError: the project is too long or not printable.
            RejectedError: `limit_exceeded`, the task is too long; `secret_detected`.
            UnavailableError: the store cannot be read.

        """
        task_text = self._checked_task(task)
        caller = replace(self.caller, project=project or self.caller.project, session=None)
        caller = replace(caller, session=new_session(self.services, caller).key)
        return self._briefing(caller, task_text, degraded=[], leaves_out_dead=True)

    def _briefing(
        self, caller: Caller, task: str, *, degraded: list[str], leaves_out_dead: bool = False
    ) -> Briefing:
        """Read the briefing of a session; a boot has ended the dead ones before."""
        task_vector = self._embed_task(caller, task, degraded=degraded)
        with read_unit(self.services, caller) as unit:
            dead_ids: frozenset[int] = frozenset()
            if leaves_out_dead:
                dead_ids = find_dead_sessions(unit.tx, self.services, now=unit.now).dead_ids
            material = gather_material(unit, task=task, task_vector=task_vector, dead_ids=dead_ids)
        return pack_briefing(
            replace(material, degraded=tuple(degraded)), limits=self.services.briefing_limits
        )

    def _checked_task(self, task: str | None) -> str:
        """Return the task on one line, checked and without secrets."""
        if task is not None and len(task) > QUERY_CHARS_MAX:
            raise RejectedError(
                f"The task has {len(task):,} characters; {QUERY_CHARS_MAX:,} are allowed.",
                code="limit_exceeded",
                hint="Describe the task in one or two sentences.",
            )
        return self.services.clean_text(
            normalise_line(task or "") or "", what="task", caller=self.caller
        )

    def _caller(self, project: str | None, client: str | None) -> Caller:
        named = normalise_line(client or "")
        contact = program_caller(self.services, self.caller).contact
        if named:
            contact = replace(contact, client=named[:NAME_CHARS_MAX])
        return replace(self.caller, project=project, contact=contact)

    def _embed_task(self, caller: Caller, task: str, *, degraded: list[str]) -> Matrix | None:
        """Embed the task once, only if there are patterns or pinned memories to choose."""
        if not task:
            return None
        with read_unit(self.services, caller) as unit:
            board = unit.tx.briefing
            if not (
                board.has_patterns(active_scope(unit, "patterns"))
                or board.pinned(active_scope(unit, "pinned"))
            ):
                return None
        try:
            return self.services.embedder.query(task)
        except UnavailableError as error:
            degraded.append(f"patterns: {error.code}, {error.message}")
            return None
