"""Repeated corrections: the same correction by several sessions, or one memory corrected often."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, cast

from commonbrain.model.kinds import KINDS, Kind, Severity
from commonbrain.model.limits import CORRECTIONS_MAX, SOURCES_MAX
from commonbrain.model.links import LinkType
from commonbrain.model.memory import CURRENT_STATES, Draft, Memory
from commonbrain.model.revision import Action, Change
from commonbrain.model.scope import Caller, Role, Scope, is_visible, isolates
from commonbrain.model.trust import Trust
from commonbrain.storage.change_log import annotation_of
from commonbrain.storage.interface import Transaction
from commonbrain.text.statements import Statement, read_statement
from commonbrain.text.summaries import CORRECTION

CORRECTIONS_MIN: Final = 3
"""Two may be a coincidence."""
_WORDS_MIN: Final = 4
"""Corrections with fewer content words, such as "outdated", say the same of everything."""
_ALIKE: Final = 0.6
"""Share of common words from which two corrections say the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """One correction: of which memory, and its text."""

    of: int
    """The newest revision of the corrected memory."""
    text: str
    by: tuple[str, str | None]
    """The agent and its session."""
    trust: Trust | None = None
    """The trust of an annotation or forget reason; None for a change of the memory itself."""


def repeated(corrections: Sequence[Correction]) -> list[tuple[Correction, ...]]:
    """Group corrections that say the same, and return groups from three or more sessions."""
    groups: list[list[Correction]] = []
    for one in corrections:
        if len(read_statement(Statement(text=one.text)).content) < _WORDS_MIN:
            continue
        group = next((group for group in groups if is_alike(group[0].text, one.text)), None)
        if group is None:
            groups.append([one])
        else:
            group.append(one)
    return [tuple(group) for group in groups if len({one.by for one in group}) >= CORRECTIONS_MIN]


def is_alike(one: str, other: str) -> bool:
    """Return whether two texts share most words and neither negates the other."""
    first, second = read_statement(Statement(text=one)), read_statement(Statement(text=other))
    every = first.content | second.content
    shared = first.content & second.content
    is_same_claim = first.is_denied == second.is_denied and first.numbers == second.numbers
    return bool(every) and is_same_claim and len(shared) >= _ALIKE * len(every)


_LOOKBACK: Final = timedelta(days=30)
"""Older corrections say little about current work."""
_CHAIN_MAX: Final = 50
"""Revisions followed from a memory to its newest."""
_QUOTED: Final = 3
"""Reasons quoted in a proposed rule, latest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _CorrectedMemories:
    """Recent corrections, and the corrected memories by their newest revision."""

    corrections: tuple[Correction, ...]
    heads: Mapping[int, Memory]


def rules(tx: Transaction, caller: Caller, *, project: str | None, now: datetime) -> list[Draft]:
    """Propose rules, with the corrected memories as their sources.

    One for each correction that three sessions gave in similar words, and one for each memory that
    was corrected three times. At most one is ever proposed for a memory.
    """
    corrected = _load_corrections(tx, caller, project=project, since=now - _LOOKBACK)
    settled = _settled(tx, list(corrected.heads))
    fresh = [one for one in corrected.corrections if one.of not in settled]
    said = [one for one in fresh if one.text]
    made: list[Draft] = []
    covered: set[int] = set()
    for group in repeated(said):
        covered.update(one.of for one in group)
        made.append(_rule(group[-1].text, group, heads=corrected.heads, caller=caller))
    for head, those in _by_lineage(fresh):
        if head not in covered and len(those) >= CORRECTIONS_MIN:
            caution = _caution(corrected.heads[head], those)
            made.append(_rule(caution, those, heads=corrected.heads, caller=caller))
    return made


def _load_corrections(
    tx: Transaction, caller: Caller, *, project: str | None, since: datetime
) -> _CorrectedMemories:
    changes = tx.changes.by(
        agent=None, session=None, since=since, until=None, limit=CORRECTIONS_MAX
    )
    read = [(one.memory_id, correction) for one in reversed(changes) for correction in _read(one)]
    known = tx.memories.get(sorted({id_ for id_, _ in read}))
    kept = {
        id_: head
        for id_, head in _heads(tx, known).items()
        # The correction of a private memory stays private if a shared one replaces that.
        if _is_shareable(known[id_], caller)
        and _can_support_rule(head, caller)
        and not (project and isolates(project, head.project))
    }
    return _CorrectedMemories(
        corrections=tuple(replace(one, of=kept[id_].id) for id_, one in read if id_ in kept),
        heads={head.id: head for head in kept.values()},
    )


def _read(change: Change) -> Iterator[Correction]:
    """Parse a change as a correction, if it is one; a vote has no text.

    Untrusted annotations do not count, or three strangers could make a rule.
    """
    by = change.agent, change.session
    match change.action:
        case Action.SUPERSEDE:
            yield Correction(of=change.memory_id, text=change.reason or "", by=by)
        case Action.ANNOTATE if "annotation" in change.after:
            noted = annotation_of(cast("Mapping[str, Any]", change.after["annotation"]))
            if noted.trust is not Trust.UNTRUSTED_WEB:
                yield Correction(of=noted.memory_id, text=noted.text, by=by, trust=noted.trust)
        case Action.RATE:
            before, after = (image.get("rating") for image in (change.before, change.after))
            if isinstance(before, int) and isinstance(after, int) and after < before:
                yield Correction(of=change.memory_id, text="", by=by)
        case _:
            return


def _heads(tx: Transaction, known: Mapping[int, Memory]) -> dict[int, Memory]:
    """Follow memories to their newest revisions."""
    heads = {**known}
    for _ in range(_CHAIN_MAX):
        successors = {id_: one.superseded_by for id_, one in heads.items() if one.superseded_by}
        if not successors:
            break
        later = tx.memories.get(sorted(set(successors.values())))
        heads |= {id_: later[to] for id_, to in successors.items() if to in later}
        if not any(to in later for to in successors.values()):
            break
    return heads


def _can_support_rule(memory: Memory, caller: Caller) -> bool:
    """Return whether a rule may be derived from a memory.

    Current, visible and not another's private.
    """
    is_claimed = memory.trust.weight <= caller.trust_ceiling.weight
    # An untrusted rule would be quarantined and reveal the author of its sources.
    is_trusted = memory.trust is not Trust.UNTRUSTED_WEB
    holds = KINDS[memory.kind].learns_from_corrections and memory.state in CURRENT_STATES
    return is_claimed and is_trusted and holds and _is_shareable(memory, caller)


def _is_shareable(memory: Memory, caller: Caller) -> bool:
    """Return whether derived memories may repeat a memory; a private one is its author's only."""
    is_own = memory.scope is not Scope.PRIVATE or memory.agent == caller.agent
    return is_own and is_visible(caller, memory)


