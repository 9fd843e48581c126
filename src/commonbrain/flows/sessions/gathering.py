"""Everything a briefing could tell, gathered in one snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from commonbrain.domain.boot import CAPS, CUT_IDS_MAX, Listed, Material
from commonbrain.domain.briefing import Entry, Inherited, WorkingContext
from commonbrain.domain.kinds import Kind
from commonbrain.domain.limits import SKILLS_MAX
from commonbrain.domain.memory import Memory, State
from commonbrain.domain.query import Filter, is_allowed
from commonbrain.domain.scoring import is_dormant
from commonbrain.flows.act import Act
from commonbrain.flows.duty import pending_items
from commonbrain.flows.messages.inbox import unread_of
from commonbrain.flows.sessions.handoff import last_handoff
from commonbrain.flows.sessions.notes import pinned_notes
from commonbrain.flows.sessions.registry import siblings
from commonbrain.flows.sessions.shown import (
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
from commonbrain.flows.skills import always_on, fired
from commonbrain.ports.board import Ranked
from commonbrain.ports.look import Look
from commonbrain.ports.models import Matrix

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
