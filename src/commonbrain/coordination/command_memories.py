"""Recall for commands: the rules that bind what an agent runs, and what else names it.

Only words are compared, so that neither an embedder nor a model is loaded.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from commonbrain.coordination.sessions import note_shown
from commonbrain.history.unit_of_work import UnitOfWork, read_unit, write_unit
from commonbrain.ingestion.failures import FAILURE_LABEL
from commonbrain.model import ids
from commonbrain.model.kinds import Kind, Severity, kinds_where, severity_of
from commonbrain.model.query import Filter, is_allowed
from commonbrain.model.scope import Authority
from commonbrain.model.skills import skill_of
from commonbrain.retrieval.order import is_persons_blocker
from commonbrain.retrieval.proactive import record_shown, shown_to
from commonbrain.retrieval.value_history import ChangeReader
from commonbrain.text.commands import names_command

if TYPE_CHECKING:
    from commonbrain.model.memory import Memory
    from commonbrain.model.scope import Caller
    from commonbrain.services import Services
    from commonbrain.text.commands import ShellCommand

_READ: Final = 200
"""Memories with a word of the commands that are read; most of them are about something else."""
_BINDING_MAX: Final = 5
"""Rules shown of each severity, and skills."""
_INFORMING_MAX: Final = 3
"""Few, because the agent did not ask for them."""
_SKILL: Final = "SKILL"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandMemory:
    """A memory about a command."""

    id: str
    label: str
    """Its severity, its kind, or that it is a skill."""
    headline: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandMemories:
    """Memories about commands."""

    binding: tuple[CommandMemory, ...] = ()
    """Rules that a person wrote or confirmed: BLOCKERs, then patterns, then skills."""
    informing: tuple[CommandMemory, ...] = ()
    """What else names them."""
    binds: bool = False
    """Whether rules bind the commands, also if they were shown within 5 minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallForCommands:
    """Finds what a caller should know about commands that it runs."""

    services: Services
    caller: Caller
    conversation: str = ""
    """Distinguishes the subagents of one session."""
    seen: Collection[str] = ()
    """Ids of what the conversation was shown; that of the session is known."""

    def __call__(self, commands: Sequence[ShellCommand]) -> CommandMemories:
        """Return memories about commands.

        The same BLOCKERs are returned again after 5 minutes at the earliest, others once a session.

        Raises:
            UnavailableError: the store cannot be read, or cannot be written to note the rules.

        """
        unwritten = self.services.journal.unwritten_shown(self.caller)
        with read_unit(self.services, self.caller) as unit:
            shown = shown_to(unit.tx, self.caller, unwritten=unwritten)
            about = _memories_about(unit, commands)
        news = {
            one.id
            for one in about
            if one.id not in shown and ids.show(ids.MEMORY, one.id) not in self.seen
        }
        binding = _binding([one for one in about if one.id in news or is_persons_blocker(one)])
        informing = _informing([one for one in about if one.id in news])
        if binding or informing:
            shown_ids = [ids.parse(ids.MEMORY, one.id) for one in (*binding, *informing)]
            record_shown(self.services, self.caller, ids=shown_ids, reviews=(), at=unit.now)
        blockers = [one for one in binding if one.label == Severity.BLOCKER]
        repeated = blockers if blockers and self._is_repeated(blockers) else []
        return CommandMemories(
            binding=tuple(one for one in binding if one not in repeated),
            informing=informing,
            binds=bool(binding),
        )

    def _is_repeated(self, blockers: Sequence[CommandMemory]) -> bool:
        """Return whether the conversation was shown these lately, whatever it ran then."""
        shown_ids = [one.id for one in blockers]
        with write_unit(self.services, self.caller) as unit:
            since = note_shown(unit, [self.conversation, *shown_ids], shown_ids=shown_ids)
        return since is not None


def _memories_about(unit: UnitOfWork, commands: Sequence[ShellCommand]) -> list[Memory]:
    """List memories in scope that are about commands, what names them exactly first."""
    criteria = Filter(
        kinds=kinds_where(lambda policy: policy.answers_edits),
        project=unit.caller.project,
        trust_min=unit.services.parameters_for(unit.caller).proactive_trust_min,
    )
    scope = unit.query_scope(criteria)
    # However much of models is about a command, none of it pushes a person's rules out.
    rules = Filter(kinds=(Kind.RULE,), project=unit.caller.project, authority=Authority.PERSON)
    persons = unit.query_scope(rules)
    phrases = list(dict.fromkeys(one for command in commands for one in command.phrases))
    hits = [
        *unit.tx.index.lexical(phrases, persons, limit=_READ),
        *unit.tx.index.lexical(phrases, scope, limit=_READ),
    ]
    blockers = unit.tx.briefing.blockers(persons, limit=_READ)
    candidates = [*(hit.id for hit in hits), *blockers.ids, *unit.tx.memories.skills(persons)]
    read = unit.tx.memories.get(list(dict.fromkeys(candidates)))
    about = [
        one
        for one in read.values()
        if is_allowed(one, unit.caller, criteria=criteria, now=unit.now)
        and _is_about(one, commands, project=unit.caller.project)
    ]
    reader = ChangeReader(tx=unit.tx, caller=unit.caller, now=unit.now, criteria=criteria)
    outdated = reader.successors(about)
    fresh = [one for one in about if one.id not in outdated]
    return sorted(fresh, key=lambda one: (not _names(one, commands), -one.id))


def _is_about(memory: Memory, commands: Sequence[ShellCommand], *, project: str | None) -> bool:
    skill = skill_of(memory)
    if skill is not None and not skill.holds_in(project):
        return False
    if memory.label == FAILURE_LABEL:
        # It is shown at the failure, where it helps.
        return False
    if memory.kind is Kind.RULE and not _binds(memory):
        # What binds is what a person wrote or confirmed, and another rule could seem to.
        return False
    if _names(memory, commands):
        return True
    if memory.kind not in {Kind.RULE, Kind.INCIDENT}:
        return False
    kinds = [kind for command in commands for kind in command.kinds]
    keywords = skill.keywords if skill else ()
    return any(kind.says.search(memory.text) for kind in kinds) or any(
        kind.name in keyword for kind in kinds for keyword in keywords
    )


def _names(memory: Memory, commands: Sequence[ShellCommand]) -> bool:
    return any(names_command(command, memory.text) for command in commands)


def _binds(memory: Memory) -> bool:
    return memory.kind is Kind.RULE and memory.authority is Authority.PERSON


def _binding(about: Sequence[Memory]) -> tuple[CommandMemory, ...]:
    rules = [_shown(one) for one in about if _binds(one)]
    labels = (Severity.BLOCKER, Severity.PATTERN, _SKILL)
    each = ([one for one in rules if one.label == label][:_BINDING_MAX] for label in labels)
    return tuple(one for listed in each for one in listed)


def _informing(about: Sequence[Memory]) -> tuple[CommandMemory, ...]:
    return tuple(_shown(one) for one in about if not _binds(one))[:_INFORMING_MAX]


def _shown(memory: Memory) -> CommandMemory:
    severity = severity_of(memory.detail) if _binds(memory) else None
    label = _SKILL if skill_of(memory) and severity else severity or memory.kind.upper()
    return CommandMemory(
        id=ids.show(ids.MEMORY, memory.id), label=str(label), headline=memory.headline
    )