def _settled(tx: Transaction, heads: Sequence[int]) -> set[int]:
    """Return the memories for which a rule was proposed before."""
    links = tx.links.touching(heads, types=[LinkType.DERIVED_FROM]) if heads else []
    made = [one for one in links if one.to_id in set(heads)]
    known = tx.memories.get([one.from_id for one in made])
    return {
        one.to_id for one in made if one.from_id in known and known[one.from_id].label == CORRECTION
    }


def _by_lineage(corrections: Sequence[Correction]) -> Iterator[tuple[int, list[Correction]]]:
    of: defaultdict[int, list[Correction]] = defaultdict(list)
    for one in corrections:
        of[one.of].append(one)
    yield from of.items()


def _caution(head: Memory, corrections: Sequence[Correction]) -> str:
    """Return the text of the rule and the reasons, in the words of the corrections."""
    reasons = list(dict.fromkeys(one.text for one in corrections if one.text))[-_QUOTED:]
    why = "".join(f"\n- {reason}" for reason in reasons)
    known = f" Reasons given:{why}" if reasons else ""
    return (
        f'Check before relying on "{head.headline}": it was corrected {len(corrections)} times.'
        f"{known}"
    )


def _rule(
    text: str,
    corrections: Sequence[Correction],
    *,
    heads: Mapping[int, Memory],
    caller: Caller,
) -> Draft:
    """Draft a rule derived from the largest compatible group of corrected memories."""
    classes: defaultdict[tuple[object, ...], dict[int, Memory]] = defaultdict(dict)
    for one in corrections:
        head = heads[one.of]
        classes[head.project, head.scope, head.trust][head.id] = head
    most = max(classes.values(), key=len)
    first = next(iter(most.values()))
    said = [one.trust for one in corrections if one.trust is not None]
    is_beyond = first.scope is Scope.GLOBAL and caller.role is not Role.ADMIN
    return Draft(
        body=text,
        kind=Kind.RULE,
        severity=Severity.PATTERN,
        label=CORRECTION,
        project=first.project,
        scope=Scope.TEAM if is_beyond else first.scope,
        trust=min([first.trust, *said], key=lambda one: one.weight),
        auto_captured=True,
        is_candidate=True,
        derived_from=tuple(most)[:SOURCES_MAX],
    )
