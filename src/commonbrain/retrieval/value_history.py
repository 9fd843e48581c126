"""What a memory said before: the chain of changes that ends in what holds now.

Agents store a new value next to the old one, so "30 s until 3 March, now 45 s" is spread over
several memories. The sure changes between them are read as one history.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from commonbrain.model import ids
from commonbrain.model.escaping import inert_line
from commonbrain.model.kinds import KINDS
from commonbrain.model.links import DISAGREEMENTS, Basis, Link, LinkType, basis_of, is_sure
from commonbrain.model.memory import Memory
from commonbrain.model.query import Filter, is_allowed
from commonbrain.model.scope import Caller
from commonbrain.model.support import may_outdate
from commonbrain.model.timestamps import show_day
from commonbrain.model.values import dataclass, field, replace
from commonbrain.storage.interface import Direction

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

_VALUES_MAX: Final = 3
"""Earlier values in one line, latest first; get shows the links to all of them."""
_STEPS_MAX: Final = 8
"""Changes followed in a row; each may cost two queries."""
_PER_MEMORY_MAX: Final = 8
"""Neighbours read of one memory, latest first, however many claim to change it."""
_VALUE_CHARS_MAX: Final = 60
"""About the length of a clause that states one value."""
_COMMON_WORDS_MIN: Final = 2
"""Leading words in common that name a subject; a single one is often an article."""
_VALUE_WORDS_MAX: Final = 4
"""A value is a name or a short phrase; more words make no sense without the first ones."""
_PUNCTUATION: Final = ".,;:!? "


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueChange:
    """Two memories of which the newer one surely changed the older."""

    older: Memory
    newer: Memory
    head: Memory
    """What holds now: the end of the chain of changes."""

    def line(self) -> str:
        """Describe what changed the older memory, with the calls that confirm and deny it."""
        older, newer, head = (
            ids.show(ids.MEMORY, one.id) for one in (self.older, self.newer, self.head)
        )
        pair = f"{newer} --other {older} --reason WHY"
        says = _clause(self.newer)
        if self.head.id != self.newer.id:
            says = f"{says} ({head} holds now: {_clause(self.head)})"
        return (
            f"since {show_day(self.newer.occurred_at)} {newer} says otherwise: {says}. "
            f"If it changed: revise resolve {pair}; if both hold: revise keep_both {pair}."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeReader:
    """Reads the changes between memories that the caller may see and that are current.

    A conflict that was detected counts as well, but for one of rules: the newer side wins it like a
    change until someone decides.
    """

    tx: Transaction
    caller: Caller
    now: datetime
    criteria: Filter
    known: Mapping[int, Memory] = field(default_factory=dict[int, Memory])
    """Memories that were read already."""
    links: Sequence[Link] | None = None
    """Links to follow between known memories; if None, both are read."""

    def histories(self, newest: Sequence[Memory]) -> Mapping[int, str]:
        """Describe what each memory said before, on one line; those that said nothing are absent.

        Latest value first, at most three, each with the day of the change and its id.
        """
        known = {**self.known, **{memory.id: memory for memory in newest}}
        frontier = {memory.id for memory in newest}
        changes: dict[int, list[ValueChange]] = {}
        for _ in range(_STEPS_MAX):
            fresh = self._step(frontier, way=Direction.ALONG, known=known)
            for change in fresh:
                changes.setdefault(change.newer.id, []).append(change)
            frontier = {change.older.id for change in fresh} - changes.keys()
            if not frontier:
                break
        return {memory.id: _history(memory, changes) for memory in newest if memory.id in changes}

    def successors(self, memories: Sequence[Memory]) -> Mapping[int, ValueChange]:
        """Map each outdated memory to the last change of it; all others are absent."""
        known = {**self.known, **{memory.id: memory for memory in memories}}
        last: dict[int, ValueChange] = {}
        frontier = {memory.id for memory in memories}
        for _ in range(_STEPS_MAX):
            fresh = self._step(frontier - last.keys(), way=Direction.AGAINST, known=known)
            for change in sorted(fresh, key=lambda one: _when(one.newer)):
                last[change.older.id] = change
            frontier = {change.newer.id for change in fresh}
            if not frontier - last.keys():
                break
        return {memory.id: _to_head(memory, last) for memory in memories if memory.id in last}

    def _step(
        self, ids_: Iterable[int], *, way: Direction, known: dict[int, Memory]
    ) -> Sequence[ValueChange]:
        """Return the changes that lead from some memories, which are added to `known`."""
        is_along = way is Direction.ALONG
        start = set(ids_)
        links = self.links
        if links is None:
            links = self.tx.links.touching(sorted(start), types=DISAGREEMENTS)
        ends = {
            (link.from_id, link.to_id): link
            for link in links
            if (link.from_id if is_along else link.to_id) in start and _is_detected(link)
        }
        neighbours = {id_: list[int]() for id_ in start}
        for newer, older in ends:
            neighbours[newer if is_along else older].append(older if is_along else newer)
        if self.links is None:
            # Ids begin with the time, so the highest are the latest.
            read = [
                id_
                for those in neighbours.values()
                for id_ in sorted(those, reverse=True)[:_PER_MEMORY_MAX]
            ]
            known |= self.tx.memories.get([id_ for id_ in read if id_ not in known])
        pairs = (
            (known[newer], known[older], link)
            for (newer, older), link in ends.items()
            if newer in known and older in known
        )
        return [
            ValueChange(older=older, newer=newer, head=newer)
            for newer, older, link in pairs
            if may_outdate(newer, older)
            and not (link.type is LinkType.CONFLICTS_WITH and KINDS[older.kind].is_binding)
            and link.trust.weight >= older.trust.weight
            and link.authority.covers(older.authority)
            and is_allowed(
                older if is_along else newer, self.caller, criteria=self.criteria, now=self.now
            )
        ]


def _clause(memory: Memory) -> str:
    return inert_line(memory.headline).rstrip(".")


def _is_detected(link: Link) -> bool:
    """Return whether a link says that one value replaced another; users link what disagrees."""
    if link.type is LinkType.CONFLICTS_WITH:
        return basis_of(link) is not Basis.SAID
    return link.type is LinkType.CHANGES and is_sure(link)


def _when(memory: Memory) -> tuple[datetime, int]:
    return memory.occurred_at, memory.id


def _to_head(memory: Memory, last: Mapping[int, ValueChange]) -> ValueChange:
    """Follow the changes of a memory to the one that holds now."""
    change = last[memory.id]
    head, seen = change.newer, {memory.id}
    # Two memories of the same time may be linked both ways.
    while head.id in last and head.id not in seen:
        seen.add(head.id)
        head = last[head.id].newer
    return replace(change, head=head)


def _history(newest: Memory, changes: Mapping[int, Sequence[ValueChange]]) -> str:
    """Render the values that a memory had before, each until the day of the next change."""
    ended: dict[int, ValueChange] = {}
    waiting = list(changes[newest.id])
    while waiting:
        change = waiting.pop()
        known = ended.get(change.older.id)
        if known is None:
            waiting += changes.get(change.older.id, ())
        if known is None or _when(change.newer) < _when(known.newer):
            ended[change.older.id] = change
    latest = sorted(ended.values(), key=lambda one: _when(one.older), reverse=True)
    values = [
        f'"{shorten_value(one.older.headline, newer=newest.headline)}" until '
        f"{show_day(one.newer.occurred_at)} ({ids.show(ids.MEMORY, one.older.id)})"
        for one in latest[:_VALUES_MAX]
    ]
    more = [f"and {len(latest) - _VALUES_MAX} more"] if len(latest) > _VALUES_MAX else []
    return ", ".join([*values, *more])


def shorten_value(older: str, *, newer: str) -> str:
    """Return what an older statement says otherwise: without the first words if both have them."""
    old, new = inert_line(older).split(), inert_line(newer).split()
    common = 0
    for one, other in zip(old[:-1], new, strict=False):
        if one.casefold() != other.casefold():
            break
        common += 1
    is_value = common >= _COMMON_WORDS_MIN and len(old) - common <= _VALUE_WORDS_MAX
    rest = " ".join(old[common:] if is_value else old).strip(_PUNCTUATION).replace('"', "'")
    return rest if len(rest) <= _VALUE_CHARS_MAX else f"{rest[: _VALUE_CHARS_MAX - 1].rstrip()}…"
